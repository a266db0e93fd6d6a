"""JSON and YAML that anybody may have written: no size, depth or number of values is taken on before it is known."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

LARGEST_JSON = 200_000_000
"""Bytes of the largest file of JSON that is read; the largest there is use for hold vocabularies."""
LARGEST_YAML = 1_000_000
"""Characters of the longest YAML that is read."""
_PART = 1 << 16  # bytes read at once: a reader takes memory for as many, however small the file
_DEEPEST = 50
_MOST_DIGITS = 4000  # of a whole number; Python reads no more than 4300
_MOST_VALUES = 100_000  # of YAML, everything that an alias represents included
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_bounded(file: IO[bytes], largest: int) -> bytes:
    """Return what is left of an open file, unless that is too much, in memory for what is there alone.

    Raises:
        ValueError: It is larger.
        OSError: It cannot be read.
    """
    parts, room = [], largest + 1
    while room and (part := file.read(min(room, _PART))):
        parts.append(part)
        room -= len(part)
    if not room:
        raise ValueError(f"it is larger than {largest / 1e6:g} MB")
    return b"".join(parts)


def read_bytes(path: Path, largest: int) -> bytes:
    """Return the content of a file; see :func:`read_bounded`."""
    with path.open("rb") as file:
        return read_bounded(file, largest)


def parse_json(content: str | bytes, *, surrogates: bool = False, **options: Any) -> Any:
    """Return what JSON says, in groups and lists no deeper than any of use, and with text that can be written.

    Args:
        content: The JSON, in UTF-8.
        surrogates: Whether text may have halves of characters, which can neither be written nor printed.
        options: Of :func:`json.loads`.

    Raises:
        ValueError: It is no JSON, is too deep, or has text that is no Unicode; the message says what.
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    try:
        text = raw.decode("utf-8-sig", "surrogatepass" if surrogates else "strict")
        if not text.strip():
            raise ValueError("it is empty")
        value = json.loads(text, **{"parse_int": _whole, **options})
        _require_shallow(value)
        # A pair of surrogates is one character; one alone is none.
        if not surrogates and _SURROGATE.search(raw):
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except RecursionError:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep") from None
    except UnicodeEncodeError:
        raise ValueError("it has half of a character (a lone surrogate, written \\ud800 to \\udfff)") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not valid UTF-8") from None
    return value


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)


def read_json_file(path: Path, **options: Any) -> Any:
    """Return what a file of JSON says; see :func:`parse_json`.

    Raises:
        ValueError: As there, or the file is too large.
        OSError: It cannot be read.
    """
    return parse_json(read_bytes(path, LARGEST_JSON), **options)


def parse_yaml(text: str) -> Any:
    """Return what YAML says as plain data; no mapping may have a key twice.

    Raises:
        yaml.YAMLError: It is no YAML, too long, too deep, or aliases make it too large; ``problem`` or the message says
            what.
    """
    import yaml

    if len(text) > LARGEST_YAML:
        raise yaml.YAMLError(f"it is longer than {LARGEST_YAML:,} characters")
    try:
        loader = _strict_loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _require_small(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError:
        raise yaml.YAMLError(f"it is nested more than {_DEEPEST} levels deep") from None
    except UnicodeEncodeError:
        raise yaml.YAMLError("it has half of a character (a lone surrogate, \\ud800 to \\udfff)") from None
    except (ValueError, OverflowError, TypeError, AttributeError) as error:
        # Numbers and dates that look like some and are none.
        raise yaml.YAMLError(f"a value cannot be read: {error}") from None


def _require_shallow(value: Any) -> None:
    """Raise RecursionError where groups and lists are nested too deep."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise RecursionError
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]


def _require_small(root: yaml.Node) -> None:
    """Check depth and size of YAML, counting everything as often as aliases repeat it."""
    import yaml

    sizes: dict[int, int] = {}

    def size(node: yaml.Node, depth: int) -> int:
        if depth > _DEEPEST:  # also where an alias is within what it names
            raise RecursionError
        if id(node) not in sizes:
            inner = node.value if isinstance(node, yaml.CollectionNode) else []
            if isinstance(node, yaml.MappingNode):
                inner = [each for pair in inner for each in pair]
            if isinstance(node, yaml.ScalarNode):
                node.value.encode("utf-8")
            sizes[id(node)] = 1 + sum(size(each, depth + 1) for each in inner)
            if sizes[id(node)] > _MOST_VALUES:
                raise yaml.YAMLError(f"it represents more than {_MOST_VALUES:,} values")
        return sizes[id(node)]

    size(root, 1)


@cache
def _strict_loader() -> type[yaml.SafeLoader]:
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """Reads YAML in which no mapping has a key twice."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            """Return a mapping, or raise where a key occurs twice, of which YAML would take the last."""
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key.value}' occurs twice", key.start_mark
                    )
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
            return super().construct_mapping(node, deep)

    return StrictLoader
