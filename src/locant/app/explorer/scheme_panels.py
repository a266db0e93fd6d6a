"""Panels of single schemes: what a scheme does, as one picture a question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from locant.analysis.geometry import measure_geometry
from locant.analysis.properties import Probe
from locant.app.explorer import rotation_panels
from locant.app.explorer.knobs import Number
from locant.app.explorer.limits import choice, whole
from locant.app.explorer.panels import Curves, Matrix, Picture, Strips
from locant.figures import HeadBiases
from locant.figures.bias import head_biases, is_distance_bias
from locant.figures.distance import rotary_bound
from locant.figures.drawing import Numbers
from locant.figures.numbers import code_table, example_scheme, initial_note
from locant.positions import SCHEMES, AttentionShape, RotaryConfig
from locant.positions.registry import option_names

LARGEST = 1024
LARGEST_BASE = 10**12

WIDTH = Number(
    name="width",
    label="Width d",
    lowest=2,
    highest=LARGEST,
    hint=f"2 to {LARGEST:,}; even for waves",
    step=2,
    scale="ratio",
)
LENGTH = Number(
    name="length", label="Length", lowest=2, highest=LARGEST, hint=f"2 to {LARGEST:,} positions", scale="ratio"
)
BASE = Number(
    name="base",
    label="Base",
    lowest=1.1,
    highest=LARGEST_BASE,
    hint="above 1; of the wavelengths",
    fraction=True,
    scale="ratio",
)
POSITION = Number(
    name="position",
    label="Marked position",
    lowest=0,
    highest=LARGEST - 1,
    hint="0 to length - 1",
    below="length",
)
OFFSET = Number(
    name="offset",
    label="Offset k",
    lowest=1,
    highest=LARGEST,
    hint=f"1 to {LARGEST:,}; from p to p + k on the circle",
    scale="ratio",
)
NUMBERS = (WIDTH, LENGTH, BASE, POSITION, OFFSET)

PICTURES = ("heatmap", "distance", "products", "waves", "clocks", "odometer", "circle")

_HEADS = 8
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
        offset: By how many tokens the circle shifts positions, ``k``.
    """

    width: int
    length: int
    base: float
    position: int
    offset: int

    @classmethod
    def of_page(cls, width: Any, length: Any, base: Any, position: Any, offset: Any) -> Knobs:
        """Check what a page sent.

        Raises:
            UsageError: A value is missing, out of range or no number.
        """
        tokens = int(LENGTH.check(length))
        return cls(
            int(WIDTH.check(width)),
            tokens,
            BASE.check(base),
            whole(POSITION.label, position, 0, tokens - 1),
            int(OFFSET.check(offset)),
        )


@lru_cache(maxsize=4)  # for several pictures, and while only other knobs are turned
def scheme_code(scheme: str, width: int, length: int, base: float | None) -> Numbers:
    """Return what a scheme adds to each position, ``[length, width]``.

    Raises:
        LocantError: The scheme does not take such a width or length.
    """
    return code_table(scheme, d_model=width, length=length, options={} if base is None else {"base": base})


