"""Figures on norms and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from locant.figures import draw_figure


@pytest.mark.slow
def test_layer_norm_and_batch_norm_are_those_of_torch() -> None:
    data = draw_figure("layer-norm").data
    x = torch.tensor(data["The batch"])
    layer, batch = nn.LayerNorm(8, dtype=torch.float64), nn.BatchNorm1d(8, dtype=torch.float64)
    features = batch(x.flatten(0, 1)).view_as(x).detach().numpy()
    np.testing.assert_allclose(data["Layer norm: one token, all features"], layer(x).detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(data["Batch norm: one feature, all tokens"], features, atol=1e-12)
    assert not data["The batch"][1, 4:].any()  # padding
    assert not data["Layer norm: one token, all features"][1, 4:].any()
    assert data["Batch norm: one feature, all tokens"][1, 4:].all()


def test_only_batch_norm_depends_on_the_neighbours() -> None:
    data = draw_figure("layer-norm").data
    x = torch.tensor(data["The batch"])
    expected = nn.LayerNorm(8, dtype=torch.float64)(x[2, 0]).detach().numpy()
    layer = {name: values for name, values in data.items() if name.startswith("Layer norm: ") and values.ndim == 1}
    batch = {name: values for name, values in data.items() if name.startswith("Batch norm: ") and values.ndim == 1}
    assert len(layer) == len(batch) == 5
    for values in layer.values():
        np.testing.assert_allclose(values, expected, atol=1e-12)
    alone = nn.BatchNorm1d(8, dtype=torch.float64)(x[2, :3]).detach().numpy()
    np.testing.assert_allclose(batch["Batch norm: alone"], alone[0], atol=1e-12)
    assert not batch["Batch norm: its first token alone"].any()
    everything = list(batch.values())
    for number, values in enumerate(everything):
        for other in everything[number + 1 :]:
            assert np.abs(values - other).max() > 0.3
