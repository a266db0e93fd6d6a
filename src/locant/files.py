"""Writing files so that a crash leaves either the old content or the new, never half of one.

Whatever appears under its final name was written beside it, in a folder of a random name that one process holds, and
:func:`publish` put it there. What killed processes leave of such folders is removed by the next one that writes there.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO

from locant.errors import CheckpointError, ConfigError, LocantError
from locant.locks import LOCK_FILE, FileLock
from locant.parsing import read_json_file

if TYPE_CHECKING:
    from torch import Tensor

_WORKPLACE = re.compile(r"\.locant-[0-9a-f]{16}\.tmp")
# As Linux, macOS and the BSDs name the files that a process has open.
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdin": "/dev/fd/0", "/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}
_SEAL = "sha256_of_the_rest"
_FOREIGN = 24 * 3600
"""Seconds after which what another machine has left is taken for the remains of a killed process."""


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block succeeds it is flushed and renamed to ``path``.

    A link stays, and the file that it leads to is replaced; a file that is replaced leaves its mode to the new one. To
    a device, a pipe or an open descriptor (``/dev/stdout``) the content is written.

    Raises:
        CheckpointError: The disk is full or not writable; ``path`` keeps its old content.
    """
    with readable_errors(path):
        if is_stream(path):
            with tempfile.TemporaryDirectory() as folder:
                content = Path(folder, path.name)
                yield content
                with content.open("rb") as reading, _open_stream(path) as writing:
                    shutil.copyfileobj(reading, writing)
            return
        path = Path(os.path.realpath(path)) if path.is_symlink() else path
        with workplace(path.parent) as work:
            yield work / path.name
            with suppress(FileNotFoundError):
                (work / path.name).chmod(stat.S_IMODE(path.stat().st_mode))
            publish(work / path.name, path)


@contextmanager
def replacing_folder(path: Path, existing: Literal["refuse", "keep", "replace"] = "refuse") -> Iterator[Path]:
    """Yield a temporary folder; when the block succeeds its files are flushed and it is renamed to ``path``.

    Where ``path`` is a link, it stays, and the folder that it leads to is made.

    Args:
        path: Missing or empty, unless ``existing`` says what then happens.
        existing: What becomes of a folder with content that is there in the end: it may not be, it stays instead of
            the new one, or the new one takes its place.

    Raises:
        CheckpointError: The disk is full or not writable, or ``path`` may not exist and does; nothing else is touched.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    with readable_errors(path), workplace(path.parent) as work:
        temporary = work / path.name
        temporary.mkdir()
        yield temporary
        while True:
            try:
                publish(temporary, path)
                break
            except OSError as error:
                if existing == "refuse" or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                if existing == "keep":
                    break
                with suppress(FileNotFoundError):
                    path.rename(work / secrets.token_hex(4))


def is_workplace(path: Path) -> bool:
    """Whether a path is a folder in which something is being written, or was when a process was killed."""
    return bool(_WORKPLACE.fullmatch(path.name))


def publish(temporary: Path, path: Path) -> None:
    """Give a file, or a folder with all that is in it, its final name once its content is on the disk.

    Nothing else in Locant renames.

    Raises:
        OSError: The disk is full or not writable, or a folder with content has the name.
    """
    for entry in temporary.rglob("*"):
        _flush(entry)
    _flush(temporary)
    temporary.replace(path)
    _flush(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; a process that is killed meanwhile leaves no part of it under its name.

    Raises:
        OSError: The folder is not there, or the disk is not writable.
    """
    with workplace(path.parent) as work:
        path.rename(work / path.name)


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """Yield a new folder of a random name in another one, held until it is removed at the end of the block."""
    parent.mkdir(parents=True, exist_ok=True)
    _remove_remains(parent)
    while True:
        work = parent / f".locant-{secrets.token_hex(8)}.tmp"
        work.mkdir(mode=0o700)
        lock = FileLock(work / LOCK_FILE)
        try:
            if lock.acquire():
                break
        except FileNotFoundError:
            continue  # taken for remains before it was held
        except OSError:
            break  # a file system without locks, on which nothing is taken for remains
    try:
        yield work
    finally:
        # Where even this fails (a file is in place of the folder, say), the first error is the one to tell.
        _remove_held(work, lock)


def _remove_remains(folder: Path) -> None:
    """Remove the workplaces of processes that were killed; one that is held stays."""
    found: list[Path] = []
    with suppress(OSError):
        found += filter(is_workplace, folder.iterdir())
    for work in found:
        lock = FileLock(work / LOCK_FILE)
        with suppress(OSError):
            # In a folder that all may write, what others make to look like one is left alone.
            if hasattr(os, "geteuid") and work.lstat().st_uid != os.geteuid():
                continue
            ours = lock.holder().get("host", lock.host) == lock.host
            # Not every file system tells other machines what is locked.
            if (ours or time.time() - work.stat().st_mtime > _FOREIGN) and lock.acquire():
                _remove_held(work, lock)


