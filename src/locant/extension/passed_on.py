"""What a changed model keeps of a model's folder: files, linked where they can be or else copied, and its card."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from locant.errors import CheckpointError

WEIGHTS = ".safetensors"
# Pickles and code are never passed on; the others are the same weights for other software.
_PICKLES_AND_CODE = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".py", ".pyc", ".so")
_LEFT_OUT = {*_PICKLES_AND_CODE, ".gguf", ".onnx", ".h5", ".msgpack", ".tflite", ".zip", ".tar", ".gz"}


def passed_on_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a model's folder that may be passed on, in the order of their names."""
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith(".") and file.suffix.lower() not in _LEFT_OUT:
            yield file


def pass_on(file: Path, target: Path, *, may_link: bool = True) -> None:
    """Link a file with weights, where that may be and the file system can, and copy any other.

    Raises:
        CheckpointError: The disk has no room for a copy.
        OSError: It is not writable.
    """
    if may_link and file.suffix == WEIGHTS:
        with suppress(OSError):  # another disk, or a file system without links
            os.link(file.resolve(), target)  # in the Hub's cache files are symbolic links
            return
    size, free = file.stat().st_size, shutil.disk_usage(target.parent).free
    if size > free:
        needed = f"{target.name} needs {size / 1e9:.1f} GB and {free / 1e9:.1f} are free"
        raise CheckpointError(f"The disk is full: {needed}. Nothing was written.")
    shutil.copyfile(file, target)


def card_with(section: str, card: str, *, command: str, title: str) -> str:
    """Return a model card with the section of a command, in the place of an earlier one of the same command.

    Args:
        section: In Markdown, with its heading.
        card: The text of README.md, empty where there is none.
        command: Name of the command.
        title: Heading of a card that is new.
    """
    start, end = f"<!-- locant {command} -->", f"<!-- end of locant {command} -->"
    rest = re.sub(f"\n*{start}.*?{end}\n*", "\n", card, flags=re.DOTALL).rstrip() or f"# {title}"
    return f"{rest}\n\n{start}\n{section}\n{end}\n"