@lru_cache(maxsize=4)
def scheme_biases(scheme: str, width: int, length: int) -> HeadBiases:
    """Return the score biases ``[8, length]`` of a model of this width, or the next that its heads can share."""
    return head_biases(scheme, length=length, d_model=-(-width // _HEADS) * _HEADS, heads=_HEADS)


@lru_cache(maxsize=4)
def score_changes(scheme: str, width: int, length: int, base: float | None) -> Numbers:
    """Return by how much positions change the scores of four fixed contents, ``[4, length, length]``.

    There is one head of ``width`` features, made for texts of a quarter of the length where that matters to the scheme.
    Keys after their query, which a decoder does not see, have 0.

    Raises:
        LocantError: The scheme does not take such a width or length.
    """
    options = SCHEMES[scheme].options_for_lengths(head_dim=width, trained=_trained(length), longest=length)
    asked = Probe(scheme, AttentionShape(width, 1, causal=True), options | ({} if base is None else {"base": base}))
    positions = torch.arange(length)
    return asked.scores(positions, positions).tril().numpy()


def _trained(length: int) -> int:
    return max(2, length // 4)


def pictures(scheme: Any, knobs: Knobs) -> dict[str, Picture]:
    """Return what there is to see of a scheme; :func:`about` says why there is no more.

    Args:
        scheme: A key of :data:`~locant.positions.SCHEMES`; anything else is refused.
        knobs: The values set.

    Returns:
        Pictures by some of the names :data:`PICTURES`.

    Raises:
        UsageError: The scheme is not known here.
        LocantError: The scheme does not take such a width or length.
    """
    scheme = choice("Scheme", scheme, list(SCHEMES))
    kind = _kind(scheme)
    if kind == "bias":
        return {
            "heatmap": Picture(_biases_by_head, (scheme, knobs.width, knobs.length)),
            "distance": Picture(_biases_by_distance, (scheme, knobs.width, knobs.length)),
        }
    if kind == "rotation":
        return _of_rotary(knobs)
    if kind == "code":
        return _of_code(scheme, knobs)
    return _of_scores(scheme, knobs) if kind == "scores" else {}


def _kind(scheme: str) -> str:
    """Return which pictures show a scheme best: those of a code, rotation, bias or of its scores, or ``nothing``."""
    example = example_scheme(scheme)
    config = example.rotary_config
    if not example.acts_on:
        return "nothing"
    if "embedding" in example.acts_on:
        return "code"
    if config is not None and config == RotaryConfig(head_dim=config.head_dim, base=config.base):
        return "rotation"
    return "bias" if is_distance_bias(example) else "scores"


def typical(kind: str) -> str:
    """Return the first registered scheme that is shown by its ``code``, ``rotation``, ``bias`` or ``scores``."""
    return next(scheme for scheme in SCHEMES if _kind(scheme) == kind)


_WHERE = {
    "embedding": "adds a code to the embeddings",
    "queries+keys": "acts on queries and keys",
    "scores": "changes the attention scores",
}
_LACKS = {
    "code": "",
    "rotation": " It has no code of its own, so there are no dot products of codes.",
    "bias": " It has no code and no hands that turn, so there are no dot products, waves, clocks and circle.",
    "scores": " It has neither a code of its own nor one bias a distance; its effect on the scores of four fixed "
    "contents is shown instead.",
    "nothing": " Only the causal mask tells such a model about order, so there is nothing to draw.",
}


def about(scheme: Any) -> str:
    """Return what a scheme does in a sentence, and which pictures make no sense for it.

    Raises:
        UsageError: The scheme is not known.
    """
    found = SCHEMES[choice("Scheme", scheme, list(SCHEMES))]
    acts_on = example_scheme(found.name).acts_on
    does = " and ".join(words for place, words in _WHERE.items() if place in acts_on) or "tells the model nothing"
    paper = f" ({found.paper})" if found.paper else ""
    return f"{found.title}{paper} {does}.{_LACKS[_kind(found.name)]}"


def _base(scheme: str, knobs: Knobs) -> float | None:
    """Return the base of the wavelengths where it means anything to a scheme."""
    return knobs.base if "base" in option_names(SCHEMES[scheme]) else None


def _of_code(scheme: str, knobs: Knobs) -> dict[str, Picture]:
    code = (scheme, knobs.width, knobs.length, _base(scheme, knobs))
    scheme_code(*code)  # says what the scheme does not take before any picture is wanted
    found = {
        "heatmap": Picture(_code, code),
        "distance": Picture(_near, (*code, knobs.position)),
        "products": Picture(_products, code),
    }
    if example_scheme(scheme).wave_pairs:
        return found | _of_rotation("PE", knobs)
    found["waves"] = Picture(_features, code, knobs.position)
    if example_scheme(scheme).bit_features:
        found["odometer"] = Picture(rotation_panels.digits, (knobs.length, knobs.position))
    return found


def _of_scores(scheme: str, knobs: Knobs) -> dict[str, Picture]:
    asked = (scheme, knobs.width, knobs.length, _base(scheme, knobs))
    score_changes(*asked)  # says what the scheme does not take before any picture is wanted
    return {"heatmap": Picture(_scores, asked), "distance": Picture(_scores_by_distance, asked)}


def _of_rotary(knobs: Knobs) -> dict[str, Picture]:
    rotation = (knobs.width, knobs.length, knobs.base)
    rotation_panels.hands(*rotation)  # says what widths there are not
    found = {"heatmap": Picture(_angles, rotation), "distance": Picture(_rotary_decay, rotation)}
    return found | _of_rotation("q", knobs)


def _of_rotation(name: str, knobs: Knobs) -> dict[str, Picture]:
    rotation = (knobs.width, knobs.length, knobs.base)
    return {
        "waves": Picture(rotation_panels.waves, rotation, knobs.position),
        "clocks": Picture(rotation_panels.clocks, (*rotation, knobs.position)),
        "odometer": Picture(rotation_panels.odometer, (*rotation, knobs.position)),
        "circle": Picture(rotation_panels.circle, (name, knobs.position, knobs.offset)),
    }


def _code(scheme: str, width: int, length: int, base: float | None) -> Matrix:
    trained = " Its initial values are shown; training shapes them." if initial_note(scheme) else ""
    return Matrix(
        "The code of every position",
        f"Row p is what position p adds to the embedding of its token.{trained}",
        scheme_code(scheme, width, length, base),
        "value",
        "position",
        "feature",
    )


@lru_cache(maxsize=4)  # to be drawn, and then to be asked for its numbers
def _products(scheme: str, width: int, length: int, base: float | None) -> Matrix:
    table = scheme_code(scheme, width, length, base)
    return Matrix(
        "Dot products of all pairs of positions",
        _geometry(table),
        table @ table.T,
        "PE(p) · PE(q)",
        "position p",
        "position q",
    )


def _geometry(table: Numbers) -> str:
    found = measure_geometry(torch.from_numpy(table))
    same = found.dot_deviation <= 1e-4 * max(found.largest_norm**2, 1e-30)
    even = "They depend on the distance alone" if same else "They depend on where the two stand, not on distance alone"
    rise = "they only fall" if found.first_rise is None else f"they first rise again at distance {found.first_rise}"
    norms = " to ".join(dict.fromkeys(f"{norm:.4g}" for norm in (found.smallest_norm, found.largest_norm)))
    return f"{even}; on average {rise}. Norms of the codes: {norms}."


def _near(scheme: str, width: int, length: int, base: float | None, position: int) -> Curves:
    table, measure = scheme_code(scheme, width, length, base), f"PE({position}) · PE(q)"
    return Curves(
        f"Near position {position}",
        "How much the codes of other positions resemble that of the marked one.",
        np.arange(length),
        "position q",
        {measure: table @ table[position]},
        measure,
        marked=position,
    )


def _features(scheme: str, width: int, length: int, base: float | None) -> Strips:
    table = scheme_code(scheme, width, length, base)
    chosen = np.linspace(0, width - 1, min(_MOST_LINES, width)).round().astype(int)
    return Strips(
        "Features along the text",
        "Some features of the code, each between its own lowest and highest value; the marked position receives the "
        "values on the vertical line.",
        np.arange(length),
        "position",
        {f"feature {feature}": {"value": table[:, feature]} for feature in chosen},
    )


def _angles(width: int, length: int, base: float) -> Matrix:
    return Matrix(
        "Cosine of every pair's angle",
        "Rotary positions add nothing: at position p, pair i of every query and key is turned by p / base^(2i/d), "
        "whose cosine is shown.",
        rotation_panels.hands(width, length, base)[1],
        "cosine",
        "position",
        "pair",
    )


def _rotary_decay(width: int, length: int, base: float) -> Curves:
    _, cosine, _ = rotation_panels.hands(width, length, base)
    distances, bound = rotary_bound(head_dim=width, reach=length - 1, base=base)
    return Curves(
        "Scores by distance",
        "The score of equal query and key, and how the bound sinks that Su et al. (2021, section 3.4.3) prove for any "
        "two up to a factor of their contents; each as a share of its value at distance 0.",
        distances,
        "distance in tokens",
        {"equal query and key": cosine.mean(axis=1), "decay of the bound": bound / bound[0]},
        "share of that at 0",
    )


def _scores(scheme: str, width: int, length: int, base: float | None) -> Matrix:
    return Matrix(
        "Change of every score",
        "By how much positions change the scaled score of a query and a key whose contents are the same everywhere; "
        f"one head of {width} features, made for {_trained(length)} tokens where that matters to the scheme.",
        score_changes(scheme, width, length, base)[0],
        "added to the score",
        "position of the query",
        "position of the key",
    )


def _scores_by_distance(scheme: str, width: int, length: int, base: float | None) -> Curves:
    last = score_changes(scheme, width, length, base)[:, -1, ::-1]
    return Curves(
        "Change of the scores by distance",
        "From the last position backwards, for four contents of query and key.",
        np.arange(length),
        "distance in tokens",
        {f"content {number + 1}": line for number, line in enumerate(last)},
        "added to the score",
    )


def _biases_by_head(scheme: str, width: int, length: int) -> Matrix:
    found = scheme_biases(scheme, width, length)
    return Matrix(
        f"{found.title}: every head",
        "What is added to the score of a key that stands so many tokens before the query.",
        found.values,
        "added to the score",
        "head",
        "distance in tokens",
        rows=range(1, _HEADS + 1),
    )


def _biases_by_distance(scheme: str, width: int, length: int) -> Curves:
    found = scheme_biases(scheme, width, length)
    by_head = {f"head {head + 1}": line for head, line in enumerate(found.values)}
    return Curves(
        f"{found.title}: by distance",
        "One line a head.",
        np.arange(length),
        "distance in tokens",
        by_head,
        "added to the score",
        points=found.stepped and math.prod(found.values.shape) < _MOST_POINTS,
    )
