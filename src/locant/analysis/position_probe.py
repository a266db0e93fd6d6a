"""Linear probes of position: the position of a token, read from the hidden states of a model.

A ridge regression from each layer's hidden state to the position, in tokens, is fitted on some sentences and measured
on others. Linear probes: Alain and Bengio 2016, "Understanding intermediate layers using linear classifier probes",
arXiv:1610.01644; ridge regression: Hoerl and Kennard 1970, equation 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from locant.analysis.introspection import StackStates, hidden_states
from locant.errors import DataError
from locant.models.transformer import Transformer
from locant.text.tokenizer import PAD

IdPair = tuple[Sequence[int], Sequence[int]]
_Tokens = tuple[list[Tensor], Tensor]

_HELD_OUT = 4  # every so manieth sentence
_FEWEST = 2 * _HELD_OUT
_BATCH = 32
_RIDGE = 1.0  # added to the sum over all tokens of a standardised feature's squares, which is their number


@dataclass(frozen=True)
class LinearReading:
    """What a linear function of a hidden state says about the position.

    Attributes:
        weight: ``[E]``, float64, tokens for one unit of each feature.
        bias: In tokens.
        r2: Share of the variance of the position that is explained, on held-out sentences: 1 is exact, 0 is what the
            mean position alone would give, and less is worse than that.
        error: Mean absolute error in tokens, on held-out sentences.
    """

    weight: Tensor
    bias: float
    r2: float
    error: float

    def read(self, states: Tensor) -> Tensor:
        """Return the positions ``[...]`` in tokens, float64, that hidden states ``[..., E]`` tell."""
        return states.double() @ self.weight + self.bias


@dataclass(frozen=True)
class StackReadings:
    """Readings from one stack.

    Attributes:
        words: From the token embeddings alone, before they are told their positions.
        layers: From what the first layer receives, then from the output of every layer.
        guess: Mean absolute error in tokens of naming always the mean position of the fitted sentences.
    """

    words: LinearReading
    layers: tuple[LinearReading, ...]
    guess: float


@dataclass(frozen=True)
class PositionProbe:
    """Readings from both stacks, and how many sentences they were fitted on and measured on."""

    encoder: StackReadings
    decoder: StackReadings
    fitted: int
    held_out: int


def probe_positions(model: Transformer, pairs: Sequence[IdPair], *, residuals: bool = True) -> PositionProbe:
    """Fit and measure a linear reading of the position for every layer of a model.

    Every fourth sentence is held out; the same pairs give the same readings. Features are standardised, and the
    penalty weighs as much as one token.

    Args:
        model: The model.
        pairs: Source and target ids as in :func:`~locant.analysis.introspection.introspect`; some hundreds serve well.
        residuals: Whether the residual connections are in place, as in
            :func:`~locant.analysis.introspection.hidden_states`. Without them readings are fitted anew.

    Raises:
        DataError: There are fewer than 8 pairs, a sentence cannot be read by the model, or all have one token.
    """
    if len(pairs) < _FEWEST:
        raise DataError(f"Reading positions needs at least {_FEWEST} sentence pairs; got {len(pairs)}.")
    held_out = list(pairs[_HELD_OUT - 1 :: _HELD_OUT])
    fitted = [pair for number, pair in enumerate(pairs, start=1) if number % _HELD_OUT]
    seen = [list(zip(*_batches(model, part, residuals), strict=True)) for part in (fitted, held_out)]
    encoder, decoder = (_readings(_joined(first), _joined(second)) for first, second in zip(*seen, strict=True))
    return PositionProbe(encoder, decoder, fitted=len(fitted), held_out=len(held_out))


def _joined(batches: Sequence[_Tokens]) -> _Tokens:
    """Return the states ``[N, E]`` of every layer and the positions ``[N]`` of several batches as those of one."""
    layers, positions = zip(*batches, strict=True)
    return [torch.cat(layer) for layer in zip(*layers, strict=True)], torch.cat(positions)


def _readings(fitted: _Tokens, held_out: _Tokens) -> StackReadings:
    """Return the readings of a stack, of which the words are the first layer."""
    positions, truth = fitted[1], held_out[1]
    variance = float((truth - truth.mean()).square().mean())
    if not variance:
        raise DataError("All held-out sentences have one token, so that there are no positions to tell apart.")
    found = []
    for x, other in zip(fitted[0], held_out[0], strict=True):
        mean, spread = x.mean(0), x.var(0, correction=0)
        # A feature that never changes says nothing; a scale of 1 keeps it from being divided by zero.
        scale = torch.where(spread > 1e-12 * mean.square().clamp(min=1e-12), spread.sqrt(), 1.0)
        z = (x - mean) / scale
        penalty = torch.eye(x.shape[1], dtype=torch.float64) * _RIDGE
        weight = torch.linalg.solve(z.T @ z + penalty, z.T @ (positions - positions.mean())) / scale
        bias = float(positions.mean() - weight @ mean)
        errors = other @ weight + bias - truth
        r2 = 1 - float(errors.square().mean()) / variance
        found.append(LinearReading(weight, bias, r2=r2, error=float(errors.abs().mean())))
    return StackReadings(found[0], tuple(found[1:]), float((truth - positions.mean()).abs().mean()))


def _batches(model: Transformer, pairs: Sequence[IdPair], residuals: bool) -> Iterator[tuple[_Tokens, _Tokens]]:
    """Yield for each batch, of encoder and decoder, states ``[N, E]`` of every layer, words first, and positions."""
    device = model.target_embedding.weight.device
    pairs = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))  # little padding
    for start in range(0, len(pairs), _BATCH):
        part = pairs[start : start + _BATCH]
        (source, source_lengths), (target, target_lengths) = (
            _padded([pair[side] for pair in part], device) for side in (0, 1)
        )
        encoder, decoder = hidden_states(model, source, source_lengths, target, residuals=residuals)
        yield _tokens(encoder, source_lengths.cpu()), _tokens(decoder, target_lengths.cpu())


def _padded(rows: list[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    lengths = [len(row) for row in rows]
    ids = [[*row, *[PAD] * (max(lengths) - len(row))] for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(lengths, device=device)


def _tokens(states: StackStates, lengths: Tensor) -> _Tokens:
    positions = torch.arange(states.words.shape[1]).expand(states.words.shape[:2])
    real = positions < lengths[:, None]
    return [layer[real].double() for layer in (states.words, *states.layers)], positions[real].double()
