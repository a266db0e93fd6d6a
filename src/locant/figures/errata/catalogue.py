"""The catalogue of errata, in the order of the pages, and what the same texts say rightly."""

from __future__ import annotations

from dataclasses import dataclass

from locant.errors import UsageError, nearest
from locant.figures.errata import first_ideas, geometry, rotary, sinusoids, transformer
from locant.figures.errata.entry import Erratum


@dataclass(frozen=True)
class Topic:
    """Errata that belong together.

    Attributes:
        key: Its anchor on the pages.
        title: Heading.
        entries: The errata.
    """

    key: str
    title: str
    entries: tuple[Erratum, ...]


TOPICS: tuple[Topic, ...] = (
    Topic("order", "Order, and the first ideas", first_ideas.ERRATA),
    Topic("formula", "The formula of the sinusoids", sinusoids.ERRATA),
    Topic("sinusoids", "What sinusoids do", geometry.ERRATA),
    Topic("transformer", "Attention and the architecture", transformer.ERRATA),
    Topic("rotary", "Rotary positions and longer contexts", rotary.ERRATA),
)
"""All errata, by topic."""

RIGHTLY_SAID: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "A recurrent network reads in order and must; attention sees all words at once, and has to be told.",
        ("recurrence", "architecture"),
    ),
    (
        "The index itself grows without bound, a share of the length changes its meaning with the length, and binary "
        "digits jump: the sinusoids are the smooth counterpart of the digits.",
        ("clocks", "heatmaps", "criteria"),
    ),
    (
        "The dot product of two codes depends on their distance alone, and is largest at distance 0.",
        ("dot-products", "distance"),
    ),
    (
        "Sine and cosine together, because then a shift is a rotation, the same wherever it starts.",
        ("circle", "sine-alone", "shift-derivation"),
    ),
    (
        "Adding the code works, and costs no features; residual connections carry it to the upper layers.",
        ("word-plus-position", "embedding-sum", "probe"),
    ),
    (
        "Scores are divided by √d<sub>k</sub>, because large ones drive the softmax to where its gradient vanishes.",
        ("dot-product-scaling",),
    ),
    (
        "In training the decoder is given the right words and a mask keeps it from looking ahead.",
        ("teacher-forcing", "masks"),
    ),
    (
        "Rotary positions have no parameters, and put the offset, and nothing else, into the score.",
        ("distance", "bias"),
    ),
    (
        "Position interpolation squeezes all frequencies alike, which costs the fast ones their resolution; NTK and "
        "YaRN spare those.",
        ("spectrum",),
    ),
)
"""What the same texts say rightly, each with the figures that show it."""


def get_erratum(key: str) -> Erratum:
    """Return an erratum.

    Args:
        key: Its key, such as ``e4``.

    Raises:
        UsageError: There is none of this key.

    Example:
        >>> get_erratum("e4").values()[0].computed_text
        '0.0464'
    """
    known = {entry.key: entry for topic in TOPICS for entry in topic.entries}
    if key.lower() not in known:
        raise UsageError(f"There is no erratum '{key}'.{nearest(key, known)} They run from e1 to e{len(known)}.")
    return known[key.lower()]
