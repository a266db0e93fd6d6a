"""Animations: the clocks of the sinusoids as a text goes by, and query and key that RoPE turns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from locant.errors import UsageError, nearest
from locant.figures.clocks import clock_hands
from locant.figures.drawing import MONO, Axes, canvas, drawing, write
from locant.figures.numbers import digits_of, hands
from locant.figures.palette import BLUE, FAINT, GRID, INK, VERMILION

_FRAMES_PER_SECOND, _DOTS_PER_INCH, _TOKENS = 8, 90, 24
_WIDE, _HIGH = 6.4, 3.6  # inches
_BETWEEN = 3  # tokens between query and key


def _draw_clocks(axes: Axes, time: float) -> None:
    """Draw a position in decimal digits, in bits and on five clocks; between two tokens the hands move on."""
    position = int(time)
    _, _, waves = hands(64, d_model=10, base=10000.0)
    angles = 2 * np.pi * time / waves
    write(axes, 3.2, 3.1, f"position {position}", 20, color=INK, weight="bold")
    for x, base, width, name in ((0.9, 10, 2, "decimal"), (2.75, 2, 6, "binary")):
        digits = " ".join(map(str, digits_of(np.array([position]), base, width)[0]))
        write(axes, x, 2.25, digits, 17, color=INK, **MONO)
        write(axes, x, 1.75, name, 11)
    write(axes, 5.0, 1.75, "clock hands", 11)
    place = axes.inset_axes((3.95, 2.05, 2.2, 0.5), transform=axes.transData)
    clock_hands(place, np.sin(angles[::-1])[None], np.cos(angles[::-1])[None])
    place.set(xlim=(-0.5, 4.5), ylim=(0.5, -0.5), aspect="equal")
    place.set_axis_off()
    strip = axes.inset_axes((0.35, 0.25, 5.7, 1.15), transform=axes.transData)
    places = np.linspace(0, 63, 600)
    for wave, color in zip(waves[:3], (VERMILION, BLUE, FAINT), strict=True):
        strip.plot(places, np.sin(2 * np.pi * places / wave), color=color, linewidth=1.3)
    strip.axvline(time, color=INK, linewidth=1.2)
    strip.set(xlim=(0, 63), yticks=[], title="")
    strip.tick_params(labelsize=9)


def _draw_turning(axes: Axes, time: float) -> None:
    """Draw four pairs of a query and of a key three tokens before it, as RoPE turns both."""
    write(axes, 3.2, 3.15, f"query at {int(time) + _BETWEEN}, key at {int(time)}", 18, color=INK, weight="bold")
    _, _, waves = hands(2, d_model=16, base=10000.0)
    for number, wave in enumerate(waves[:4]):
        middle = np.array([0.85 + 1.57 * number, 1.75])
        turn = np.linspace(0, 2 * np.pi, 120)
        axes.plot(*(middle[:, None] + 0.62 * np.array([np.sin(turn), np.cos(turn)])), color=GRID, linewidth=1.2)
        ends: list[float] = []
        for offset, start, color in ((_BETWEEN, 0.9, BLUE), (0, 0.3, VERMILION)):
            angle = start + 2 * np.pi * (time + offset) / wave
            tip = middle + 0.6 * np.array([np.sin(angle), np.cos(angle)])
            axes.plot(*zip(middle, tip, strict=True), color=color, linewidth=3, solid_capstyle="round")
            ends.append(angle)
        arc = np.linspace(ends[0], ends[1], 40)
        axes.plot(*(middle[:, None] + 0.3 * np.array([np.sin(arc), np.cos(arc)])), color=INK, linewidth=1.4)
        write(axes, middle[0], 0.85, f"{np.degrees(ends[0] - ends[1]) % 360:.0f}° apart", 11, color=INK)
        write(axes, middle[0], 0.6, f"{wave:,.3g} tokens/turn", 9)
    write(axes, 1.9, 0.2, "query", 12, color=BLUE, weight="bold")
    write(axes, 2.75, 0.2, "key", 12, color=VERMILION, weight="bold")
    write(axes, 4.4, 0.2, "both turn, the angle stays", 11, color=INK)


ANIMATIONS: dict[str, tuple[str, Callable[[Axes, float], None]]] = {
    "clocks": ("A position is a row of wheels: the same position in digits, in bits and on clock hands", _draw_clocks),
    "turning-pairs": (
        "RoPE turns query and key, each pair at its own pace; as both move on, the angle between them stays",
        _draw_turning,
    ),
}
"""By the name of the figure that it belongs to: what an animation shows, and what draws it at a time in tokens."""


@drawing()
def animation(name: str) -> bytes:
    """Return an animation as a GIF that repeats itself.

    Args:
        name: A key of :data:`ANIMATIONS`.

    Raises:
        UsageError: There is none of this name.
        MissingExtraError: matplotlib is not installed.
    """
    from matplotlib.animation import FuncAnimation, PillowWriter

    if name not in ANIMATIONS:
        raise UsageError(f"There is no animation '{name}'.{nearest(name, ANIMATIONS)} Known: {', '.join(ANIMATIONS)}.")
    figure, axes = canvas(_WIDE, _HIGH)

    def frame(number: int) -> None:
        axes.clear()
        axes.set(xlim=(0, _WIDE), ylim=(0, _HIGH))
        axes.set_axis_off()
        ANIMATIONS[name][1](axes, number / 2)

    moving = FuncAnimation(figure, frame, frames=2 * _TOKENS, init_func=lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "moving.gif"
        moving.save(path, PillowWriter(fps=_FRAMES_PER_SECOND), dpi=_DOTS_PER_INCH)
        return path.read_bytes()
