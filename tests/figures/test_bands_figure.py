"""The picture of a model's bands shows what its configuration says."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from locant.figures import bands
from locant.positions import RotaryConfig
from locant.positions.scaling import scaling_from_options


def _points(axes: Axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()).split(":")[0]: np.asarray(line.get_xydata()) for line in axes.get_lines()}


def test_every_pair_stands_at_its_wavelength() -> None:
    scaling = scaling_from_options("yarn", {"factor": 4.0, "original_length": 2048})
    extended = RotaryConfig(head_dim=64, base=10000.0, scaling=scaling).explain()
    plain = RotaryConfig(head_dim=64, base=10000.0, max_length=2048).explain()
    drawn = bands({"full_attention": ("extended", extended), "sliding_attention": ("", plain)}, title="Model")
    first, second = map(_points, drawn.figure.axes)
    waves = 2 * np.pi * 10000.0 ** (np.arange(32) / 32)
    np.testing.assert_allclose(first["before scaling"][:, 1], waves)
    pairs = {name.split()[1]: points for name, points in first.items() if "kept" in name or "interpolated" in name}
    for fate, factor in (("kept", 1), ("interpolated", 4)):
        places = pairs[fate][:, 0].astype(int)
        np.testing.assert_allclose(pairs[fate][:, 1], factor * waves[places])
        assert places.tolist() == [p for p in range(32) if drawn.data["fates full_attention"][p] == fate]
    assert set(first["trained"][:, 1]) == {2048}
    assert set(first["made for"][:, 1]) == {8192}
    assert "made for" not in second  # one length is drawn once
