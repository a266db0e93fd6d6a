"""Bands of a model's rotary pairs: which are kept, blended and interpolated, and where training and reading end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from locant.errors import LocantError
from locant.extension import Inspection
from locant.figures.drawing import FAINT, INK, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.files import require_image_path, save_figure
from locant.figures.spectrum import FATE_MARKS, FATE_MEANING
from locant.positions.rotary.config import RotaryConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTE_WIDTH = 90


@dataclass(frozen=True)
class LayerBands:
    """The pairs of one type of layer.

    Attributes:
        name: Of the type of layer.
        note: The scaling in a few words.
        wavelengths: Tokens of a full turn before the scaling, ``[P]``.
        scaled: Tokens of a full turn after it, ``[P]``; infinite for a pair that stands still.
        fates: What becomes of each pair, a key of :data:`~locant.figures.spectrum.FATE_MARKS`.
        trained: Length trained in tokens, where it is known.
        effective: Length in tokens that the frequencies are made for, where it is known.
    """

    name: str
    note: str
    wavelengths: Numbers
    scaled: Numbers
    fates: Sequence[str]
    trained: int | None
    effective: int | None


def inspected_layers(inspection: Inspection) -> list[LayerBands]:
    """Return the bands of every type of layer of an inspected model.

    Raises:
        LocantError: The configuration has no meaning that could be drawn.
    """
    if inspection.parsed is None:
        when = " before the configuration is right" if inspection.has_errors else ""
        raise LocantError(f"Nothing can be drawn{when}: {inspection.findings[0].message}")
    parsed = inspection.parsed
    layers = [_layer(name, config, parsed.layers_with(name)) for name, config in parsed.configs.items()]
    rest = parsed.layers_without()
    return [*layers[:-1], replace(layers[-1], note=" ".join([f"{layers[-1].note}.", *rest]))] if rest else layers


def _layer(name: str, config: RotaryConfig, which: str) -> LayerBands:
    explanation = config.explain()
    return LayerBands(
        name=name,
        note=f"{which}; {config.describe()}" if which else config.describe(),
        wavelengths=np.array([pair.wavelength for pair in explanation.pairs]),
        scaled=np.array([pair.scaled_wavelength for pair in explanation.pairs]),
        fates=[pair.fate for pair in explanation.pairs],
        trained=explanation.trained_length,
        effective=explanation.effective_length,
    )


def write_inspection_figure(inspection: Inspection, path: Path) -> None:
    """Draw the bands of every type of layer.

    Args:
        inspection: The model.
        path: A file that ends in ``.png``, ``.svg`` or ``.pdf``; one that is there is replaced.

    Raises:
        UsageError: The file has another ending.
        LocantError: The configuration has no meaning that could be drawn, or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    require_image_path(path)
    name = inspection.path.parent.resolve().name if inspection.kind == "huggingface" else inspection.path.stem
    save_figure(bands(inspected_layers(inspection), title=f"{name}: rotary positions"), path, dots_per_inch=160)


def bands(layers: Sequence[LayerBands], *, title: str) -> FigureData:
    """Draw the wavelength of every pair, the bands of pairs with the same fate, and the lengths of the model.

    A pair above the line of the trained length never completes a turn in training.

    Args:
        layers: One panel each.
        title: Which model.

    Returns:
        The figure, 9 inches wide, and ``wavelengths NAME``, ``scaled NAME`` and ``fates NAME`` ``[P]`` for every layer.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, np.ndarray] = {}
    with drawing():
        figure = new_figure(9, 4.6 * len(layers) + 0.4)
        figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
        for axes, layer in zip(figure.subplots(len(layers), 1, squeeze=False).flat, layers, strict=True):
            data |= {
                f"wavelengths {layer.name}": layer.wavelengths,
                f"scaled {layer.name}": layer.scaled,
                f"fates {layer.name}": np.array(layer.fates),
            }
            _draw(axes, layer)
        settle(figure)
    return FigureData(figure, data)


def _draw(axes: Axes, layer: LayerBands) -> None:
    axes.set_yscale("log")
    axes.plot(layer.wavelengths, color=FAINT, linewidth=1, label="before scaling")
    fates = np.array(layer.fates)
    for fate, (colour, marker) in FATE_MARKS.items():
        pairs = np.flatnonzero(fates == fate)
        if not pairs.size:
            continue
        turned = layer.wavelengths if fate == "still" else layer.scaled
        axes.plot(
            pairs, turned[pairs], marker, color=colour, markersize=4.5, label=f"{pairs.size} {FATE_MEANING[fate]}"
        )
    first = 0
    for fate, run in groupby(layer.fates):
        last = first + len(list(run))
        axes.axvspan(first - 0.5, last - 0.5, color=FATE_MARKS[fate][0], alpha=0.08, linewidth=0)
        first = last
    for length, style, name in ((layer.trained, "--", "trained"), (layer.effective, ":", "made for")):
        if length is not None and (name == "trained" or length != layer.trained):
            axes.axhline(length, color=INK, linewidth=1, linestyle=style, label=f"{name}: {length:,} tokens")
    axes.set_xlim(-0.5, len(layer.fates) - 0.5)
    note = fill(layer.note, _NOTE_WIDTH)
    axes.set_title(f"{layer.name} layers", pad=10 + 12 * len(note.splitlines()))
    axes.annotate(note, (0, 1.03), xycoords="axes fraction", fontsize=9, color=FAINT)
    axes.set_xlabel("pair, the fastest first")
    axes.set_ylabel("tokens of a full turn")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9)
