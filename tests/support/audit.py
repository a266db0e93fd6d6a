"""Known faults of the packages in ``locked.txt``, by pip-audit: ``python tests/support/audit.py PIP-AUDIT LOCKED.TXT``.

By itself pip-audit leaves out packages that its service does not know, which it calls a success, and shows its own code
where the network fails. Here all of them have to be looked up, and what fails is a sentence.
"""

from __future__ import annotations

import subprocess
import sys

_OPTIONS = ("--strict", "--progress-spinner", "off", "--no-deps", "--disable-pip", "--requirement")


def audit(pip_audit: str, requirements: str) -> int:
    """Print what is known of packages with exact versions, and return the exit code: 0 where none has a fault."""
    run = subprocess.run([pip_audit, *_OPTIONS, requirements], stderr=subprocess.PIPE, text=True, check=False)
    said = [line for line in run.stderr.splitlines() if line.strip() and not line.startswith("WARNING:")] or ["nothing"]
    looked_up = run.returncode == 0 or any(line.startswith("Found ") for line in said)
    sys.stderr.write(
        "\n".join(said) + "\n"
        if looked_up
        else f"The audit is not done, because faults could not be looked up. pip-audit said: {said[-1]}\n"
    )
    return run.returncode


if __name__ == "__main__":
    sys.exit(audit(*sys.argv[1:]))
