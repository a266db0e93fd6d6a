"""What ``make audit`` says and returns."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from audit import audit

DOWN = """WARNING:pip_audit._cli:something
Traceback (most recent call last):
  File "adapters.py", line 723, in send
requests.exceptions.ProxyError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded"""
UNKNOWN = "ERROR:pip_audit._cli:a: Dependency not found on PyPI and could not be audited: a (1.0)"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell of Unix")
@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ("No known vulnerabilities found", 0, "No known vulnerabilities found\n"),
        ("Found 1 known vulnerability in 1 package", 1, "Found 1 known vulnerability in 1 package\n"),
        (DOWN, 1, "The audit is not done, .* said: requests.exceptions.ProxyError: .* exceeded\n"),
        (UNKNOWN, 1, "The audit is not done, .* said: ERROR:pip_audit._cli:a: Dependency not found .*\n"),
    ],
)
def test_the_audit_says_in_a_sentence_what_it_found(
    said: str, code: int, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pip_audit = tmp_path / "pip-audit"
    pip_audit.write_text(f"#!/bin/sh\necho \"$@\"\ncat >&2 <<'END'\n{said}\nEND\nexit {code}\n")
    pip_audit.chmod(0o755)
    assert audit(str(pip_audit), "locked.txt") == code
    arguments, found = capfd.readouterr()
    assert re.fullmatch(told, found)
    assert "--strict" in arguments, "what is not looked up has to be a failure"
    assert arguments.split()[-1] == "locked.txt"


def test_make_audits_the_locked_set() -> None:
    make = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    assert ".venv-audit/bin/python tests/support/audit.py .venv-audit/bin/pip-audit locked.txt" in make
