"""Spectrum: how long each pair of a rotary model takes for a turn, before and after every scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from locant.figures.drawing import Figure, label, panels
from locant.figures.palette import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, VERMILION
from locant.figures.registry import register_figure
from locant.positions import RotaryConfig
from locant.positions.scaling import SCALINGS, Explanation, scaling_from_options

FATES = {
    "kept": (BLUE, "o", "kept: all its angles are known"),
    "blended": (ORANGE, "D", "blended: slowed by less"),
    "interpolated": (GREEN, "s", "interpolated: no angle will be new"),
    "extrapolated": (VERMILION, "X", "extrapolated: angles will be new"),
    "faster": (VERMILION, "^", "faster: sped up"),
    "backwards": (VERMILION, "v", "backwards: turned the other way"),
    "still": (PURPLE, "_", "still: never turned"),
}
"""Colour, marker and meaning of what becomes of a pair."""

# Phi-3-mini (Abdin et al. 2024), the model whose factors for LongRoPE are the best known. Trained for 4,096 tokens,
# extended to 131,072.
HEAD_DIM, BASE, TRAINED, TARGET = 96, 10000.0, 4096, 131072


@dataclass(frozen=True)
class Scaled:
    """What one scaling makes of a model.

    Attributes:
        name: What the field calls it.
        explanation: What becomes of every pair, with the trained and the effective length.
        first_unseen: First position that turns a pair to an angle that training never showed, in tokens; ``None``
            where there is none up to the length to be read.
    """

    name: str
    explanation: Explanation
    first_unseen: int | None


def compare_scalings(head_dim: int, base: float, trained: int, target: int) -> list[Scaled]:
    """Return what every registered scaling makes of a rotary model, trained at one length and read at another.

    A scaling that does not follow from lengths is left out. LongRoPE's factors are searched for each model; those of
    Phi-3-mini represent them, spread over the pairs that there are.
    """
    models = []
    for name, registered in SCALINGS.items():
        options = registered.options_for_lengths(rotary_dim=head_dim, trained=trained, longest=target)
        if options is None:
            continue
        scaling = scaling_from_options(name, options)
        # The length that an unscaled model is declared for is the one that it was trained for.
        declared = trained if scaling.trained is None else None
        config = RotaryConfig(head_dim=head_dim, base=base, scaling=scaling, max_length=declared)
        explanation = config.explain(length=target)
        # Training showed a pair the angles below its length times its frequency; all where that is a full turn.
        incomplete = [pair for pair in explanation.pairs if pair.wavelength > trained and pair.ratio]
        # What rounding leaves of a ratio is no new angle.
        first = min((math.ceil(trained / pair.ratio - 1e-6) for pair in incomplete), default=target)
        models.append(Scaled(scaling.title, explanation, first if first < target else None))
    return models


def numbers() -> dict[str, Any]:
    """Return what each scaling makes of the wavelengths of Phi-3-mini, extended from 4,096 to 131,072 tokens."""
    found: dict[str, Any] = {"notes": {}}
    for model in compare_scalings(HEAD_DIM, BASE, TRAINED, TARGET):
        pairs = model.explanation.pairs
        found["wavelengths"] = np.array([pair.wavelength for pair in pairs])
        found[f"scaled {model.name}"] = np.array([pair.scaled_wavelength for pair in pairs])
        found[f"fates {model.name}"] = np.array([pair.fate for pair in pairs])
        note = f"new angles from token {model.first_unseen:,}" if model.first_unseen else "no angle is new"
        if model.explanation.attention_scale != 1:
            note += f"; attention scale {model.explanation.attention_scale:.3f}"
        found["notes"][model.name] = note
    return found


def draw(notes: dict[str, str], wavelengths: Any, **data: Any) -> Figure:
    """Draw the wavelength of every pair under several scalings side by side."""
    from matplotlib.lines import Line2D

    columns = 5 if len(notes) % 5 == 4 else 4  # the legend is in the last row
    figure, found = panels(len(notes) + 1, columns, width=3 * columns, height=3.4, sharex=True, sharey=True)
    title = f"Phi-3-mini: {HEAD_DIM // 2} pairs, base {BASE:,.0f}, from {TRAINED:,} to {TARGET:,} tokens"
    figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
    lengths: Any = ((TRAINED, "--", "trained"), (TARGET, ":", "to be read"))
    for number, (name, note) in enumerate(notes.items()):
        axes, fates = found[number], data[f"fates {name}"]
        axes.plot(wavelengths, color=FAINT, linewidth=1)
        for length, stroke, _ in lengths:
            axes.axhline(length, color=INK, linewidth=1, linestyle=stroke)
        for fate, (color, mark, _) in FATES.items():
            pairs = np.flatnonzero(fates == fate)
            axes.plot(pairs, data[f"scaled {name}"][pairs], mark, color=color, markersize=4.5)
        label(axes, name, note=note, log="y", y="" if number % columns else "tokens of a full turn")
        if number + columns >= len(notes):
            axes.set_xlabel("pair, the fastest first")
            axes.tick_params(labelbottom=True)
    met = {fate for name in notes for fate in data[f"fates {name}"]}
    entries = [
        Line2D([], [], color=color, marker=mark, linestyle="", markersize=6, label=meaning)
        for fate, (color, mark, meaning) in FATES.items()
        if fate in met
    ]
    entries.append(Line2D([], [], color=FAINT, linewidth=1, label="wavelength before scaling"))
    for length, stroke, name in lengths:
        entries.append(Line2D([], [], color=INK, linewidth=1, linestyle=stroke, label=f"{name}: {length:,} tokens"))
    found[len(notes)].set_axis_off()
    found[len(notes)].legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(-0.1, 1.1),
        fontsize=8.5,
        title=f"{int((wavelengths <= TRAINED).sum())} of {len(wavelengths)} pairs make a turn in training",
        title_fontproperties={"size": 9, "weight": "bold"},
        alignment="left",
        labelspacing=0.7,
    ).set_in_layout(False)  # wider than its panel, it would make the panels of its column narrower
    return figure


register_figure("spectrum", numbers, draw)
