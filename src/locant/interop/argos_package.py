"""Packages of Argos Translate as files: zip archives of strangers, whose files are read one by one into memory."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError
from locant.parsing import parse_json

_METADATA = "/metadata.json"
_SMALL = 64 << 20
"""Bytes of the largest file beside the weights."""
_MOST_EXPANSION_OF_WEIGHTS = 20
"""Times that weights may be larger than what the archive holds of them; they hardly shrink at all."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Others take any amount of memory, and raise errors of their own."""


class ArgosPackage:
    """An archive with one folder.

    Nothing is unpacked, so names and links that lead out of the folder lead nowhere.

    Args:
        path: The file.

    Raises:
        CheckpointError: It is no zip archive, or there is not one folder with ``metadata.json``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise CheckpointError(f"There is no file {path}.") from None
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise CheckpointError(f"{path} is no zip archive, or a damaged one: {error}") from None
        self._entries = {entry.filename: entry for entry in self._archive.infolist()}
        tops = {name.removesuffix(_METADATA) for name in self._entries if name.endswith(_METADATA)}
        tops = {top for top in tops if "/" not in top}
        if len(tops) != 1:
            raise CheckpointError(
                f"{path} holds {len(tops) or 'no'} folders with metadata.json; a package of Argos Translate holds one."
            )
        (self._top,) = tops

    def has(self, name: str) -> bool:
        """Return whether the package has a file."""
        return f"{self._top}/{name}" in self._entries

    def read(self, name: str, *, large: bool = False) -> bytes:
        """Return the content of a file.

        Args:
            name: Its path in the package's folder.
            large: Whether it may be larger than 64 MiB.

        Raises:
            CheckpointError: It is missing, damaged, encrypted, unusually compressed or too large.
        """
        if not self.has(name):
            raise CheckpointError(f"{self.path} lacks {name}.")
        entry = self._entries[f"{self._top}/{name}"]
        most = max(_SMALL, _MOST_EXPANSION_OF_WEIGHTS * entry.compress_size if large else 0)
        for found, why in (
            (entry.file_size > most, f"would grow from {entry.compress_size:,} bytes to {entry.file_size:,}"),
            (entry.compress_type not in _METHODS, f"is compressed by method {entry.compress_type}"),
            (entry.flag_bits & 1, "is encrypted"),
        ):
            if found:
                raise CheckpointError(
                    f"{self.path} is refused: its {name} {why}. Argos Translate makes no such package."
                )
        try:
            return self._archive.read(entry)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise CheckpointError(f"{self.path}: {name} is damaged: {error}") from None

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
