"""Translated files that wait to be fetched: in a temporary folder, for some minutes, under names nobody can guess."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from locant.server.errors import RequestError

_NAME = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")
_MARK = 8  # letters of a name that tell the clients apart


class FileStore:
    """Keeps files for some time, and gives each client a fair share of the room.

    Where there is no room, the client that has most of it loses its oldest file, so that nobody can take it from the
    others.

    Args:
        seconds: For how long.
        most: Most files at a time; the processes of a server have them in common.
        most_bytes: Most bytes of them all, likewise.
        folder: Where; by default a new temporary folder, which :meth:`close` removes.
        clock: Tells the time in seconds since the epoch.
    """

    def __init__(
        self,
        seconds: float,
        most: int,
        most_bytes: int,
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._temporary = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="locant-serve-"))
        self._seconds, self._most, self._most_bytes, self._clock = seconds, most, most_bytes, clock

    def keep(self, content: bytes, name: str, client: str) -> str:
        """Keep a file and return the name under which it can be fetched.

        Args:
            content: Of the file.
            name: What it is to be called by whoever fetches it; letters, digits and ``._-`` of it are kept.
            client: Whose it is.

        Raises:
            RequestError: It is larger than all room, or the disk is full (503).
        """
        if len(content) > self._most_bytes:
            raise _no_room("The translated file is larger than what the server may keep. Send smaller files.")
        # The folder's name is random: from the mark nobody learns who the client is.
        mark = hashlib.blake2b(client.encode("utf-8", "surrogatepass"), key=str(self._folder).encode()[-64:])
        self._make_room(owner := mark.hexdigest()[:_MARK], len(content))
        kept = f"{owner}{secrets.token_hex(16)[_MARK:]}.{_plain(name)}"
        path = self._folder / kept
        try:
            path.touch(mode=0o600)
            path.write_bytes(content)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise _no_room("The server has no room for the translated file. Try again later.") from None
        return kept

    def _make_room(self, owner: str, size: int) -> None:
        """Delete files whose time is over, and of the others as many as have to go for another one."""
        files: dict[str, list[tuple[float, int, Path]]] = defaultdict(list)  # of each client, oldest last
        for path in self._folder.iterdir():
            with suppress(OSError):
                found = path.stat()
                if found.st_mtime + self._seconds <= self._clock():
                    path.unlink()
                else:
                    files[path.name[:_MARK]].append((found.st_mtime, found.st_size, path))
        for own in files.values():
            own.sort(reverse=True)

        def share(client: str) -> float:
            """Return the larger of a client's shares in files and in bytes, as it would be with the new file."""
            more, own = client == owner, files[client]
            total = sum(length for _, length, _ in own) + more * size
            return max((len(own) + more) / self._most, total / self._most_bytes)

        while (
            sum(map(len, files.values())) >= self._most
            or sum(length for own in files.values() for _, length, _ in own) + size > self._most_bytes
        ):
            greediest = max((client for client in files if files[client]), key=share)
            with suppress(OSError):
                files[greediest].pop()[2].unlink()

    def find(self, kept: str) -> tuple[Path, str] | None:
        """Return where a file is and what it is called, or ``None`` where it is no more, or never was."""
        path = self._folder / kept
        with suppress(OSError):
            if _NAME.fullmatch(kept) and path.stat().st_mtime + self._seconds > self._clock():
                return path, kept.partition(".")[2]
        return None

    def close(self) -> None:
        """Delete all files of a folder of its own."""
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)


def _no_room(sentence: str) -> RequestError:
    return RequestError(503, sentence, reason="files", retry_after=60)


def _plain(name: str) -> str:
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")
    return words[-60:].lstrip(".") or "file.txt"
