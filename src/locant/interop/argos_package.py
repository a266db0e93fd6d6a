"""Packages of Argos Translate as files: zip archives of strangers, read without being unpacked."""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from locant.errors import CheckpointError
from locant.parsing import parse_json

_METADATA = "metadata.json"
_MOST_FILES = 20_000
_MOST_BYTES = 8 << 30
_SMALL = 64 << 20
"""Bytes of the largest file beside the weights."""
_MOST_EXPANSION = 200
"""Times that a file may be larger than what the archive holds of it."""
_MOST_EXPANSION_OF_WEIGHTS = 20
"""Weights hardly shrink at all."""
_ALWAYS_ALLOWED = 1 << 20


class ArgosPackage:
    """An archive whose entries were looked at before any of them is read.

    Args:
        path: The file.

    Raises:
        CheckpointError: It is no zip archive, or none that Argos Translate makes: two entries have one name, a name
            leads out of the folder, an entry is a link, encrypted or unusually compressed, it is too large, or there is
            not one folder with ``metadata.json``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise CheckpointError(f"There is no file {path}.") from None
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise CheckpointError(f"{path} is no zip archive, or a damaged one: {error}") from None
        entries = self._archive.infolist()
        if len(entries) > _MOST_FILES or sum(entry.file_size for entry in entries) > _MOST_BYTES:
            raise self._refused(f"it holds {len(entries):,} files or more than {_MOST_BYTES >> 30} GB")
        seen: set[str] = set()
        for entry in entries:
            # Some systems take names that differ in case for one.
            name = entry.filename.rstrip("/").casefold()
            if name in seen:
                raise self._refused(f"it holds {entry.filename!r} twice")
            seen.add(name)
            if why := _harm(entry):
                raise self._refused(f"its entry {entry.filename!r} {why}")
        self._sizes = {entry.filename: entry.file_size for entry in entries}
        found = [PurePosixPath(name).parts for name in self._sizes]
        tops = [parts[0] for parts in found if len(parts) == 2 and parts[1] == _METADATA]
        if len(tops) != 1:
            raise CheckpointError(
                f"{path} holds {len(tops) or 'no'} folders with {_METADATA}; a package of Argos Translate holds one."
            )
        self._top = tops[0]

    def has(self, name: str) -> bool:
        """Return whether the package has a file."""
        return f"{self._top}/{name}" in self._sizes

    def read(self, name: str, *, large: bool = False) -> bytes:
        """Return the content of a file.

        Args:
            name: Its path in the package's folder.
            large: Whether it may be larger than 64 MiB.

        Raises:
            CheckpointError: It is missing, damaged or too large.
        """
        full = f"{self._top}/{name}"
        if full not in self._sizes:
            raise CheckpointError(f"{self.path} lacks {name}.")
        size = self._sizes[full]
        shrunk = self._archive.getinfo(full).compress_size
        if size > _SMALL and (not large or size > _MOST_EXPANSION_OF_WEIGHTS * shrunk):
            raise self._refused(f"its {name} would grow from {shrunk:,} bytes to {size:,}")
        try:
            with self._archive.open(full) as file:
                # One byte more than is announced, so that an entry which goes on is noticed and not read to its end.
                content = file.read(size + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise CheckpointError(f"{self.path}: {name} is damaged: {error}") from None
        if len(content) != size:
            raise CheckpointError(f"{self.path}: {name} is damaged: it has not the {size:,} bytes that are announced.")
        return content

    def text(self, name: str) -> str:
        """Return the content of a small UTF-8 file.

        Raises:
            CheckpointError: It is missing, damaged, too large or not UTF-8.
        """
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{self.path}: {name} is not UTF-8 text.") from None

    def json(self, name: str) -> Any:
        """Return the content of a small JSON file.

        Raises:
            CheckpointError: It is missing, damaged, too large or not JSON.
        """
        try:
            return parse_json(self.text(name))
        except ValueError as error:
            raise CheckpointError(f"{self.path}: {name} is not JSON: {error}") from None

    def _refused(self, why: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is refused: {why}. Argos Translate makes no such package.")


def _harm(entry: zipfile.ZipInfo) -> str | None:
    """Return why an entry is not taken, after its name."""
    name, parts = entry.filename, entry.filename.rstrip("/").split("/")
    if not name or name.startswith("/") or "\\" in name or ":" in parts[0] or {"", ".", ".."} & set(parts):
        return "leads out of the package's folder"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "is a link"
    # Others take any amount of memory, and raise errors of their own.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by method {entry.compress_type}"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.file_size > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * entry.compress_size):
        return f"would grow from {entry.compress_size:,} bytes to {entry.file_size:,}"
    return None
