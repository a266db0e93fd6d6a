"""Changes of real small files such as damage, other programs and attackers make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

STRANGE = (0, -1, 2, 10**6, 10**9, 2**31, 10**18, 10**40, 1.5, -0.0, 1e308, float("nan"), float("inf"))
OTHER = (
    None,
    True,
    "",
    "x",
    "[bold]a[/bold]",
    "<script>",
    "\x1b[2J",
    "\u0000",
    "../../x",
    [],
    {},
    [[]],
    {"a": 1},
    [1, "b"],
)


def paths(data: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value within plain data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield (*before, key)
        yield from paths(value, (*before, key))


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return plain data with another value in a place; ``...`` removes it."""
    if not path:
        return value
    key, *rest = path
    copied = dict(data) if isinstance(data, dict) else list(data)
    if not rest and value is ...:
        del copied[key]
    else:
        copied[key] = changed(copied[key], tuple(rest), value)
    return copied


@st.composite
def mutated_data(draw: st.DrawFn, data: Any, times: int = 2) -> Any:
    """Plain data in which one or two values are others, or are missing."""
    for _ in range(draw(st.integers(1, times))):
        places = list(paths(data))
        if not places:
            break
        data = changed(data, draw(st.sampled_from(places)), draw(st.sampled_from([..., *STRANGE, *OTHER])))
    return data


@st.composite
def mutated_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """A file that is cut off, or of which some bytes are others, or stand twice."""
    place = draw(st.integers(0, len(content) - 1))
    kind = draw(st.sampled_from(("cut", "flip", "double", "insert", "zero")))
    if kind == "cut":
        return content[:place]
    if kind == "flip":
        flipped = bytearray(content)
        for _ in range(draw(st.integers(1, 4))):
            flipped[draw(st.integers(0, min(len(content), 2000) - 1))] ^= draw(st.integers(1, 255))
        return bytes(flipped)
    if kind == "double":
        return content[:place] + content[max(0, place - 200) : place] + content[place:]
    if kind == "insert":
        return content[:place] + draw(st.binary(min_size=1, max_size=8)) + content[place:]
    return content[:place] + bytes(len(content[place : place + 16])) + content[place + 16 :]
