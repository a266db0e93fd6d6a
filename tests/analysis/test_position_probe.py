"""Linear readings of the position against least squares by numpy, and on models whose answer is known."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from locant.analysis import introspect, probe_positions
from locant.analysis.position_probe import IdPair
from locant.errors import DataError

VOCABULARY = 30


def sentences(count: int, *, shortest: int = 4, longest: int = 14) -> list[IdPair]:
    """Pairs in which every word may stand everywhere, so that words say nothing about the position."""
    draw = random.Random(7)

    def words() -> list[int]:
        return [draw.randrange(4, VOCABULARY) for _ in range(draw.randint(shortest, longest))]

    return [(words(), words()) for _ in range(count)]


def test_equals_least_squares_by_numpy() -> None:
    model = tiny_model(VOCABULARY, position="sinusoidal")
    pairs = sentences(60)
    probe = probe_positions(model, pairs)
    seen = [introspect(model, *pair) for pair in pairs]
    assert (probe.fitted, probe.held_out) == (45, 15)
    for side in ("encoder", "decoder"):
        found = getattr(probe, side)
        for layer, reading in enumerate((found.words, *found.layers)):
            states = [getattr(one, side) for one in seen]
            features = [(one.words if layer == 0 else one.layers[layer - 1]).double().numpy() for one in states]
            fitted = np.concatenate([x for number, x in enumerate(features) if number % 4 != 3])
            held_out = np.concatenate([x for number, x in enumerate(features) if number % 4 == 3])
            places = [np.arange(len(x), dtype=float) for x in features]
            y = np.concatenate([x for number, x in enumerate(places) if number % 4 != 3])
            truth = np.concatenate([x for number, x in enumerate(places) if number % 4 == 3])
            mean, scale = fitted.mean(0), fitted.std(0)
            # The penalty as further rows: each weight of a standardised feature should be 0.
            rows = np.concatenate([(fitted - mean) / scale, np.eye(fitted.shape[1])])
            wanted = np.concatenate([y - y.mean(), np.zeros(fitted.shape[1])])
            weight = np.linalg.lstsq(rows, wanted, rcond=None)[0]
            said = (held_out - mean) / scale @ weight + y.mean()
            np.testing.assert_allclose(reading.read(torch.tensor(held_out)), said, rtol=1e-3, atol=1e-3)
            assert reading.r2 == pytest.approx(
                1 - ((said - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum(), abs=1e-3
            )
            assert reading.error == pytest.approx(np.abs(said - truth).mean(), abs=1e-3)
            assert found.guess == pytest.approx(np.abs(truth - y.mean()).mean())


@pytest.mark.parametrize(
    ("scheme", "told"), [("sinusoidal", True), ("normalised-index", True), ("none", False), ("rotary", False)]
)
def test_what_the_first_layer_is_told(scheme: str, told: bool) -> None:
    """Words alone say nothing; a scheme at the embedding tells the position, and one within attention does not."""
    options: dict[str, Any] = {"max_positions": 16} if scheme == "normalised-index" else {}
    model = tiny_model(VOCABULARY, position=scheme, position_options=options, d_model=48)
    with torch.no_grad():
        model.source_embedding.weight.mul_(0.1)
    encoder = probe_positions(model, sentences(240)).encoder
    assert encoder.words.r2 < 0.05
    assert encoder.words.error == pytest.approx(encoder.guess, rel=0.1)
    if told:
        assert encoder.layers[0].r2 > 0.95
        assert encoder.layers[0].error < 0.25 * encoder.guess
    else:
        assert encoder.layers[0].r2 == pytest.approx(encoder.words.r2, abs=1e-6)


def test_an_encoder_without_positions_cannot_know_them() -> None:
    """Attention without positions treats a sentence as a set: no layer can tell; causal attention can."""
    probe = probe_positions(tiny_model(VOCABULARY, position="none", encoder_layers=2), sentences(160))
    assert all(reading.r2 < 0.05 for reading in probe.encoder.layers)


def test_residual_connections_carry_the_position() -> None:
    """With attention and feed-forward that compute nothing, only the residual connection brings anything upwards."""
    model = tiny_model(VOCABULARY, position="sinusoidal", d_model=48)
    with torch.no_grad():
        for layer in model.encoder.layers:
            parts: Any = layer
            parts.self_attention.output.weight.zero_()
            parts.feed_forward.outer.weight.zero_()
    pairs = sentences(80)
    kept, cut = (probe_positions(model, pairs, residuals=residuals).encoder for residuals in (True, False))
    assert kept.layers[1].r2 > 0.8
    assert cut.layers[1].r2 == pytest.approx(0, abs=0.05)
    assert cut.layers[0].r2 == pytest.approx(kept.layers[0].r2)


def test_too_little_to_read_from() -> None:
    model = tiny_model(VOCABULARY)
    with pytest.raises(DataError, match="at least 8 sentence pairs; got 7"):
        probe_positions(model, sentences(7))
    with pytest.raises(DataError, match="have one token"):
        probe_positions(model, [([5], [6])] * 8)
