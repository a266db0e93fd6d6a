"""The examples in docstrings run, and say what they show."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest
from example_files import prepare

import locant

PACKAGE = Path(locant.__file__).parent
FILES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
}


@pytest.mark.parametrize("name", FILES)
def test_examples(name, tmp_path, example_store, monkeypatch, capsys):
    prepare(FILES[name].read_text(encoding="utf-8"), tmp_path, example_store)
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), verbose=False)
    assert result.failed == 0, capsys.readouterr().out
    assert result.attempted or "+SKIP" in FILES[name].read_text(encoding="utf-8")


def test_every_class_of_a_scheme_and_of_a_scaling_has_an_example():
    from locant.positions import SCALINGS, SCHEMES

    kinds = {*SCHEMES.values(), *SCALINGS.values()}
    assert not sorted(kind.__name__ for kind in kinds if ">>> " not in (kind.__doc__ or ""))


def test_examples_import_only_what_is_public():
    wrong = []
    for name in FILES:
        tests = doctest.DocTestFinder().find(importlib.import_module(name))
        for example in (example for test in tests for example in test.examples):
            for node in ast.walk(ast.parse(example.source)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("locant"):
                    room = importlib.import_module(node.module or "")
                    if (node.module or "").count(".") > 1 or not hasattr(room, "__all__"):
                        wrong.append(f"{name}: from {node.module}")
                    else:
                        wrong += [f"{name}: {alias.name}" for alias in node.names if alias.name not in room.__all__]
    assert not wrong, "\n".join(wrong)
