"""Linear probes of position: the position of a token, read from the hidden states of a model.

A ridge regression from each layer's hidden state to the position, in tokens, is fitted on some sentences and measured
on others. Linear probes: Alain and Bengio 2016, "Understanding intermediate layers using linear classifier probes",
arXiv:1610.01644; ridge regression: Hoerl and Kennard 1970, equation 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from locant.analysis.introspection import hidden_states
from locant.errors import DataError
from locant.models.transformer import Transformer
from locant.text.tokenizer import PAD

IdPair = tuple[Sequence[int], Sequence[int]]

_HELD_OUT = 4  # one of four sentences
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
        words: From the token embeddings alone, without positions.
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
            :func:`~locant.analysis.introspection.hidden_states`. Without them readings are fitted again.

    Raises:
        DataError: There are fewer than 8 pairs, a sentence cannot be read by the model, or all have one token.
    """
    if len(pairs) < _FEWEST:
        raise DataError(f"Reading positions needs at least {_FEWEST} sentence pairs; got {len(pairs)}.")
    held_out = list(pairs[_HELD_OUT - 1 :: _HELD_OUT])
    fitted = [pair for number, pair in enumerate(pairs, start=1) if number % _HELD_OUT]
    seen = [_states(model, part, residuals) for part in (fitted, held_out)]
    encoder, decoder = (_readings(first, second) for first, second in zip(*seen, strict=True))
    return PositionProbe(encoder, decoder, fitted=len(fitted), held_out=len(held_out))


def _readings(fitted: list[Tensor], held_out: list[Tensor]) -> StackReadings:
    """Return the readings of a stack from :func:`_states` of both parts."""
    positions, truth = fitted[-1], held_out[-1]
    variance = float((truth - truth.mean()).square().mean())
    if not variance:
        raise DataError("All held-out sentences have one token, so that there are no positions to tell apart.")
    found = []
    for x, other in zip(fitted[:-1], held_out[:-1], strict=True):
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


def _states(model: Transformer, pairs: Sequence[IdPair], residuals: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Return of encoder and decoder the words ``[N, E]`` of all sentences, every layer, and the positions ``[N]``."""
    device = model.target_embedding.weight.device
    pairs = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))  # little padding
    found: tuple[list[list[Tensor]], list[list[Tensor]]] = ([], [])
    for start in range(0, len(pairs), _BATCH):
        sides = [[torch.tensor(ids) for ids in side] for side in zip(*pairs[start : start + _BATCH], strict=True)]
        source, target = (pad_sequence(rows, batch_first=True, padding_value=PAD).to(device) for rows in sides)
        lengths = [torch.tensor([len(ids) for ids in rows]) for rows in sides]
        states = hidden_states(model, source, lengths[0].to(device), target, residuals=residuals)
        for kept, stack, of_side in zip(found, states, lengths, strict=True):
            positions = torch.arange(stack.words.shape[1]).expand(stack.words.shape[:2])
            real = positions < of_side[:, None]
            kept.append([part[real].double() for part in (stack.words, *stack.layers, positions)])
    encoder, decoder = ([torch.cat(parts) for parts in zip(*of, strict=True)] for of in found)
    return encoder, decoder
