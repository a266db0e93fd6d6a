"""Locks between processes: one holder at a time, free again however it ends, with a note of who it is.

And locks between threads that a child of fork has open.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from locant.errors import CheckpointError
from locant.parsing import read_json_file

LOCK_FILE = ".lock"
"""The name of the file by which a folder is held."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""A link in place of the file may be somebody else's, and lead to what must not be overwritten."""

_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # nobody can read the bytes that are locked

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_held: set[int] = set()
_between_threads: WeakSet[threading.Lock] = WeakSet()


def thread_lock() -> threading.Lock:
    """Return a lock between threads that is open in a child of fork, whichever thread of its parent has it.

    For what may be done once more where it was not done to its end: the thread that did it is not in the child.
    """
    lock = threading.Lock()
    _between_threads.add(lock)
    return lock


def _let_go_in_child() -> None:
    """Leave the locks to the parent: a child that outlives it must not hold them, nor wait for its threads."""
    for lock in list(_between_threads):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does with its own
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


class FileLock:
    """A lock on a file, which the system takes from a process that ends, also from one that is killed.

    Args:
        path: The file, made where it is missing; it stays when the lock is let go.

    Attributes:
        host: The name of this machine.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = platform.node()
        self._descriptor: int | None = None

    def acquire(self, work: str = "", *, wait: bool = False) -> bool:
        """Take the lock, and write down who holds it; return whether it was free.

        Args:
            work: What it is held for, as in "training".
            wait: Wait until it is free.

        Raises:
            OSError: The file cannot be made, or the file system has no locks.
        """
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
            current = False
            try:
                _take(descriptor)
                # Whoever held it may have removed the file in the meantime.
                current = os.path.samestat(os.fstat(descriptor), self.path.stat())
                if current:
                    break
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in _BUSY:
                    raise
                if not wait:
                    return False
                time.sleep(0.05)
            finally:
                if not current:
                    os.close(descriptor)
        self._descriptor = descriptor
        _held.add(descriptor)
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        note = {"process": os.getpid(), "host": self.host, "since": since, "work": work}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{json.dumps(note)}\n".encode())
        return True

    def release(self) -> None:
        """Let go of the lock."""
        if self._descriptor is not None and self._descriptor in _held:
            _held.discard(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = None

    def holder(self) -> dict[str, str]:
        """Return what the holder, or the last one, wrote down: process, host, since and work; empty where unknown."""
        try:
            note = read_json_file(self.path)
        except (OSError, ValueError):
            return {}
        return {str(key): str(value) for key, value in note.items()} if isinstance(note, dict) else {}


@contextmanager
def holding(folder: Path, work: str) -> Iterator[None]:
    """Hold a folder for this process alone.

    Where the file system has no locks nothing is held.

    Args:
        folder: Made where it is missing.
        work: What it is held for, as in "training".

    Raises:
        CheckpointError: Another process holds it; which, where and since when. Or the folder cannot be written.
    """
    lock, taken, new = FileLock(folder / LOCK_FILE), True, not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = lock.acquire(work)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            reason = "it is no folder" if isinstance(error, FileExistsError) else error.strerror or error
            raise CheckpointError(f"{folder} cannot be written: {reason}.") from None
    if not taken:
        who = "process {process} on {host} has been {work} in it since {since}"
        try:
            who = who.format_map(lock.holder())
        except KeyError:
            who = "another process is working in it"
        raise CheckpointError(f"{folder} is in use: {who}. Wait for its end, or name another folder.")
    try:
        yield
    finally:
        with suppress(OSError):  # an open file cannot be removed everywhere
            lock.path.unlink()
        lock.release()
        if new:
            with suppress(OSError):  # it holds something by now
                folder.rmdir()
