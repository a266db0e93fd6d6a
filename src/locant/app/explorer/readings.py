"""What there is to see inside a model that reads a sentence: its attention, and the positions its layers know."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from locant.app.explorer.panels import Curves, Matrix
from locant.app.gallery.trained import readable
from locant.decoding import Introspection, LinearReading, PositionProbe, StackReadings, StackStates, TokenPair
from locant.figures.drawn import Numbers


def attention(tokens: TokenPair, seen: Introspection, part: str, layer: int, head: int) -> Matrix:
    """Return the attention weights of one head; ``part`` is encoder, decoder or cross, layer and head count from 1."""
    weights = {
        "encoder": seen.encoder_attention, "decoder": seen.decoder_attention, "cross": seen.cross_attention,
    }[part]  # fmt: skip
    source, target = readable(tokens.source_tokens), readable(tokens.target_tokens)
    queries, keys = (source if part == "encoder" else target), (target if part == "decoder" else source)
    return Matrix(
        f"Attention: {part}, layer {layer}, head {head}",
        "Each row is a token that looks, each column one that is looked at; a row sums to 1.",
        weights[layer - 1][head - 1].numpy(), "weight", "from", "to", rows=queries, columns=keys,
    )  # fmt: skip


def knowledge(probes: Mapping[str, PositionProbe]) -> Curves:
    """Return how well positions are read from every layer, by what is added to the name of each probe's stacks."""
    lines: dict[str, Numbers] = {}
    for condition, probe in probes.items():
        for name, stack in (("encoder", probe.encoder), ("decoder", probe.decoder)):
            lines[name + condition] = np.array([reading.r2 for reading in (stack.words, *stack.layers)])
    longest, first = max(map(len, lines.values())), next(iter(probes.values()))
    return Curves(
        "How well each layer knows positions",
        f"Share of the position's variance that a linear function of the hidden state explains, on {first.held_out} "
        f"sentences held out from {first.fitted} it was fitted on; and the same for the model without its residual "
        "connections. Step 0 is the words alone, step 1 the words told their positions, then the output of each layer.",
        np.arange(longest), "step",
        {name: np.pad(line, (0, longest - len(line)), constant_values=np.nan) for name, line in lines.items()},
        "R², 1 is exact", points=True,
    )  # fmt: skip


def positions_read(title: str, caption: str, stack: StackReadings, states: StackStates) -> Curves:
    """Return where the hidden states ``[L, E]`` of a sentence say that its tokens stand."""
    steps: list[tuple[str, LinearReading, torch.Tensor]] = [("words alone", stack.words, states.words)]
    names = ["told positions", *(f"layer {number}" for number in range(1, len(stack.layers)))]
    steps += list(zip(names, stack.layers, states.layers, strict=True))
    length = len(states.words)
    lines = {"exact": np.arange(length, dtype=float)}
    lines |= {name: linear.read(state).numpy() for name, linear, state in steps}
    return Curves(title, caption, np.arange(length), "position in tokens", lines, "position read, tokens")
