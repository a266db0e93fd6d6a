"""Translated files that wait to be fetched: in a temporary folder, for some minutes, under names nobody can guess."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from locant.errors import LocantError

_NAME = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")
_PREFIX = "locant-serve-"


class NoRoomError(LocantError):
    """No more files can be kept."""


class FileStore:
    """Keeps files for some time.

    Args:
        seconds: For how long.
        most: Most files at a time; the processes of a server have them in common.
        folder: Where; by default a new temporary folder, which :meth:`close` removes.
        clock: Tells the time in seconds since the epoch.
    """

    def __init__(
        self, seconds: float, most: int, folder: Path | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._temporary = folder, folder is None
        self._seconds, self._most, self._clock = seconds, most, clock

    def keep(self, content: bytes, name: str) -> str:
        """Keep a file and return the name under which it can be fetched.

        Args:
            content: Of the file.
            name: What it is to be called by whoever fetches it; letters, digits and ``._-`` of it are kept.

        Raises:
            NoRoomError: Too many files are kept, or the disk is full.
        """
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if self.forget_old() >= self._most:
            raise NoRoomError("The server keeps as many translated files as it can. Try again later.")
        kept = f"{secrets.token_hex(16)}.{_plain(name)}"
        path = self._folder / kept
        try:
            path.touch(mode=0o600)
            path.write_bytes(content)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise NoRoomError("The server has no room for the translated file. Try again later.") from None
        return kept

    def find(self, kept: str) -> tuple[Path, str] | None:
        """Return where a file is and what it is called, or ``None`` where it is no more, or never was."""
        if self._folder is None or not _NAME.fullmatch(kept):
            return None
        path = self._folder / kept
        with suppress(OSError):
            if path.stat().st_mtime + self._seconds > self._clock():
                return path, kept.partition(".")[2]
        return None

    def forget_old(self) -> int:
        """Delete files whose time is over, and return the number of the others."""
        left = 0
        if self._folder is None:
            return left
        for path in self._folder.iterdir():
            with suppress(OSError):
                if path.stat().st_mtime + self._seconds <= self._clock():
                    path.unlink()
                else:
                    left += 1
        return left

    def close(self) -> None:
        """Delete all files."""
        if self._folder is not None and self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _plain(name: str) -> str:
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")
    return words[-60:].lstrip(".") or "file.txt"
