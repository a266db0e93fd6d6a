"""Only one module gives files their final names, so that all that others read appears whole."""

import ast

from pages import modules

RENAMES = {"rename", "renames", "replace", "move"}


def renames(call: ast.Call) -> bool:
    """Whether a call gives a file or folder another name; strings, too, replace, but one thing by another."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in RENAMES):
        return False
    of_system = isinstance(call.func.value, ast.Name) and call.func.value.id in ("os", "shutil")
    return of_system or (len(call.args) == 1 and not call.keywords)


def test_nothing_is_published_past_the_one_module() -> None:
    found = {
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and renames(node)
    }
    assert {place.partition(":")[0] for place in found} == {"files.py"}, sorted(found)
