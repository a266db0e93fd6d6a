"""The numbers of the pages about single schemes: what a scheme does, as one picture a question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from locant.app.explorer.limits import choice, number, whole
from locant.app.explorer.panels import Clocks, Curves, Matrix, Panel, Strips
from locant.app.gallery.attention import head_biases, rotary_bound
from locant.app.gallery.codes import INPUT_SCHEMES, code_table, hands, wave_curves
from locant.figures.drawn import Numbers, count
from locant.positions import SCHEMES
from locant.positions.properties import measure_geometry
from locant.positions.registry import option_names

BIAS_SCHEMES = ("alibi", "t5", "kerple", "fire", "sandwich")
SHOWN_SCHEMES = (*INPUT_SCHEMES, "rotary", *BIAS_SCHEMES)
PICTURES = ("heatmap", "distance", "products", "waves", "clocks")

LARGEST = 1024
LARGEST_BASE = 10**12
HEADS = 8

_MOST_CLOCKS = 16
_MOST_POINTS = 1200
_MOST_LINES = 8


@dataclass(frozen=True)
class Knobs:
    """What can be set on a page about schemes.

    Attributes:
        width: Features of the code, or of the model for score biases, ``d``.
        length: Number of positions.
        base: Base of the wavelengths.
        position: The position that is marked.
    """

    width: int
    length: int
    base: float
    position: int

    @classmethod
    def of_page(cls, width: Any, length: Any, base: Any, position: Any) -> Knobs:
        """Check what a page sent.

        Raises:
            UsageError: A value is missing, out of range or no number.
        """
        tokens = whole("Length", length, 2, LARGEST)
        return cls(
            whole("Width d", width, 2, LARGEST),
            tokens,
            number("Base", base, 1.1, LARGEST_BASE),
            whole("Marked position", position, 0, tokens - 1),
        )


def pictures(scheme: Any, knobs: Knobs) -> dict[str, Panel]:
    """Return what there is to see of a scheme.

    Args:
        scheme: One of :data:`SHOWN_SCHEMES`; anything else is refused.
        knobs: The values set.

    Returns:
        Panels by some of the names :data:`PICTURES`.

    Raises:
        UsageError: The scheme is not known here.
        LocantError: The scheme does not take such a width or length.
    """
    scheme = choice("Scheme", scheme, SHOWN_SCHEMES)
    if scheme in BIAS_SCHEMES:
        return _of_bias(scheme, knobs)
    return _of_rotary(knobs) if scheme == "rotary" else _of_code(scheme, knobs)


def uses_base(scheme: str) -> bool:
    """Whether the base of the wavelengths means anything to a scheme."""
    return "base" in option_names(SCHEMES[scheme]) and scheme not in BIAS_SCHEMES


def _of_code(scheme: str, knobs: Knobs) -> dict[str, Panel]:
    table, products, geometry = _code(scheme, knobs.width, knobs.length, knobs.base if uses_base(scheme) else None)
    trained = " Its initial values are shown; training shapes them." if scheme == "learned" else ""
    heat = Matrix(
        "The code of every position",
        f"Row p is what position p adds to the embedding of its token.{trained}",
        table, "value", "position", "feature",
    )  # fmt: skip
    return {
        "heatmap": heat,
        "distance": _distance(products[knobs.position], knobs, f"PE({knobs.position}) · PE(q)"),
        "products": Matrix(
            "Dot products of all pairs of positions", geometry, products, "PE(p) · PE(q)", "position p", "position q"
        ),
        **(_turning(knobs) if scheme == "sinusoidal" else {"waves": _features(table, knobs)}),
    }


@lru_cache(maxsize=4)  # the marked position changes none of it
def _code(scheme: str, width: int, length: int, base: float | None) -> tuple[Numbers, Numbers, str]:
    """Return the table of a code, the dot products of its rows, and what there is to say about them."""
    table = code_table(scheme, d_model=width, length=length, options={} if base is None else {"base": base})
    return table, table @ table.T, _geometry(table)


def _geometry(table: Numbers) -> str:
    found = measure_geometry(torch.from_numpy(table))
    same = found.dot_deviation <= 1e-4 * max(found.largest_norm**2, 1e-30)
    even = "They depend on the distance alone" if same else "They depend on where the two stand, not on distance alone"
    rise = "they only fall" if found.first_rise is None else f"they first rise again at distance {found.first_rise}"
    norms = " to ".join(dict.fromkeys(f"{norm:.4g}" for norm in (found.smallest_norm, found.largest_norm)))
    return f"{even}; on average {rise}. Norms of the codes: {norms}."


def _distance(row: Numbers, knobs: Knobs, measure: str) -> Curves:
    return Curves(
        f"Near position {knobs.position}",
        "How much the codes of other positions resemble that of the marked one.",
        np.arange(len(row)), "position q", {measure: row}, measure, marked=knobs.position,
    )  # fmt: skip


def _features(table: Numbers, knobs: Knobs) -> Strips:
    chosen = np.linspace(0, knobs.width - 1, min(_MOST_LINES, knobs.width)).round().astype(int)
    return Strips(
        "Features along the text",
        "Some features of the code, each between its own lowest and highest value; the marked position receives the "
        "values on the vertical line.",
        np.arange(knobs.length), "position",
        {f"feature {feature}": {"value": table[:, feature]} for feature in chosen}, knobs.position,
    )  # fmt: skip


def _of_rotary(knobs: Knobs) -> dict[str, Panel]:
    _, cosine, _ = hands(knobs.length, d_model=knobs.width, base=knobs.base)
    distances, bound = rotary_bound(head_dim=knobs.width, reach=knobs.length - 1, base=knobs.base)
    heat = Matrix(
        "Cosine of every pair's angle",
        "Rotary positions add nothing: at position p, pair i of every query and key is turned by p / base^(2i/d), "
        "whose cosine is shown.",
        cosine, "cosine", "position", "pair",
    )  # fmt: skip
    decay = Curves(
        "Scores by distance",
        "The score of equal query and key, and how the bound sinks that Su et al. (2021, section 3.4.3) prove for any "
        "two up to a factor of their contents; each as a share of its value at distance 0.",
        distances, "distance in tokens",
        {"equal query and key": cosine.mean(axis=1), "decay of the bound": bound / bound[0]}, "share of that at 0",
    )  # fmt: skip
    return {"heatmap": heat, "distance": decay, **_turning(knobs)}


def _turning(knobs: Knobs) -> dict[str, Panel]:
    """Return waves and clocks of pairs that turn."""
    curves = wave_curves(
        d_model=knobs.width, length=knobs.length, base=knobs.base, token=knobs.position, most_pairs=_MOST_LINES
    )
    every = max(1, len(curves.places) // _MOST_POINTS)
    waves = Strips(
        "The waves of the pairs",
        f"Sine and cosine of {len(curves.pairs)} of {knobs.width // 2} pairs; the marked position receives the values "
        "on the vertical line.",
        curves.places[::every], "position",
        {
            f"pair {int(pair)}: {count(wavelength)} tokens": {"sine": sine[::every], "cosine": cosine[::every]}
            for pair, wavelength, sine, cosine in zip(
                curves.pairs, curves.wavelengths, curves.sine, curves.cosine, strict=True
            )
        },
        knobs.position,
    )  # fmt: skip
    sine, cosine, wavelengths = hands(knobs.length, d_model=knobs.width, base=knobs.base)
    chosen = np.linspace(0, len(wavelengths) - 1, min(_MOST_CLOCKS, len(wavelengths))).round().astype(int)
    clocks = Clocks(
        f"The clocks of position {knobs.position}",
        "Every pair of features is the hand of a clock, from 12 at position 0; the fast ones first. Step the marked "
        "position and see them run.",
        chosen, sine[knobs.position, chosen], cosine[knobs.position, chosen], wavelengths[chosen],
    )  # fmt: skip
    return {"waves": waves, "clocks": clocks}


def _of_bias(scheme: str, knobs: Knobs) -> dict[str, Panel]:
    distances, biases = head_biases(length=knobs.length, d_model=-(-knobs.width // HEADS) * HEADS, heads=HEADS)
    found = dict(zip(BIAS_SCHEMES, biases, strict=True))[scheme]
    by_head = {f"head {head + 1}": line for head, line in enumerate(found.values)}
    added = "added to the score"
    heat = Matrix(
        f"{found.title}: every head",
        "What is added to the score of a key that stands so many tokens before the query.",
        found.values, added, "head", "distance in tokens", rows=range(1, HEADS + 1),
    )  # fmt: skip
    lines = Curves(
        f"{found.title}: by distance", "One line a head.", distances, "distance in tokens", by_head, added,
        points=found.stepped and math.prod(found.values.shape) < _MOST_POINTS,
    )  # fmt: skip
    return {"heatmap": heat, "distance": lines}
