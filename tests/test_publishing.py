"""Only one function gives files their names, and only known places write files at all.

Everything that others read appears through ``locant.files``: written elsewhere, flushed, renamed. The modules below
write by themselves, each for the reason beside it; a new one belongs into ``locant.files`` or needs a reason too.
"""

import ast
from collections.abc import Iterator

import pytest
from pages import modules

IN_A_TEMPORARY_FOLDER = "into a folder that replacing_folder, replacing_file or workplace has given"
WRITERS = {
    "files.py": "all others write through it",
    "locks.py": "the note of who holds a lock, in the file that is locked",
    "app/explore.py": "into a folder that vanishes with the block",
    "app/gallery.py": IN_A_TEMPORARY_FOLDER,
    "server/serving.py": "into a folder that vanishes with the server",
    "text/columns.py": "columns that grow, whose marks say how much of them is whole",
    "app/web_page.py": IN_A_TEMPORARY_FOLDER,
    "extension/extend/extend.py": IN_A_TEMPORARY_FOLDER,
    "extension/extend/folder.py": IN_A_TEMPORARY_FOLDER,
    "extension/extend/gguf.py": IN_A_TEMPORARY_FOLDER,
    "extension/layouts/convert.py": IN_A_TEMPORARY_FOLDER,
    "extension/layouts/stored.py": IN_A_TEMPORARY_FOLDER,
    "extension/passed_on.py": IN_A_TEMPORARY_FOLDER,
    "figures/files.py": IN_A_TEMPORARY_FOLDER,
    "extension/asked/build.py": IN_A_TEMPORARY_FOLDER,
    "interop/argos.py": IN_A_TEMPORARY_FOLDER,
    "interop/m2m100.py": IN_A_TEMPORARY_FOLDER,
    "interop/onnx_export.py": IN_A_TEMPORARY_FOLDER,
    "interop/sentencepiece_models.py": IN_A_TEMPORARY_FOLDER,
    "kernels/library.py": IN_A_TEMPORARY_FOLDER,
    "text/tokenizer_pair.py": IN_A_TEMPORARY_FOLDER,
    "server/files.py": "into a folder of its own, under names that are told when the files are whole",
    "streams.py": "to devices, pipes and open descriptors",
    "training/checkpoint.py": IN_A_TEMPORARY_FOLDER,
    "training/generation.py": IN_A_TEMPORARY_FOLDER,
    "training/run.py": IN_A_TEMPORARY_FOLDER,
}

RENAMES = {"rename", "renames", "replace", "move"}
WRITES = {
    "write_text",
    "write_bytes",
    "touch",
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "copyfileobj",
    "save_file",
    "link",
    "symlink",
    "hardlink_to",
    "symlink_to",
}
SYSTEM = {"os", "shutil"}


def calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the kind, ``renames`` or ``writes``, of every call that does either."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
        # Strings replace one thing by another; a path is replaced by one argument.
        one = len(node.args) == 1 and not node.keywords and isinstance(node.func, ast.Attribute)
        if name in RENAMES and (of in SYSTEM or one):
            yield node.lineno, "renames"
        elif name in WRITES and (isinstance(node.func, ast.Attribute) or name == "save_file"):
            if name != "copy" or of == "shutil":
                yield node.lineno, "writes"
        elif name == "open":
            place = 0 if isinstance(node.func, ast.Attribute) else 1
            given = [*node.args[place : place + 1], *(word.value for word in node.keywords if word.arg == "mode")]
            if any(isinstance(mode, ast.Constant) and set("wax+") & set(str(mode.value)) for mode in given):
                yield node.lineno, "writes"


def test_nothing_is_published_past_the_one_function() -> None:
    wrong, writers = [], set()
    for name, tree in modules().items():
        for line, kind in calls(tree):
            if kind == "writes":
                writers.add(name)
            if name != "files.py" and (kind == "renames" or name not in WRITERS):
                wrong.append(f"{name}:{line} {kind}")
    assert not wrong, "\n".join(["Files are written and renamed by locant.files alone:", *wrong])
    assert writers | {"locks.py"} == set(WRITERS), "modules that write no more are taken off the list"


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("os.replace(a, b)", ["renames"]),
        ("shutil.move(a, b)", ["renames"]),
        ("path.replace(other)", ["renames"]),
        ("text.replace('a', 'b')", []),
        ("replace(settings, steps=1)", []),
        ("path.open('wb')", ["writes"]),
        ("open(path, mode='a')", ["writes"]),
        ("path.open(encoding='utf-8')", []),
        ("path.write_text(text)", ["writes"]),
        ("model.copy()", []),
        ("write_text(path, text)", []),
    ],
)
def test_the_reader_of_calls(source: str, kinds: list[str]) -> None:
    assert [kind for _, kind in calls(ast.parse(source))] == kinds
