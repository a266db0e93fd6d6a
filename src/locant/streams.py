"""Devices, pipes and open descriptors in place of files: what is written to them goes through."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# As Linux, macOS and the BSDs name the files that a process has open.
_DESCRIPTOR = re.compile(r"/(?:dev/fd|proc/(?:self|thread-self|(?P<process>\d+))/fd)/(?P<number>\d+)")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MOST_LINKS = 40  # that systems follow


def is_stream(path: Path) -> bool:
    """Return whether a path, or what it links to, is a device, a pipe, a socket or an open descriptor.

    Raises:
        OSError: The path cannot be looked at.
    """
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """Open what :func:`is_stream` says is one, for writing.

    A descriptor is written from where it stands: a file to which a shell redirects the program is not cut off, and
    stays the one that the shell has open.

    Raises:
        OSError: It cannot be written.
    """
    descriptor = _descriptor(path)
    if descriptor is None:
        with path.open("wb") as file:
            yield file
        return
    for standard in (sys.stdout, sys.stderr):
        standard.flush()  # what was printed before stands before
    with os.fdopen(os.dup(descriptor), "wb") as file:
        yield file


def copy_to_stream(file: Path, path: Path) -> None:
    """Write the content of a file to a stream.

    Raises:
        OSError: One cannot be read, or the other not be written.
    """
    with file.open("rb") as reading, open_stream(path) as writing:
        shutil.copyfileobj(reading, writing)


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path names, itself or by links; ``None`` where it names none."""
    place = os.path.abspath(path)  # noqa: PTH100 - Path.resolve would follow the links that are looked for
    for _ in range(_MOST_LINKS):
        if place in _STANDARD:
            return _STANDARD[place]
        found = _DESCRIPTOR.fullmatch(place)
        if found and found["process"] in (None, str(os.getpid())):
            return int(found["number"])
        try:
            place = os.path.abspath(Path(place).parent / Path(place).readlink())  # noqa: PTH100
        except OSError:  # it is no link
            return None
    return None
