"""The picture of an inspected model: the bands of its rotary pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from locant.errors import LocantError, UsageError
from locant.extension import Inspection
from locant.extension.inspect.engine_differences import describe
from locant.figures.bands import LayerBands, bands
from locant.files import replacing_file
from locant.positions.rotary.config import RotaryConfig

_FORMATS = ("png", "svg", "pdf")


def check_figure_path(path: Path) -> None:
    """Raise UsageError for a file whose name does not end in a format that can be drawn."""
    if path.suffix.lower().lstrip(".") not in _FORMATS:
        raise UsageError(f"A figure is written to a file that ends in .{', .'.join(_FORMATS)}; got {path}.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file for the figure.")


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
    check_figure_path(path)
    if inspection.reading is None:
        raise LocantError(f"Nothing can be drawn before the configuration is right: {inspection.diagnoses[0].message}")
    layers = [_layer(name, config) for name, config in inspection.reading.configs.items()]
    name = inspection.path.parent.resolve().name if inspection.kind == "huggingface" else inspection.path.stem
    drawn = bands(layers, title=f"{name}: rotary positions")
    with replacing_file(path) as temporary:
        drawn.figure.savefig(temporary, format=path.suffix.lower().lstrip("."), dpi=160)


def _layer(name: str, config: RotaryConfig) -> LayerBands:
    explanation = config.explain()
    return LayerBands(
        name=name,
        note=describe(config),
        wavelengths=np.array([pair.wavelength for pair in explanation.pairs]),
        scaled=np.array([pair.scaled_wavelength for pair in explanation.pairs]),
        fates=[pair.fate for pair in explanation.pairs],
        trained=explanation.trained_length,
        effective=explanation.effective_length,
    )
