"""Tutorial errors: common statements, each against the numbers that refute it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from locant.analysis.geometry import measure_geometry
from locant.errors import ConfigError
from locant.figures.drawing import Figure, label, panels, wrapped
from locant.figures.numbers import wavelengths_of
from locant.figures.palette import INK, LINES, PAPER
from locant.figures.registry import register_figure
from locant.positions import sinusoid_table

_TRAINED = 512  # tokens
_PANELS = {  # axes by statement, and which are logarithmic
    "for i in range(0, d, 2): p / 10000 ** (2 * i / d)": ("feature i = 0, 2, 4 …", "tokens of a full turn", "y"),
    "The angle always grows with distance": ("distance in tokens", "angle between PE(0) and PE(k), degrees", ""),
    "The higher i, the higher the frequency": ("pair i", "turns per token", "y"),
    "A larger d extends the context": ("width d", "longest wave in tokens", "xy"),
}
_WIDTHS = (32, 64, 128, 256, 512, 1024)
_BASES = (10_000, 100_000, 1_000_000)


def numbers(*, d_model: int = 64) -> dict[str, Any]:
    """Return what refutes four statements, for sinusoidal codes of a width: curves and a finding each.

    Raises:
        ConfigError: The width is odd, or too small for its angles to shrink anywhere.
    """
    features, waves = np.arange(0, d_model, 2, dtype=float), wavelengths_of(d_model)
    doubled = 2 * math.pi * 10000 ** (2 * features / d_model)
    right, wrong = (int((wave <= _TRAINED).sum()) for wave in (waves, doubled))
    table = sinusoid_table(torch.arange(101), d_model).double()
    turn = measure_geometry(table).first_rise
    if turn is None:
        raise ConfigError(f"Angles of {d_model} features grow over all 100 tokens; take --d-model 4 or more.")
    angles = np.degrees(np.arccos(np.clip((table @ table[0]).numpy() / (d_model / 2), -1, 1)))
    longest = {f"base {base:,}": [wavelengths_of(width, base=base)[-1] for width in _WIDTHS] for base in _BASES}
    grown = 100 * (longest["base 10,000"][-1] / longest["base 10,000"][1] - 1)
    slow = [100 * float((wavelengths_of(width) > 4096).mean()) for width in (64, 1024)]
    findings = [
        f"i is 2i already: waves reach {doubled[-1]:.1e} tokens instead of {waves[-1]:,.0f}, and only "
        f"{wrong} pairs instead of {right} of {d_model // 2} make a turn within {_TRAINED} tokens",
        f"d = {d_model}: it shrinks from distance {turn - 1} ({angles[turn - 1]:.1f}°) to {turn} ({angles[turn]:.1f}°);"
        f" of 100 steps outwards {int((np.diff(angles) < 0).sum())} make it smaller",
        f"pair 0 turns once in {waves[0]:.2f} tokens, pair {d_model // 2 - 1} once in {waves[-1]:,.0f}: "
        "the higher i, the lower the frequency and the longer the wave",
        f"from d = 64 to 1024 the longest wave grows by {grown:.0f} %; the share of "
        f"pairs slower than a turn in 4,096 tokens stays: {slow[0]:.0f} % and {slow[1]:.0f} %",
    ]
    curves: list[dict[str, Any]] = [
        {"right: 10000 ** (i / d)": (features, waves), "doubled: 10000 ** (2 * i / d)": (features, doubled)},
        {"angle": (np.arange(101.0), angles)},
        {"frequency": (np.arange(d_model / 2), 1 / waves)},
        {name: (np.array(_WIDTHS, dtype=float), waves) for name, waves in longest.items()},
    ]
    named = {
        f"{title}: {name}": np.stack(curve)
        for title, of_title in zip(_PANELS, curves, strict=True)
        for name, curve in of_title.items()
    }
    return {"findings": findings, "turn": turn, **named}


def draw(findings: list[str], turn: int, **curves: Any) -> Figure:
    """Draw statements and what refutes them, two panels in a row."""
    figure, found = panels(len(_PANELS), 2, width=11, height=4.1)
    for axes, finding, (title, (x, y, log)) in zip(found, findings, _PANELS.items(), strict=True):
        own = {name.removeprefix(f"{title}: "): curve for name, curve in curves.items() if name.startswith(title)}
        for (name, curve), (color, stroke, _) in zip(own.items(), LINES, strict=False):
            axes.plot(*curve, stroke, marker="o" if "x" in log else None, markersize=4, color=color, label=name)
            if name == "angle":
                axes.plot(*curve[:, turn], "o", color=INK, markersize=8, markeredgecolor=PAPER, zorder=4)
        label(axes, f"“{title}”", x, y, note=wrapped(finding, 62), log=log)
        if "x" in log:
            axes.set_xscale("log", base=2)
            axes.set_xticks(_WIDTHS, [f"{width}" for width in _WIDTHS])
            axes.minorticks_off()
        if len(own) > 1:
            low, high = axes.get_ylim()
            axes.set_ylim(low, 15 * high)
            axes.legend(loc="upper left")
    return figure


register_figure("tutorial-errors", numbers, draw, limits={"d_model": (2, 1024)})
