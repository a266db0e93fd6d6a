"""What all figures share: colours, type sizes, and drawing without global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from locant.errors import MissingExtraError

# From the palette of Okabe and Ito (2008), which people with any colour vision can tell apart; also distinct in grey.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
INK, FAINT = "#24292f", "#6e7781"

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure looks the same everywhere
    "font.size": 10.5,
    "grid.color": "#d8dee4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of the library, whatever the user's own matplotlib settings are.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib import style
    except ImportError:
        raise MissingExtraError("Drawing figures", "matplotlib", "report") from None
    with style.context(["default", _STYLE]):
        yield
