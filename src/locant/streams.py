"""Devices, pipes and open descriptors in place of files: what is written to them goes through."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# As Linux, macOS and the BSDs name the files that a process has open.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdin": "/dev/fd/0", "/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}


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

    A descriptor is written from where it is: a file to which a shell redirects the program is not cut off, and
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
        standard.flush()  # what was printed before is before
    with os.fdopen(os.dup(descriptor), "wb") as file:
        yield file


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path names; ``None`` where it names none."""
    place = os.path.abspath(path)  # noqa: PTH100 - Path.resolve would follow the links that these names are
    found = _DESCRIPTOR.fullmatch(_STANDARD.get(place, place))
    return int(found[1]) if found else None
