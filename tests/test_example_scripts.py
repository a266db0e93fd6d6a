"""The scripts in ``examples`` run as they say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from example_files import prepare
from pages import ROOT

EXAMPLES = ROOT / "examples"
ARGUMENTS = {
    "rope_in_a_gpt.py": ["--steps", "3"],
    "compare_my_scheme.py": ["--steps", "2"],
    "translate_files.py": ["runs/en-de", "book.txt"],
    "exact_llama.py": [],
}


def test_each_script_has_a_row_in_the_list():
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert {name for name in scripts if f"[{name}]({name})" in page} == scripts
    assert ARGUMENTS.keys() <= scripts


@pytest.mark.slow
@pytest.mark.parametrize("script", ARGUMENTS)
def test_scripts_run(script, tmp_path, example_store):
    prepare(" ".join(ARGUMENTS[script]), tmp_path, example_store)
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *ARGUMENTS[script]],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()
    if script == "translate_files.py":
        translated = (tmp_path / "book.de.txt").read_text(encoding="utf-8")
        assert translated.count("\n") == (tmp_path / "book.txt").read_text(encoding="utf-8").count("\n")
    if script == "exact_llama.py":
        *_, far = found.stdout.splitlines()
        theirs, ours = map(float, far.split()[1:])
        assert ours < theirs
