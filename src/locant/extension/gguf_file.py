"""The head of a GGUF file: its metadata and the small tensors of rotary factors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, both byte orders. Vocabularies are
passed over rather than read, which takes a fraction of a second for the largest, and no size that the file states is
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
_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
TYPES = (
    *("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array"),
    *("uint64", "int64", "float64"),
)
"""Names of the types of values, by their number."""
_FLOAT32 = 0
_MOST_DIMENSIONS = 4
_LONGEST_KEPT = 1024
_LONGEST_TEXT = 65_536  # beyond it stand templates and licences, which nobody needs here
_LONGEST_HEAD = 1 << 28
_MOST_ITEMS = 10_000_000  # keys, tensors and strings together; vocabularies have below a million
_MOST_FACTORS = 65_536
_FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


def read_gguf_file(path: Path) -> tuple[dict[str, Any], dict[str, tuple[float, ...]], dict[str, str]]:
    """Read the metadata and the tensors of rotary factors of a GGUF file.

    Args:
        path: The file; of a model in several files the first.

    Returns:
        Keys and values, without long lists; the factors by the name of their tensor; the types of the values by key.

    Raises:
        UsageError: The file is damaged, cut off, or of an unknown version.
        OSError: It cannot be opened.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        head = _Head(path, data)
        try:
            return head.read()
        except UnicodeDecodeError as error:
            raise head.damaged("a name is not UTF-8") from error


class _Head:
    """A place in the file that moves on with everything that is taken."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.offset, self.order = path, data, len(MAGIC), "<"
        self.items, self.is_past_head = 0, False

    def read(self) -> tuple[dict[str, Any], dict[str, tuple[float, ...]], dict[str, str]]:
        version = self.take("I")
        if version & 0xFFFF == 0:
            self.order, self.offset = ">", len(MAGIC)
            version = self.take("I")
        if version not in _VERSIONS:
            raise UsageError(f"{self.path} is GGUF of version {version}; versions 2 and 3 are known. Convert it anew.")
        tensors, keys = self.take("Q"), self.take("Q")
        metadata: dict[str, Any] = {}
        types: dict[str, str] = {}
        self._count(keys)
        for _ in range(keys):
            name = self.text()
            kind = self.take("I")
            self._need(4 if kind == _ARRAY else 0)
            element = struct.unpack_from(f"{self.order}I", self.data, self.offset)[0] if kind == _ARRAY else None
            value = self._value(kind)
            if name in metadata:
                raise self.damaged(f"the key '{name[:80]}' is there twice")
            of = "" if element is None else f" of {TYPES[element]}"
            metadata[name], types[name] = value, f"{TYPES[kind]}{of}"
        return metadata, self._factors(tensors, metadata.get("general.alignment", 32)), types

    def take(self, code: str) -> Any:
        """Take one number."""
        size = struct.calcsize(f"={code}")
        self._need(size)
        (value,) = struct.unpack_from(f"{self.order}{code}", self.data, self.offset)
        self.offset += size
        return value

    def text(self) -> str:
        """Take a piece of text; one that is too long to be needed is empty."""
        size = self.take("Q")
        self._need(size)
        self.offset += size
        return "" if size > _LONGEST_TEXT else self.data[self.offset - size : self.offset].decode("utf-8")

    def damaged(self, what: str) -> UsageError:
        """Return the error for a file that cannot be right."""
        return UsageError(f"{self.path} is damaged: {what}, near byte {self.offset}. Download or convert it again.")

    def _need(self, size: int) -> None:
        if size > len(self.data) - self.offset:
            raise UsageError(
                f"{self.path} is cut off or damaged: it states {size} more bytes at byte {self.offset}, but ends at "
                f"{len(self.data)}. Download it again."
            )
        if self.offset > _LONGEST_HEAD and not self.is_past_head:
            raise self.damaged(f"its head is longer than {_LONGEST_HEAD >> 20} MiB")

    def _count(self, number: int) -> None:
        self.items += number
        if self.items > _MOST_ITEMS:
            raise self.damaged(f"it states {self.items} keys, tensors and words")

    def _value(self, kind: int) -> Any:
        """Take a value; ``None`` stands for a long list, and for a list of text."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array(self.take("I"), self.take("Q"))
        if kind not in _SCALARS:
            raise self.damaged(f"a value has the unknown type {kind}")
        return self.take(_SCALARS[kind])

    def _array(self, kind: int, length: int) -> list[Any] | None:
        if kind == _STRING:
            self._count(length)
            for _ in range(length):
                size = self.take("Q")
                self._need(size)
                self.offset += size
            return None
        if kind not in _SCALARS:
            raise self.damaged(f"a list has elements of the unknown type {kind}")
        code = _SCALARS[kind]
        size = length * struct.calcsize(f"={code}")
        self._need(size)
        kept = None
        if length <= _LONGEST_KEPT:
            kept = list(struct.unpack_from(f"{self.order}{length}{code}", self.data, self.offset))
        self.offset += size
        return kept

    def _factors(self, tensors: int, alignment: object) -> dict[str, tuple[float, ...]]:
        """Take the table of tensors, and the numbers of those that hold factors."""
        self._count(tensors)
        found: dict[str, tuple[int, int]] = {}
        furthest, numbers = -1, 0
        for _ in range(tensors):
            name, dimensions = self.text(), self.take("I")
            if dimensions > _MOST_DIMENSIONS:
                raise self.damaged(f"the tensor '{name[:80]}' has {dimensions} dimensions")
            shape = [self.take("Q") for _ in range(dimensions)]
            kind, offset = self.take("I"), self.take("Q")
            furthest, numbers = max(furthest, offset), numbers + math.prod(shape)
            if name not in _FACTORS:
                continue
            if kind != _FLOAT32 or len(shape) != 1 or shape[0] > _MOST_FACTORS:
                raise self.damaged(f"'{name}' should be a short list of float32; its type is {kind}, its shape {shape}")
            found[name] = (offset, shape[0])
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self.damaged(f"general.alignment is {alignment!r}, which is no power of two")
        start = -(-self.offset // alignment) * alignment
        self.is_past_head = True
        if tensors and start + furthest >= len(self.data):
            self.offset = len(self.data)
            self._need(start + furthest + 1 - len(self.data))
        # No type of numbers has less than a bit for each.
        if numbers > 8 * (len(self.data) - start) and tensors:
            raise self.damaged(f"its tensors should have {numbers} numbers, for which it is too short")
        return {name: self._floats(start + offset, length) for name, (offset, length) in found.items()}

    def _floats(self, offset: int, length: int) -> tuple[float, ...]:
        self.offset = offset
        self._need(4 * length)
        return struct.unpack_from(f"{self.order}{length}f", self.data, offset)
