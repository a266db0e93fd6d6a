"""Panels of one stack of a Transformer that reads a sentence: every number on the way of one token, layer by layer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.analysis.stack_trace import LayerTrace, StackChanges, StackTrace, trace_stack, trace_states
from locant.app.explorer.limits import choice, flags, whole
from locant.app.explorer.panels import Cells, Matrix, Picture
from locant.app.explorer.shown_models import STACKS, ShownModel, StackInput, stack_of
from locant.app.explorer.swap_panels import change_by_scheme, change_by_word, change_of_weights, swapped_places
from locant.errors import LocantError, UsageError
from locant.figures.drawing import Numbers
from locant.figures.numbers import seeded_scheme
from locant.models.config import TransformerConfig
from locant.positions import SCHEMES, AttentionShape, Mask, PositionScheme

PICTURES = ("swap", "schemes", "swapped", "attention", "scores", "path", "by-head", "cross", "stream", "left")
LATE = frozenset({"schemes"})
MASKS = ("none", "padding", "causal")
PARTS = ("scaling", "residuals")
MOST_PADDING = 8

_KEPT = 12


@dataclass(frozen=True)
class View:
    """What a stack is shown with.

    Attributes:
        model: Name of the model.
        stack: ``encoder`` or ``decoder``.
        sentence: What it reads.
        padding: Padding tokens that follow.
        scheme: Its positional scheme, a key of :data:`~locant.positions.SCHEMES`.
        mask: One of :data:`MASKS`.
        heads: Number of heads.
        scaled: Whether products are divided by the square root of a head's features.
        residuals: Whether the residual connections are in place.
    """

    model: str
    stack: str
    sentence: str
    padding: int
    scheme: str
    mask: str
    heads: int
    scaled: bool
    residuals: bool


class Viewer:
    """Traces of the models that can be shown. Of each model one request computes at a time; the last are remembered.

    Args:
        models: The models by name, the one shown at first before the others.
    """

    def __init__(self, models: Mapping[str, ShownModel]) -> None:
        self.models = models
        self._traced = lru_cache(maxsize=_KEPT)(self._trace)
        self._compared = lru_cache(maxsize=_KEPT)(self._compare)

    def config(self, model: str) -> TransformerConfig:
        """Return the configuration of a model."""
        return self.models[model].model.config

    def layers(self, model: str, stack: str) -> int:
        """Return the number of layers of a stack."""
        config = self.config(model)
        return config.encoder_layers if stack == "encoder" else config.decoder_layers

    def read(self, model: Any, stack: Any, sentence: Any) -> StackInput:
        """Return a sentence as a stack reads it.

        Raises:
            UsageError: A value is out of range, or the sentence is empty or too long.
        """
        model, stack = choice("Model", model, list(self.models)), choice("Stack", stack, STACKS)
        return self.models[model].read(sentence, stack)

    def trace(self, view: View, swap: tuple[int, int] | None = None) -> StackTrace:
        """Return the trace of a view, or of the sentence with two words swapped, counted from 1."""
        with self.models[view.model].lock:
            return self._traced(view, swap)

    def tokens(self, view: View) -> list[str]:
        """Return the tokens that the stack reads, with the padding."""
        return [*self.read(view.model, view.stack, view.sentence).tokens, *["(pad)"] * view.padding]

    def _trace(self, view: View, swap: tuple[int, int] | None) -> StackTrace:
        given = self.read(view.model, view.stack, view.sentence)
        return trace_stack(
            self._stack(view), _embedded(given, swap, view.padding), given.memory, changes=self._changes(view, given)
        )

    def _changes(self, view: View, given: StackInput) -> StackChanges:
        length = len(given.words)
        masks = {
            "none": Mask(),
            "padding": Mask.from_lengths(torch.tensor([length], device=given.words.device), length + view.padding),
            "causal": Mask(causal=True),
        }
        return StackChanges(
            schemes=self._schemes(view, length + view.padding, given.words.device),
            mask=masks[view.mask],
            heads=view.heads,
            scaled=view.scaled,
            residuals=view.residuals,
        )

    def _stack(self, view: View) -> Any:
        return stack_of(self.models[view.model].model, view.stack)

    def _schemes(self, view: View, length: int, device: torch.device) -> list[PositionScheme] | None:
        """Return the scheme that is wanted, with initial values, or ``None`` for the stack's own."""
        config = self.config(view.model)
        if (view.scheme, view.heads) == (config.position, config.heads):
            return None
        options = json.dumps(config.position_options if view.scheme == config.position else {})
        built = _scheme(view.scheme, config.d_model, view.heads, view.mask == "causal", length, options)
        return [built.to(device)]

    def pictures(
        self,
        model: Any,
        stack: Any,
        sentence: Any,
        scheme: Any,
        mask: Any,
        padding: Any,
        heads: Any,
        parts: Any,
        layer: Any,
        head: Any,
        token: Any,
        first: Any,
        second: Any,
    ) -> dict[str, Picture]:
        """Return what there is to see; everything is what a page sent.

        Args:
            model: Name of a model.
            stack: ``encoder`` or ``decoder``.
            sentence: What it reads.
            scheme: A positional scheme.
            mask: One of :data:`MASKS`.
            padding: Number of padding tokens.
            heads: Number of heads, a divisor of the width.
            parts: Those of :data:`PARTS` that are in place.
            layer: From 1.
            head: From 1.
            token: The token that is followed, from 1.
            first: A word that is swapped, from 1.
            second: The other one.

        Returns:
            Pictures by the names :data:`PICTURES`; ``cross`` of a decoder alone.

        Raises:
            UsageError: A value is out of range; the sentence is empty or too long.
            LocantError: The scheme does not take such heads, or so many tokens.
        """
        given = self.read(model, stack, sentence)
        in_place = flags("In place", parts, PARTS)
        view = View(
            model,
            stack,
            sentence,
            whole("Padding tokens", padding, 0, MOST_PADDING),
            choice("Scheme", scheme, list(SCHEMES)),
            choice("Mask", mask, MASKS),
            self._divisor(model, heads),
            "scaling" in in_place,
            "residuals" in in_place,
        )
        layer = whole("Layer", layer, 1, self.layers(model, stack))
        head = whole("Head", head, 1, view.heads)
        place = whole("Token", token, 1, len(given.tokens) + view.padding) - 1
        self.trace(view)  # says what the scheme does not take before any picture is wanted
        several = len(given.groups) > 1
        swap = [
            whole(f"The {which} word", word, 1, len(given.groups)) for which, word in _swapped(first, second) if several
        ]
        words = {
            "swap": Picture(self._swap, (view, *swap)),
            "schemes": Picture(self._by_scheme, (replace(view, scheme=""), *swap)),
            "swapped": Picture(self._swapped, (view, *swap, layer, head)),
        }
        followed = {
            "attention": Picture(self._attention, (view, layer, head), place),
            "scores": Picture(self._scores, (view, layer, head, place)),
            "path": Picture(self._path, (view, layer, place)),
            "by-head": Picture(self._heads, (view, place)),
            "cross": Picture(self._cross, (view, place)),
            "stream": Picture(self._stream, (view, place)),
            "left": Picture(self._left, (view,), place),
        }
        if given.memory is None:
            del followed["cross"]
        return (words if several else {}) | followed

    def _divisor(self, model: str, heads: Any) -> int:
        width = self.config(model).d_model
        heads = whole("Number of heads", heads, 1, width)
        if width % heads:
            raise UsageError(f"{width} features cannot be divided among {heads} heads.")
        return heads

    def _swap(self, view: View, first: int, second: int) -> Matrix:
        given, swap = self.read(view.model, view.stack, view.sentence), (first, second)
        return change_by_word(given, swap, self.trace(view), self.trace(view, swap))

    def _swapped(self, view: View, first: int, second: int, layer: int, head: int) -> Matrix:
        given, swap = self.read(view.model, view.stack, view.sentence), (first, second)
        weights = (
            trace.layers[layer - 1].attention.weights[head - 1] for trace in (self.trace(view), self.trace(view, swap))
        )
        return change_of_weights(given, swap, layer, head, *weights)

    def _by_scheme(self, view: View, first: int, second: int) -> Matrix:
        return self._compared(view, first, second)  # which is what takes longest of all

    def _compare(self, view: View, first: int, second: int) -> Matrix:
        given, swap = self.read(view.model, view.stack, view.sentence), (first, second)
        words = torch.stack([_embedded(given, one, view.padding) for one in (None, swap)])
        found: dict[str, Sequence[Tensor]] = {}
        for scheme in SCHEMES:
            try:
                with self.models[view.model].lock:
                    changes = self._changes(replace(view, scheme=scheme), given)
                    found[scheme] = trace_states(self._stack(view), words, given.memory, changes=changes)
            except LocantError:  # the scheme does not take such heads or so many tokens
                continue
        return change_by_scheme(given, swap, found)

    def _attention(self, view: View, layer: int, head: int) -> Matrix:
        tokens = self.tokens(view)
        return Matrix(
            f"Attention: {view.stack}, layer {layer}, head {head}",
            "Each row is a token that looks, each column one that is looked at; a row sums to 1. Click a row to follow "
            "its token.",
            _numbers(self.trace(view).layers[layer - 1].attention.weights[head - 1]),
            "weight",
            "from",
            "to",
            rows=tokens,
            columns=tokens,
        )

    def _scores(self, view: View, layer: int, head: int, place: int) -> Cells:
        steps, tokens = self.trace(view).layers[layer - 1].attention, self.tokens(view)
        of_head = {"q · k": steps.products}
        if view.scaled:
            of_head[f"/ √{steps.q.shape[-1]}"] = steps.scaled
        if steps.bias is not None:
            of_head["+ bias"] = steps.scaled + steps.bias
        of_head |= {"mask": steps.masked, "softmax": steps.weights}
        scales = ["products", *["scores"] * (len(of_head) - 2), "weights"]
        turned = " as the scheme turns them" if steps.rotated else ""
        return Cells(
            f"Scores of “{tokens[place]}”, layer {layer}, head {head}",
            f"Its query against the key of every token{turned}, step by step down to the weights. Rows are coloured "
            "by themselves: orange is negative, blue positive, grey hidden by the mask.",
            np.stack([_numbers(step[head - 1, place]) for step in of_head.values()]),
            "step",
            "key",
            list(of_head),
            tokens,
            scales,
        )

    def _path(self, view: View, layer: int, place: int) -> Cells:
        trace = self.trace(view)
        rows = _steps_of_token(trace.layers[layer - 1], place, residuals=view.residuals)
        heads, _, features = trace.layers[layer - 1].attention.q.shape
        return Cells(
            f"“{self.tokens(view)[place]}” on its way through layer {layer}",
            f"Each row is a vector of {heads * features} features. Lines divide the heads: {heads} of {features} "
            "features, each made from all features of the input. What the sub-layers pass on is the residual stream.",
            np.stack([_numbers(values) for _, _, values in rows]),
            "step",
            "feature",
            [name for name, _, _ in rows],
            range(1, heads * features + 1),
            [scale for _, scale, _ in rows],
            [features * head for head in range(1, heads)],
        )

    def _heads(self, view: View, place: int) -> Matrix:
        tokens = self.tokens(view)
        weights = [layer.attention.weights[:, place] for layer in self.trace(view).layers]
        return _by_head("looks at", tokens[place], "Click a column to follow that token.", weights, tokens)

    def _cross(self, view: View, place: int) -> Matrix:
        weights = [
            layer.cross_weights[:, place] for layer in self.trace(view).layers if layer.cross_weights is not None
        ]
        source = self.read(view.model, view.stack, view.sentence).source_tokens
        return _by_head("looks at in the source", self.tokens(view)[place], "", weights, source)

    def _stream(self, view: View, place: int) -> Matrix:
        names, states = _stream(self.trace(view))
        return Matrix(
            f"The residual stream of “{self.tokens(view)[place]}”",
            "The vector that is handed from sub-layer to sub-layer: each reads it and adds what it computes."
            if view.residuals
            else "Without residual connections each sub-layer replaces the vector by what it computes.",
            np.stack([_numbers(state[place]) for state in states]),
            "value",
            "after",
            "feature",
            rows=names,
            columns=range(1, states[0].shape[1] + 1),
        )

    def _left(self, view: View) -> Matrix:
        names, states = _stream(self.trace(view))
        cosines = [_numbers(torch.cosine_similarity(state, states[0], dim=1)) for state in states]
        return Matrix(
            "How much of each word is left",
            "Cosine between the residual stream of a token and its word's own embedding: 1 is the word itself, 0 has "
            "nothing in common with it. Click a row to follow its token.",
            np.stack(cosines, axis=1),
            "cosine",
            "token",
            "after",
            rows=self.tokens(view),
            columns=names,
        )


