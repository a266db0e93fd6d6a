"""The head of a GGUF file: its metadata and the small tensors of rotary factors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, both byte orders. Vocabularies are
skipped rather than read, which takes a fraction of a second for the largest, and no size that the file states is
believed before the bytes are there.
"""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path
from typing import Any

from locant.errors import UsageError

MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY, _FLOAT32 = 8, 9, 0
_LONGEST_LIST = 1024
_LONGEST_TEXT = 65_536  # beyond it are templates and licences, which nobody needs here
_LONGEST_HEAD = 1 << 28
_MOST_ITEMS = 10_000_000  # keys, tensors and strings together; vocabularies have below a million
_MOST_FACTORS = 65_536
FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def read_gguf_file(path: Path) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Read the metadata and the tensors of rotary factors of a GGUF file.

    Args:
        path: The file; of a model in several files the first.

    Returns:
        Keys and values, ``None`` for long lists and lists of text; the factors by the name of their tensor.

    Raises:
        UsageError: The file is damaged, cut off, or of an unknown version.
        OSError: It cannot be opened.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _Head(path, data).read()


class _Head:
    """A place in the file that moves on with everything that is taken."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.offset, self.order = path, data, len(MAGIC), "<"
        self.items, self.end = 0, _LONGEST_HEAD

    def read(self) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
        version = self.take("I")
        if version & 0xFFFF == 0:
            self.order, self.offset = ">", len(MAGIC)
            version = self.take("I")
        if version not in (2, 3):
            raise UsageError(f"{self.path} is GGUF of version {version}; versions 2 and 3 are known. Convert it again.")
        tensors, keys = self.take("Q"), self.take("Q")
        self.count(keys + tensors)
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            name, value = self.text(), self.value(self.take("I"))
            if name in metadata:
                raise self.damaged(f"the key '{name[:80]}' is there twice")
            metadata[name] = value
        return metadata, self.factors(tensors, metadata.get("general.alignment", 32))

    def take(self, code: str, number: int = 1) -> Any:
        """Take one number, or a tuple of several."""
        self.skip(number * struct.calcsize(f"={code}"))
        found = struct.unpack(f"{self.order}{number}{code}", self.data[self.start : self.offset])
        return found[0] if number == 1 else found

    def skip(self, size: int) -> None:
        """Move on, if there are that many bytes."""
        if size > len(self.data) - self.offset:
            raise UsageError(
                f"{self.path} is cut off or damaged: it states {size} more bytes at byte {self.offset}, but ends at "
                f"{len(self.data)}. Download it again."
            )
        if self.offset > self.end:
            raise self.damaged(f"its head is longer than {_LONGEST_HEAD >> 20} MiB")
        self.start, self.offset = self.offset, self.offset + size

    def text(self) -> str:
        """Take a piece of text; one that is too long to be needed is empty."""
        size = self.take("Q")
        self.skip(size)
        try:
            return "" if size > _LONGEST_TEXT else self.data[self.start : self.offset].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.damaged("a name is not UTF-8") from error

    def count(self, number: int) -> None:
        """Count keys, tensors and words."""
        self.items += number
        if self.items > _MOST_ITEMS:
            raise self.damaged(f"it states {self.items} keys, tensors and words")

    def damaged(self, what: str) -> UsageError:
        """Return the error for a file that cannot be right."""
        return UsageError(f"{self.path} is damaged: {what}, near byte {self.offset}. Download or convert it again.")

    def value(self, kind: int) -> Any:
        """Take a value of a type."""
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.take(_SCALARS[kind])
        if kind != _ARRAY:
            raise self.damaged(f"a value has the unknown type {kind}")
        kind, length = self.take("I"), self.take("Q")
        if kind in _SCALARS and length <= _LONGEST_LIST:
            return [self.take(_SCALARS[kind]) for _ in range(length)]
        if kind in _SCALARS:
            self.skip(length * struct.calcsize(f"={_SCALARS[kind]}"))
        elif kind == _STRING:
            self.count(length)
            for _ in range(length):
                self.skip(self.take("Q"))
        else:
            raise self.damaged(f"a list has elements of the unknown type {kind}")
        return None

    def factors(self, tensors: int, alignment: object) -> dict[str, tuple[float, ...]]:
        """Take the table of tensors, and the numbers of those that hold factors."""
        found: dict[str, tuple[int, int]] = {}
        furthest, numbers = -1, 0
        for _ in range(tensors):
            name, dimensions = self.text(), self.take("I")
            if dimensions > 4:
                raise self.damaged(f"the tensor '{name[:80]}' has {dimensions} dimensions")
            shape = [self.take("Q") for _ in range(dimensions)]
            kind, offset = self.take("I"), self.take("Q")
            furthest, numbers = max(furthest, offset), numbers + math.prod(shape)
            if name in FACTORS:
                if kind != _FLOAT32 or len(shape) != 1 or shape[0] > _MOST_FACTORS:
                    raise self.damaged(
                        f"'{name}' should be a short list of float32; its type is {kind}, its shape {shape}"
                    )
                found[name] = (offset, shape[0])
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self.damaged(f"general.alignment is {alignment!r}, which is no power of two")
        start, self.end = -(-self.offset // alignment) * alignment, len(self.data)
        if tensors:
            self.skip(start + furthest + 1 - self.offset)
        if numbers > 8 * (len(self.data) - start) and tensors:  # no type has less than a bit for a number
            raise self.damaged(f"its tensors should have {numbers} numbers, for which it is too short")
        lists = {}
        for name, (offset, length) in found.items():
            self.offset = start + offset
            self.skip(4 * length)
            lists[name] = struct.unpack(f"{self.order}{length}f", self.data[self.start : self.offset])
        return lists
