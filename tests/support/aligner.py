"""A program in eflomal's place, which links the tokens of a pair in their order, in both directions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

PROGRAM = f"""#!{sys.executable}
import sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(given["-s"]) as source, open(given["-t"]) as target, open(given["-f"], "w") as f, open(given["-r"], "w") as r:
    for one, other in zip(source, target):
        links = " ".join(f"{{i}}-{{i}}" for i in range(min(len(one.split()), len(other.split()))))
        print(links, file=f)
        print(links, file=r)
"""


def put_aligner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the program be found before any other; returns its file."""
    program = tmp_path / "bin" / "eflomal-align"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program
