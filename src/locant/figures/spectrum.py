"""Spectrum: how long each pair of a rotary model takes for a turn, before and after every scaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from locant.figures.drawing import Figure, label, panels, shared_legend
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


def compare_scalings(
    head_dim: int, base: float, trained: int, target: int
) -> dict[str, tuple[Explanation, int | None]]:
    """Return what every registered scaling makes of a rotary model, trained at one length and read at another.

    A scaling that does not follow from lengths is left out. LongRoPE's factors are searched for each model; those of
    Phi-3-mini represent them, spread over the pairs that there are.

    Returns:
        By title what becomes of every pair, and the first position that turns a pair to an angle that training never
        showed, in tokens; ``None`` where there is none up to the length to be read.
    """
    models: dict[str, tuple[Explanation, int | None]] = {}
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
        models[scaling.title] = explanation, first if first < target else None
    return models


def numbers() -> dict[str, Any]:
    """Return what each scaling makes of the wavelengths of Phi-3-mini, extended from 4,096 to 131,072 tokens."""
    found: dict[str, Any] = {"notes": {}}
    for name, (explanation, first_unseen) in compare_scalings(HEAD_DIM, BASE, TRAINED, TARGET).items():
        found["wavelengths"] = np.array([pair.wavelength for pair in explanation.pairs])
        found[f"scaled {name}"] = np.array([pair.scaled_wavelength for pair in explanation.pairs])
        found[f"fates {name}"] = np.array([pair.fate for pair in explanation.pairs])
        note = f"new angles from token {first_unseen:,}" if first_unseen else "no angle is new"
        if explanation.attention_scale != 1:
            note += f"; attention scale {explanation.attention_scale:.3f}"
        found["notes"][name] = note
    return found


def draw(notes: dict[str, str], wavelengths: Any, **data: Any) -> Figure:
    """Draw the wavelength of every pair under several scalings side by side."""
    figure, found = panels(len(notes), 3, width=11, height=2.9, sharex=True, sharey=True)
    turning = int((wavelengths <= TRAINED).sum())
    title = f"Phi-3-mini: {turning} of {len(wavelengths)} pairs make a turn in the {TRAINED:,} tokens of training"
    figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
    for axes, (name, note) in zip(found, notes.items(), strict=False):
        axes.plot(wavelengths, color=FAINT, linewidth=1, label="wavelength before scaling")
        for length, stroke, kind in ((TRAINED, "--", "trained"), (TARGET, ":", "to be read")):
            axes.axhline(length, color=INK, linewidth=1, linestyle=stroke, label=f"{kind}: {length:,} tokens")
        for fate, (color, mark, meaning) in FATES.items():
            pairs = np.flatnonzero(data[f"fates {name}"] == fate)
            if pairs.size:
                axes.plot(pairs, data[f"scaled {name}"][pairs], mark, color=color, markersize=4.5, label=meaning)
        label(axes, name, "pair, the fastest first", "tokens of a full turn", note=note, log="y")
        axes.label_outer()
    shared_legend(figure, found, 3)
    return figure


register_figure("spectrum", numbers, draw)
