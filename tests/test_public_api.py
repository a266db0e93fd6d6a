"""The names that ``import locant`` and its rooms offer."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import settings_page
from api_page import PAGE, ROOMS, line_of, lists, written

import locant

PACKAGE = Path(locant.__file__).parent
HEAVY = {"torch", "numpy", "pydantic", "yaml", "rich", "sentencepiece", "safetensors", "sacrebleu", "transformers"}


def run_python(program: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_importing_locant_or_a_room_imports_nothing_heavy():
    program = "import sys, {}; print(sorted({{name.partition('.')[0] for name in sys.modules}} & {}))"
    assert run_python(program.format(", ".join(["locant", "locant.cli", *ROOMS]), HEAVY)) == "[]"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there_and_explained(room):
    module = importlib.import_module(room)
    assert module.__all__
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert line_of(room, name), f"{room}.{name} has no docstring"


def test_dir_lists_what_is_public_and_nothing_else():
    for room in ["locant", "locant.positions"]:
        module = importlib.import_module(room)
        listed = {name for name in dir(module) if not name.startswith("__")}
        inside = {name for name in listed if inspect.ismodule(getattr(module, name))}
        assert listed - inside == {name for name in module.__all__ if not name.startswith("__")}
    assert {"train", "Rotary", "positions", "figures"} <= set(dir(locant))


def test_rooms_are_attributes_and_modules_that_are_imported_first_do_not_hide_the_exports_of_their_names():
    modules = ("locant.rotary_configs.identify", "locant.positions.huggingface.install")
    # Each begins with nothing of the package imported; PyTorch stays, or it would take seconds every time.
    program = """
import importlib, inspect, sys
import locant
assert locant.positions.Rotary.__name__ == "Rotary"
for module in sys.argv[1:]:
    room, name = module.rsplit(".", 1)
    for known in [one for one in sys.modules if one.partition(".")[0] == "locant"]:
        del sys.modules[known]
    importlib.import_module(module)
    if inspect.ismodule(getattr(importlib.import_module(room), name)):
        print(module)
"""
    assert run_python(program, *modules) == ""


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'locant' has no attribute 'no_such_name'"):
        locant.no_such_name  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("locant.no_such_room")


@pytest.mark.parametrize("room", ["locant", "locant.positions", "locant.models"])
def test_exports_can_be_pickled(room):
    module = importlib.import_module(room)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert pickle.loads(pickle.dumps(value)) is value


def test_the_page_lists_the_public_names():
    page = PAGE.read_text(encoding="utf-8")
    assert written(page).strip() == lists().strip(), "write it again: python tools/api_page.py"


def test_the_page_of_settings_is_made_of_their_classes():
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), (
        "write it again: python tools/settings_page.py"
    )


def test_tests_and_benchmarks_import_names_that_are_there_and_no_private_ones():
    wrong, root = [], PAGE.parents[1]
    for path in sorted([*root.glob("tests/**/*.py"), *root.glob("benchmarks/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "locant"):
                continue
            for alias in node.names:
                private = alias.name.startswith("_") and not alias.name.startswith("__")
                room = importlib.import_module(node.module) if "benchmarks" in path.parts else None
                missing = room and not hasattr(room, alias.name)
                if missing and hasattr(room, "__path__"):
                    missing = importlib.util.find_spec(f"{node.module}.{alias.name}") is None
                if private or missing:
                    wrong.append(f"{path.relative_to(root)}:{node.lineno} imports {alias.name} of {node.module}")
    assert not wrong, "\n".join(wrong)


def test_stubs_export_for_type_checkers_what_the_packages_export():
    for stub in PACKAGE.rglob("__init__.pyi"):
        room = importlib.import_module(".".join(["locant", *stub.parent.relative_to(PACKAGE).parts]))
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    # `import a as b` exports to a type checker what `__all__` lists, and nothing else.
                    exported = alias.asname in (None, alias.name, *room.__all__)
                    assert exported, f"{stub}: {alias.name} as {alias.asname}"