def _remove_held(work: Path, lock: FileLock) -> None:
    if os.name == "nt":
        lock.release()  # an open file cannot be removed there
    shutil.rmtree(work, ignore_errors=True)
    lock.release()


def require_new_folder(path: Path) -> None:
    """Raise CheckpointError unless the folder does not exist or is empty; for use before any work is done."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        what = "is not empty" if path.is_dir() else "is no folder"
        raise CheckpointError(f"{path} already exists and {what}. Name a new folder.")


def cache_folder() -> Path:
    """Return the user's folder for what Locant can make again.

    Raises:
        ConfigError: The user has no home folder, and the environment names no other place.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "locant"
    except RuntimeError:
        raise ConfigError(
            "There is no home folder to hold the cache. Set XDG_CACHE_HOME to a folder that can be written."
        ) from None


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors; the path should be a temporary one, as from the functions above.

    Raises:
        OSError: The disk is full or not writable.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode  # what the user's umask asks for; safetensors lets nobody else read
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        # safetensors hides what the system said in its message.
        code = re.search(r"os error (\d+)", str(error))
        raise OSError(int(code[1]) if code else errno.EIO, str(error)) from error
    path.chmod(mode)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    r"""Open what a command writes text to, as UTF-8 with ``\n`` for line ends.

    Args:
        path: A file, written as by :func:`replacing_file`; a device, a pipe or an open descriptor, which gets what is
            flushed at once; or ``None`` for standard output.

    Raises:
        CheckpointError: The disk is full or not writable.
    """
    if path is None:
        yield sys.stdout
    else:
        with open_binary_output(path) as raw, io.TextIOWrapper(raw, "utf-8", newline="\n") as text:
            yield text


@contextmanager
def open_binary_output(path: Path | None) -> Iterator[BinaryIO]:
    """Open what a command writes bytes to; what is said of :func:`open_output` holds here too."""
    if path is None:
        yield sys.stdout.buffer
    else:
        with readable_errors(path):
            if is_stream(path):
                with _open_stream(path) as raw:
                    yield raw
            else:
                with replacing_file(path) as temporary, temporary.open("wb") as file:
                    yield file


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


def _open_stream(path: Path) -> BinaryIO:
    """Open a stream for writing; a file to which a shell redirects the program is written where the shell is in it."""
    descriptor = _descriptor(path)
    if descriptor is None:
        return path.open("wb")
    for standard in (sys.stdout, sys.stderr):
        standard.flush()  # what was printed before is before
    return os.fdopen(os.dup(descriptor), "wb")


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path names; ``None`` where it names none."""
    place = os.path.abspath(path)  # noqa: PTH100 - Path.resolve would follow the links that these names are
    found = _DESCRIPTOR.fullmatch(_STANDARD.get(place, place))
    return int(found[1]) if found else None


def append_line(path: Path, line: str) -> None:
    """Append one line of UTF-8 text; a crash may cut the line short but leaves those before it.

    Raises:
        CheckpointError: The disk is full or not writable.
    """
    with readable_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def append_at(path: Path, size: int, data: bytes) -> None:
    """Cut a file to that many bytes, append data and flush; a crash leaves at least those bytes.

    Raises:
        CheckpointError: The disk is full or not writable; the file is cut to ``size`` again.
    """
    with readable_errors(path):
        try:
            with path.open("r+b") as file:
                file.truncate(size)
                file.seek(size)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                os.truncate(path, size)
            raise


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically, indented, with a final newline."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def explaining_damage(path: Path) -> Iterator[None]:
    """Within the block, say that a record is damaged where what was read from it is not what it should be.

    Args:
        path: The file, or the folder of the files, for the message.

    Raises:
        CheckpointError: A key is missing, or a value is of another kind.
    """
    try:
        yield
    except LocantError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{path} is damaged, or was not written by Locant: {what}.") from error


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with a digest of it, which :func:`read_json` takes off again and compares."""
    return {**data, _SEAL: hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()}


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        CheckpointError: The file is missing or not JSON, or larger or deeper than any that there is use for; or it was
            sealed, and is not what was written.
    """
    try:
        found = read_json_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"The file {path} is missing.") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"The file {path} cannot be read as JSON: {error}") from None
    if isinstance(found, dict) and (seal := found.pop(_SEAL, None)) and sealed(found)[_SEAL] != seal:
        raise CheckpointError(f"The file {path} is damaged: it is not what was written.")
    return found


def _flush(path: Path) -> None:
    windows, folder = os.name == "nt", path.is_dir()
    if windows and folder:
        return  # Windows opens no folders and keeps their entries safe by itself.
    descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not folder or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # not every file system flushes folders
            raise
    finally:
        os.close(descriptor)


@contextmanager
def readable_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system into readable ones, but for a reader that has gone, to whom nothing can be said."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        path = Path(*(part for part in path.parts if not is_workplace(Path(part))))  # as it would have been called
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            said = f"The disk is full: {path} could not be written. What was saved before is still there."
        else:
            said = f"{path} could not be written: {error.strerror or error}."
        raise CheckpointError(said) from error
