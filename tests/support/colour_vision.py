"""How far apart two colours are, to people with any colour vision.

What dichromats see is simulated by the matrices of Machado, Oliveira and Fernandes (2009, table 1, severity 1.0), which
act on linear RGB. Distances are those in CIELAB; 2.3 is about what can just be told apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

SEEN: dict[str, Numbers] = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""For each kind of colour vision the matrix ``[3, 3]`` from linear RGB to the linear RGB that looks the same to it."""

_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def _linear(colour: str) -> Numbers:
    encoded = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str = "usual") -> Numbers:
    """Return L*, a* and b* (D65) of a colour ``#rrggbb`` as it is seen."""
    xyz = _TO_XYZ @ np.clip(SEEN[vision] @ _linear(colour), 0, 1) / _TO_XYZ.sum(1)
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest_distance(one: str, other: str) -> float:
    """Return the distance of two colours ``#rrggbb`` to those who tell them apart worst."""
    return min(float(np.linalg.norm(lab(one, vision) - lab(other, vision))) for vision in SEEN)


def contrast(one: str, other: str) -> float:
    """Return the ratio of the luminances of two colours ``#rrggbb`` as WCAG 2.2 has it, from 1 to 21."""
    darker, lighter = sorted(float(_linear(colour) @ _TO_XYZ[1]) + 0.05 for colour in (one, other))
    return lighter / darker
