"""Two listings of the sinusoids, a loop and exp/log on whole arrays: equal, and how far each is from exact."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.figures.drawing import MINUS, MONO, Figure, blank, label, new_figure
from locant.figures.palette import FAINT, LINES
from locant.figures.registry import register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

_EQUAL = 512  # positions at which the two are compared


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


def numbers(*, d_model: int = 512, length: int = 2**20, base: float = 10000.0) -> dict[str, Any]:
    """Return the largest difference between the two forms, and the error of each by position."""
    near = range(0, _EQUAL, 8)
    difference = loop_form(near, d_model, base) - array_form(torch.tensor(near).double(), d_model, base)
    positions = torch.tensor(sorted({round(2 ** (n / 2)) for n in range(2 * int(math.log2(length)) + 1)}))
    angle = sinusoid_frequencies(d_model, base=base).angles(positions)
    exact = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)
    tables = {
        "exp/log on arrays, float32": array_form(positions.float(), d_model, base),
        "exp/log on arrays, float64": array_form(positions.double(), d_model, base),
        "loop, float64": loop_form(positions.tolist(), d_model, base),
        "sinusoid_table of Locant, float32": sinusoid_table(positions, d_model, base=base),
    }
    bodies = [inspect.getsource(function).splitlines()[2:] for function in (loop_form, array_form)]
    listings = [inspect.cleandoc("\n" + "\n".join(lines)) for lines in bodies]
    return {
        "listings": dict(zip(("A loop", "The same on arrays"), listings, strict=True)),
        "difference": np.array(float(difference.abs().max())),
        "positions": positions.double().numpy(),
        **{name: (table.double() - exact).abs().amax(1).numpy() for name, table in tables.items()},
    }


def draw(listings: Mapping[str, str], *, difference: Any, positions: Any, **errors: Any) -> Figure:
    """Draw two listings and the errors of the codes that they compute."""
    figure = new_figure(13, 5.6)
    found = figure.subplot_mosaic([[title, "errors"] for title in listings], width_ratios=[1, 1.15])
    for title, listing in listings.items():
        label(found[title], title)
        blank(found[title])
        found[title].text(0, 1, listing, fontsize=9.2, va="top", linespacing=1.4, **MONO)
    said = f"Largest difference in float64, positions below {_EQUAL}: {difference:.1e}"
    found[title].text(0, -0.05, said, fontsize=9.5)
    right = found["errors"]
    for (name, values), (color, stroke, mark) in zip(errors.items(), LINES, strict=False):
        right.plot(positions, values, stroke, color=color, marker=mark, markersize=3.5, linewidth=1.5, label=name)
    label(right, "Largest error of a feature", "position", f"|computed {MINUS} exact|", log="y")
    right.set_xscale("log", base=2)
    right.axhline(2**-25, color=FAINT, linewidth=0.9)
    note = "half a unit in the last place of float32 "
    right.text(positions[-1], 2**-25 / 1.6, note, fontsize=8.5, color=FAINT, va="top", ha="right")
    right.legend(loc="upper left", fontsize=9)
    low, high = right.get_ylim()
    right.set_ylim(low, high * 3e2)
    return figure


register_figure("sinusoid-forms", numbers, draw, limits={"d_model": (2, 1024), "length": (16, 2**24)})
