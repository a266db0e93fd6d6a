"""Two listings of the sinusoids, a loop and exp/log on whole arrays: equal, and how far each is from exact."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.figures.drawing import BLUE, FAINT, GREEN, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

_EQUAL = 512  # positions at which the two are compared
_LINES = ((VERMILION, "-", "o"), (BLUE, "--", "s"), (GREEN, "-.", "^"), (INK, ":", "D"))


# fmt: off
def loop_form(positions: Sequence[int], d: int, base: float = 10000.0) -> Tensor:
    """Return the sinusoidal codes ``[P, d]`` of positions, value by value in float64."""
    table = []
    for p in positions:
        row = []
        for i in range(0, d, 2):
            angle = p / base ** (i / d)
            row += [math.sin(angle), math.cos(angle)]
        table.append(row)
    return torch.tensor(table, dtype=torch.float64)


def array_form(positions: Tensor, d: int, base: float = 10000.0) -> Tensor:
    """Return the sinusoidal codes ``[P, d]`` of positions ``[P]``, all at once in the dtype of the positions."""
    i = torch.arange(0, d, 2, dtype=positions.dtype)
    frequency = torch.exp(i * (-math.log(base) / d))
    angle = positions[:, None] * frequency
    table = torch.empty(len(positions), d, dtype=positions.dtype)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)
    return table
# fmt: on


def sinusoid_forms_numbers(*, d_model: int = 512, length: int = 2**20, base: float = 10000.0) -> dict[str, Any]:
    """Return the largest difference between the two forms, and the error of each by position.

    Raises:
        ConfigError: The width is odd.
    """
    frequencies = sinusoid_frequencies(d_model, base=base)
    near = range(_EQUAL)
    difference = loop_form(near[::8], d_model, base) - array_form(torch.arange(0, _EQUAL, 8).double(), d_model, base)
    positions = torch.tensor(sorted({round(2 ** (n / 2)) for n in range(2 * int(math.log2(length)) + 1)}))
    angle = frequencies.angles(positions)
    exact = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)
    tables = {
        "exp/log on arrays, float32": array_form(positions.float(), d_model, base),
        "exp/log on arrays, float64": array_form(positions.double(), d_model, base),
        "loop, float64": loop_form(positions.tolist(), d_model, base),
        "sinusoid_table of Locant, float32": sinusoid_table(positions, d_model, base=base),
    }
    return {
        "listings": {"A loop": _body(loop_form), "The same on arrays": _body(array_form)},
        "difference": float(difference.abs().max()),
        "positions": positions.double().numpy(),
        "errors": {name: (table.double() - exact).abs().amax(1).numpy() for name, table in tables.items()},
    }


def _body(function: Any) -> str:
    """Return the lines of a function without its heading, as they run."""
    lines = inspect.getsource(function).splitlines()
    return inspect.cleandoc("\n" + "\n".join(lines[2:]))


def sinusoid_forms(
    listings: Mapping[str, str], *, difference: float, positions: Numbers, errors: Mapping[str, Numbers]
) -> FigureData:
    """Draw two listings and the errors of the codes that they compute.

    Args:
        listings: Lines of code by title.
        difference: Largest difference between their results in float64.
        positions: Where the errors were measured, ``[P]``, from 1 on.
        errors: Largest error of any feature by position, ``[P]``, by name of the code.

    Returns:
        The figure, ``positions`` and the errors.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        figure = new_figure(13, 5.6)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
        left.set_axis_off()
        left.set_xlim(0, 1)
        left.set_ylim(0, 1)
        top = 1.0
        for title, listing in listings.items():
            left.text(0, top, title, fontsize=12, fontweight="bold", va="top")
            left.text(0, top - 0.07, listing, family="DejaVu Sans Mono", fontsize=9.2, va="top", linespacing=1.4)
            top -= 0.15 + 0.036 * (listing.count("\n") + 1)
        left.text(
            0, top, f"Largest difference of the two in float64,\npositions below {_EQUAL}: {difference:.1e}", va="top"
        )
        for (name, values), (colour, style, marker) in zip(errors.items(), _LINES, strict=False):
            right.plot(positions, values, style, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=name)
        right.set_xscale("log", base=2)
        right.set_yscale("log")
        right.set_title("Largest error of a feature", pad=10)
        right.set_xlabel("position")
        right.set_ylabel("|computed \N{MINUS SIGN} exact|")
        right.axhline(2**-25, color=FAINT, linewidth=0.9)
        note = "half a unit in the last place of float32 "
        right.text(positions[-1], 2**-25 / 1.6, note, fontsize=8.5, color=FAINT, va="top", ha="right")
        right.legend(loc="upper left", fontsize=9)
        low, high = right.get_ylim()
        right.set_ylim(low, high * 3e2)
        settle(figure)
    return FigureData(figure, {"positions": positions, "difference": np.array(difference), **errors})


register_figure(
    "sinusoid-forms",
    numbers=sinusoid_forms_numbers,
    draw=sinusoid_forms,
    caption=Caption(
        "A loop and exp/log: the same code, not the same rounding",
        "Tutorials compute the sinusoids by a loop over positions and features, or at once from exp and log. In "
        "float64 the two agree. In float32 the angle itself is rounded, by an error that grows with the position: far "
        "into a text the fast pairs point somewhere else.",
        "p / 10000<sup>2i/d</sup>&nbsp;= p&thinsp;exp(&minus;2i&thinsp;ln&thinsp;10000 / d), &nbsp; "
        "|error|&nbsp;&asymp; pω&thinsp;·&thinsp;2<sup>&minus;24</sup> in float32",
        (
            "The listings are the lines that were run. The exact values come from frequencies with 50 digits.",
            "Values between 1/2 and 1 are 2⁻²⁴ apart in float32: even the exact value, once rounded, is off by up to "
            "half of that, which is the thin line.",
        ),
    ),
    limits={"d_model": (2, 1024), "length": (16, 2**24)},
)
