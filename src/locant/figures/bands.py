"""Bands of a model's rotary pairs: which are kept, blended and interpolated, and where training and reading end."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np

from locant.errors import LocantError
from locant.extension import Inspection
from locant.figures.drawing import FigureData, drawing, label, panels, settle, wrapped
from locant.figures.files import require_image_path, save_figure
from locant.figures.palette import FAINT, INK
from locant.figures.spectrum import FATES
from locant.positions.scaling import Explanation


def write_inspection_figure(inspection: Inspection, path: Path) -> None:
    """Draw the bands of every type of layer of an inspected model.

    Args:
        inspection: The model.
        path: A file that ends in ``.png``, ``.svg`` or ``.pdf``; one that is there is replaced.

    Raises:
        UsageError: The file has another ending.
        LocantError: The configuration has no meaning that could be drawn, or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    require_image_path(path)
    if inspection.parsed is None:
        when = " before the configuration is right" if inspection.has_errors else ""
        raise LocantError(f"Nothing can be drawn{when}: {inspection.findings[0].message}")
    parsed, layers, note = inspection.parsed, {}, ""
    for name, config in parsed.configs.items():
        note = "; ".join(filter(None, (parsed.layers_with(name), config.describe())))
        layers[name] = (note, config.explain())
    if rest := parsed.layers_without():
        layers[name] = (" ".join([f"{note}.", *rest]), layers[name][1])
    model = inspection.path.parent.resolve().name if inspection.kind == "huggingface" else inspection.path.stem
    save_figure(bands(layers, title=f"{model}: rotary positions"), path, dots_per_inch=160)


@drawing()
def bands(layers: dict[str, tuple[str, Explanation]], *, title: str) -> FigureData:
    """Draw the wavelength of every pair, the bands of pairs with the same fate, and the lengths of the model.

    A pair above the line of the trained length never completes a turn in training.

    Args:
        layers: By the name of each type of layer what it does in a few words, and what becomes of its pairs.
        title: Which model.

    Returns:
        The figure, 9 inches wide, and ``wavelengths NAME``, ``scaled NAME`` and ``fates NAME`` ``[P]`` for every layer.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, np.ndarray] = {}
    figure, found = panels(len(layers), 1, width=9, height=4.8)
    figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
    for axes, (name, (note, explanation)) in zip(found, layers.items(), strict=True):
        label(axes, f"{name} layers", "pair, the fastest first", "tokens of a full turn", note=wrapped(note, 90))
        axes.set_yscale("log")
        waves = np.array([pair.wavelength for pair in explanation.pairs])
        scaled = np.array([pair.scaled_wavelength for pair in explanation.pairs])
        fates = np.array([pair.fate for pair in explanation.pairs])
        data |= {f"wavelengths {name}": waves, f"scaled {name}": scaled, f"fates {name}": fates}
        axes.plot(waves, color=FAINT, linewidth=1, label="before scaling")
        for fate, (color, mark, meaning) in FATES.items():
            pairs = np.flatnonzero(fates == fate)
            if pairs.size:
                turned = waves if fate == "still" else scaled
                axes.plot(pairs, turned[pairs], mark, color=color, markersize=4.5, label=f"{pairs.size} {meaning}")
        first = 0
        for fate, run in groupby(fates.tolist()):
            last = first + len(list(run))
            axes.axvspan(first - 0.5, last - 0.5, color=FATES[fate][0], alpha=0.08, linewidth=0)
            first = last
        trained, effective = explanation.trained_length, explanation.effective_length
        for length, stroke, kind in ((trained, "--", "trained"), (effective, ":", "made for")):
            if length is not None and (kind == "trained" or length != trained):
                axes.axhline(length, color=INK, linewidth=1, linestyle=stroke, label=f"{kind}: {length:,} tokens")
        axes.set_xlim(-0.5, len(fates) - 0.5)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=9)
    return settle(figure, data)
