"""Translated files that wait to be fetched: in a temporary folder, for some minutes, under names nobody can guess."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from locant.server.errors import RequestError

_SECONDS = 30 * 60  # for which a file is kept
_MOST_BYTES = 500_000_000
_LEAST = 500_000  # bytes that a file counts for at least, so that there are never too many of them
_NAME = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")
_MARK = 8  # letters of a name that tell the clients apart


class FileStore:
    """Keeps files for half an hour.

    Where there is no room, the client that has most of it loses its oldest file, so that nobody can take it from the
    others.

    Args:
        folder: Where; the processes of a server have it in common. By default a new temporary one, which :meth:`close`
            removes.
        most_bytes: Most bytes of all files; a small one counts for half a megabyte.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = _MOST_BYTES) -> None:
        self._temporary = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="locant-serve-"))
        self._most_bytes = most_bytes

    def keep(self, content: bytes, name: str, client: str) -> str:
        """Keep a file and return the name under which it can be fetched.

        Args:
            content: Of the file.
            name: What it is to be called by whoever fetches it; letters, digits and ``._-`` of it are kept.
            client: Whose it is.

        Raises:
            RequestError: The disk is full (503).
        """
        # The folder's name is random: from the mark nobody learns who the client is.
        mark = hashlib.blake2b(client.encode("utf-8", "surrogatepass"), key=str(self._folder).encode()[-64:])
        owner = mark.hexdigest()[:_MARK]
        kept = f"{owner}{secrets.token_hex(16)[_MARK:]}.{_plain(name)}"
        path = self._folder / kept
        try:
            path.touch(mode=0o600)
            path.write_bytes(content)
        except OSError:
            with suppress(OSError):
                path.unlink()
            sentence = "The server has no room for the translated file. Try again later."
            raise RequestError(503, sentence, reason="files", retry_after=60) from None
        self._make_room(path)
        return kept

    def _make_room(self, new: Path) -> None:
        """Delete files whose time is over, and of the others as many as there is no room for beside a new one."""
        files: dict[str, list[tuple[float, int, Path]]] = defaultdict(list)  # of each client, oldest last
        for path in self._folder.iterdir():
            with suppress(OSError):
                found = path.stat()
                if found.st_mtime + _SECONDS <= time.time():
                    path.unlink()
                else:
                    files[path.name[:_MARK]].append((found.st_mtime, max(_LEAST, found.st_size), path))
        for own in files.values():
            own.sort(reverse=True)
        sizes = {client: sum(size for _, size, _ in own) for client, own in files.items()}
        while sum(sizes.values()) > self._most_bytes:
            client = max(sizes, key=lambda client: sizes[client])
            _, size, path = files[client].pop()
            sizes[client] -= size
            if path != new:
                path.unlink(missing_ok=True)

    def find(self, kept: str) -> tuple[Path, str] | None:
        """Return where a file is and what it is called, or ``None`` where it is no more, or never was."""
        path = self._folder / kept
        with suppress(OSError):
            if _NAME.fullmatch(kept) and path.stat().st_mtime + _SECONDS > time.time():
                return path, kept.partition(".")[2]
        return None

    def close(self) -> None:
        """Delete all files of a folder of its own."""
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)


def _plain(name: str) -> str:
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")
    return words[-60:].lstrip(".") or "file.txt"
