"""How far apart two colours are, to people with any colour vision.

What dichromats see is simulated by the matrices of Machado, Oliveira and Fernandes (2009, table 1, severity 1.0), which
act on linear RGB. Distances are CIEDE2000 (Sharma, Wu and Dalal 2005); one is about what can just be told apart.
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


def _encoded(colour: str) -> Numbers:
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255


def _linear(colour: str) -> Numbers:
    encoded = _encoded(colour)
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str = "usual") -> Numbers:
    """Return L*, a* and b* (D65) of a colour ``#rrggbb`` as it is seen."""
    xyz = _TO_XYZ @ np.clip(SEEN[vision] @ _linear(colour), 0, 1) / _TO_XYZ.sum(1)
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: Numbers, other: Numbers) -> float:
    """Return CIEDE2000 between two colours in CIELAB."""
    chroma = [np.hypot(*colour[1:]) for colour in (one, other)]
    mean = np.mean(chroma) ** 7
    stretch = 1 + 0.5 * (1 - np.sqrt(mean / (mean + 25.0**7)))
    (light, a, b), (light2, a2, b2) = one * [1, stretch, 1], other * [1, stretch, 1]
    c, c2 = np.hypot(a, b), np.hypot(a2, b2)
    h, h2 = np.arctan2(b, a) % (2 * np.pi), np.arctan2(b2, a2) % (2 * np.pi)
    turn = 0.0 if c * c2 == 0 else (h2 - h + np.pi) % (2 * np.pi) - np.pi
    hue = h + h2 if c * c2 == 0 else h + turn / 2
    middle, strength = (light + light2) / 2, (c + c2) / 2
    weight = (
        1
        - 0.17 * np.cos(hue - np.radians(30))
        + 0.24 * np.cos(2 * hue)
        + 0.32 * np.cos(3 * hue + np.radians(6))
        - 0.20 * np.cos(4 * hue - np.radians(63))
    )
    by_light = (light2 - light) / (1 + 0.015 * (middle - 50) ** 2 / np.sqrt(20 + (middle - 50) ** 2))
    by_chroma = (c2 - c) / (1 + 0.045 * strength)
    by_hue = 2 * np.sqrt(c * c2) * np.sin(turn / 2) / (1 + 0.015 * strength * weight)
    blue = np.radians(60) * np.exp(-(((np.degrees(hue) % 360 - 275) / 25) ** 2))
    rotation = -2 * np.sqrt(strength**7 / (strength**7 + 25.0**7)) * np.sin(blue)
    return float(np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue))


def nearest_distance(one: str, other: str) -> float:
    """Return the distance of two colours ``#rrggbb`` to those who tell them apart worst."""
    return min(distance(lab(one, vision), lab(other, vision)) for vision in SEEN)


def contrast(one: str, other: str) -> float:
    """Return the ratio of the luminances of two colours ``#rrggbb`` as WCAG 2.2 has it, from 1 to 21."""
    darker, lighter = sorted(float(_linear(colour) @ _TO_XYZ[1]) + 0.05 for colour in (one, other))
    return lighter / darker
