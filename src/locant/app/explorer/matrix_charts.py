"""Charts of matrices, as ``assets/matrix.js`` draws them: an image of the cells, and what stands around it.

Plotly lays out a figure in some tens of milliseconds, and a page shows ten; what is drawn here takes one or two.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locant.app.explorer.panels import Cells, Matrix
from locant.app.explorer.theme import LAYOUT, raw
from locant.figures.drawing import BOTH_SIGNS, HIDDEN, ONE_SIGN

_SHADES = 254
_MOST_CARRIED = 64 * 64
_MOST_NUMBERED = 12


def matrix_chart(panel: Matrix, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a matrix with its scale of colours.

    Args:
        panel: The numbers.
        source: What to send where, as ``{"address": ..., "body": ...}``, to be given the numbers as float32. Without
            it even a large matrix carries its numbers along.
    """
    size = float(np.abs(panel.values).max()) or 1.0
    lowest = -size if panel.values.min() < 0 else 0.0
    colours = BOTH_SIGNS if lowest else ONE_SIGN
    scale = {"colours": colours, "lowest": lowest, "highest": size, "ticks": scale_ticks(lowest, size)}
    image = png((panel.values - lowest) / (size - lowest), colours)
    carried = source is None or panel.values.size <= _MOST_CARRIED
    numbers = {"values": _written(panel.values)} if carried else {"source": source}
    more = {"scale": scale, "marked": panel.marked, "height": LAYOUT["height"]}
    return _chart(panel, image, panel.measure, numbers | more)


def cells_chart(panel: Cells) -> dict[str, Any]:
    """Return rows of numbers; those that share a scale go from vermilion through white to blue."""
    rows, columns = panel.values.shape
    shown = np.isfinite(panel.values)
    sizes = {}
    for scale in dict.fromkeys(panel.scales):
        part = panel.values[[one == scale for one in panel.scales]]
        sizes[scale] = float(np.abs(part[np.isfinite(part)]).max(initial=0)) or 1.0
    by_row = [sizes[scale] for scale in panel.scales]
    shares = np.where(shown, panel.values, 0) / np.array(by_row)[:, None]
    image = png((shares + 1) / 2, BOTH_SIGNS, hidden=~shown)
    more: dict[str, Any] = {"values": _written(panel.values), "splits": list(panel.splits), "height": 110 + 27 * rows}
    if columns <= _MOST_NUMBERED:
        more["sizes"] = by_row
    return _chart(panel, image, "value", more)


def _chart(panel: Matrix | Cells, image: str, measure: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``matrix.js`` reads.

    Args:
        panel: The numbers.
        image: The address of an image, a pixel a cell.
        measure: What a number is.
        more: What else there is: ``values``, the numbers as base64, or the ``source`` of them; ``scale``, of the
            colours; ``sizes``, the largest number of each row's scale, where numbers stand in the cells; ``splits``,
            columns before which a line stands; ``marked``, a row; ``height`` in pixels.
    """
    rows, columns = panel.values.shape
    matrix: dict[str, Any] = {
        "image": image,
        "rows": rows,
        "columns": columns,
        "rowNames": _names(panel.rows),
        "columnNames": _names(panel.columns),
        "names": [panel.row_name, panel.column_name, measure],
        "scale": None,
        "sizes": None,
        "splits": [],
        "marked": None,
        "shown": panel.title,
    }
    return {"matrix": {**matrix, **more}}


def _names(names: Sequence[Any] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _written(values: NDArray[Any]) -> str:
    return base64.b64encode(raw(values)).decode("ascii")


def scale_ticks(lowest: float, highest: float) -> list[float]:
    """Return three to seven even numbers in a range, 0 among them where it is inside.

    Example:
        >>> scale_ticks(-1.3, 1.3)
        [-1.0, -0.5, 0.0, 0.5, 1.0]
    """
    rough = (highest - lowest) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(math.log(factor * power / rough)))
    numbers = range(math.ceil(lowest / step - 1e-9), math.floor(highest / step + 1e-9) + 1)
    return [float(f"{number * step:.12g}") for number in numbers]


def png(shares: NDArray[Any], colours: Sequence[str], *, hidden: NDArray[Any] | None = None) -> str:
    """Return numbers from 0 to 1 as the address of an image, a pixel each; what is hidden is grey."""
    from PIL import Image

    stops = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], dtype=float)
    places = np.linspace(0, _SHADES, len(colours))
    palette = np.stack([np.interp(np.arange(_SHADES + 1), places, stops[:, channel]) for channel in range(3)], axis=1)
    # The last colour of a palette of 256 is for what is hidden.
    indices = np.rint(shares * _SHADES).astype(np.uint8)
    if hidden is not None:
        indices = np.where(hidden, np.uint8(_SHADES + 1), indices)
    image = Image.fromarray(indices)
    image.putpalette(np.rint(palette).astype(np.uint8).tobytes() + bytes.fromhex(HIDDEN[1:]))
    content = io.BytesIO()
    image.save(content, format="png", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