def _embedded(given: StackInput, swap: tuple[int, int] | None, padding: int) -> Tensor:
    """Return the embeddings ``[L, E]`` of a sentence with two words swapped, and of the padding after it."""
    places = torch.tensor(swapped_places(given, swap), device=given.words.device)
    return torch.cat((given.words[places], given.padding.expand(padding, -1)))


def _swapped(first: Any, second: Any) -> Sequence[tuple[str, Any]]:
    return (("first", first), ("second", second))


@lru_cache(maxsize=64)
def _scheme(name: str, width: int, heads: int, causal: bool, length: int, options: str) -> PositionScheme:
    shape = AttentionShape(width, heads, causal)
    return seeded_scheme(name, shape, length=length, options=json.loads(options))


def _numbers(values: Tensor) -> Numbers:
    return values.double().numpy()


def _steps_of_token(layer: LayerTrace, place: int, *, residuals: bool) -> list[tuple[str, str, Tensor]]:
    """Return name, scale and values ``[E]`` of everything that a layer computes for one token."""
    attention, rows = layer.attention, [("receives", "stream", layer.sublayers[0].received[place])]
    for sublayer in layer.sublayers:
        normed, name = not torch.equal(sublayer.read, sublayer.received), _SHORT[sublayer.kind]
        if normed:
            rows.append((f"normed for {name}", "stream", sublayer.read[place]))
        if sublayer.kind == "self-attention":
            parts = {"Q": attention.q, "K": attention.k, "V": attention.v}
            if attention.rotated:
                parts |= {"Q turned": attention.rotated[0], "K turned": attention.rotated[1]}
            rows += [(part, "projections", by_head[:, place].flatten()) for part, by_head in parts.items()]
            rows.append(("heads, side by side", "contexts", attention.joined[place]))
            rows.append(("· W_O", "computed", sublayer.computed[place]))
        else:
            rows.append((name, "computed", sublayer.computed[place]))
        joined = f"{name} added" if residuals else f"{name} alone"
        rows.append((joined if normed else f"{joined}, normed", "stream", sublayer.passed[place]))
    return rows


_SHORT = {"self-attention": "attention", "cross-attention": "source", "feed-forward": "feed-forward"}


def _stream(trace: StackTrace) -> tuple[list[str], list[Tensor]]:
    """Return names and states ``[L, E]`` of the residual stream, from the words to the last sub-layer."""
    names, states = ["word", "told position"], [trace.words, trace.told]
    for number, layer in enumerate(trace.layers, start=1):
        names += [f"{number} {sublayer.kind}" for sublayer in layer.sublayers]
        states += [sublayer.passed for sublayer in layer.sublayers]
    return names, states


def _by_head(does: str, token: str, hint: str, weights: Sequence[Tensor], keys: Sequence[str]) -> Matrix:
    """Return weights ``[H, K]`` of every layer as one matrix with a row for each head."""
    rows = [f"layer {layer}, head {head}" for layer, one in enumerate(weights, 1) for head in range(1, len(one) + 1)]
    return Matrix(
        f"What “{token}” {does}, in every head",
        f"One row for each head of each layer; a row sums to 1. {hint}".strip(),
        _numbers(torch.cat(list(weights))),
        "weight",
        "head",
        "key",
        rows=rows,
        columns=list(keys),
    )
