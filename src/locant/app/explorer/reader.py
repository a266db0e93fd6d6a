"""A trained model that reads a sentence: its translations, its attention, and where it takes tokens to stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import torch

from locant.app.explorer.limits import choice, text, whole
from locant.app.explorer.panels import Curves, Matrix, Panel
from locant.decoding import (
    Introspection,
    LinearReading,
    PositionProbe,
    TokenPair,
    Translation,
    Translator,
    introspect,
    probe_positions,
    token_pair,
)
from locant.errors import DataError, UsageError
from locant.text.cache import TokenCache
from locant.text.tokenizer import BOS, EOS
from locant.transformer import Transformer

PICTURES = ("attention", "layers", "positions")
PARTS = ("encoder", "decoder", "cross")

LONGEST_SENTENCE = 2000
MOST_TOKENS = 200
MOST_TRANSLATIONS = 10

_KEPT = 8
_PROBE_PAIRS = 200


@dataclass(frozen=True)
class Reading:
    """What a model makes of a sentence.

    Attributes:
        translations: Best first.
        tokens: The sentence and its best translation as the model reads them.
        seen: What happens inside; ``None`` for a model without attention layers to look into.
    """

    translations: list[Translation]
    tokens: TokenPair
    seen: Introspection | None


class Reader:
    """A model for the explorer. One request computes at a time; the last sentences are remembered.

    Args:
        translator: The model.
        probed: Folder of tokenised sentence pairs that the position probe is fitted on; none where it is ``None``.
    """

    def __init__(self, translator: Translator, probed: Path | None = None) -> None:
        self.translator = translator
        self._probed = probed
        self._lock = RLock()
        self._remembered = lru_cache(maxsize=_KEPT)(self._compute)

    @classmethod
    def from_folder(cls, folder: Path, *, device: str = "auto") -> Self:
        """Load a run or a model folder; errors as for :meth:`~locant.decoding.Translator.from_pretrained`.

        The validation sentences of a run serve the position probe.
        """
        probed = folder / "cache" / "valid"
        return cls(Translator.from_pretrained(folder, device=device), probed if probed.is_dir() else None)

    @property
    def layers(self) -> Mapping[str, int]:
        """Number of layers of every part; none where the model is no Transformer."""
        model = self.translator.model
        if not isinstance(model, Transformer):
            return {}
        config = model.config
        return dict(zip(PARTS, (config.encoder_layers, config.decoder_layers, config.decoder_layers), strict=True))

    @property
    def heads(self) -> int:
        """Number of heads of every layer."""
        model = self.translator.model
        return model.config.heads if isinstance(model, Transformer) else 0

    def read(self, sentence: Any, count: Any) -> Reading:
        """Translate a sentence and look inside.

        Args:
            sentence: A text; line breaks count as spaces.
            count: Number of translations wanted.

        Raises:
            UsageError: There is no sentence, it is too long, or the number is out of range.
        """
        sentence = " ".join(text("The sentence", sentence, LONGEST_SENTENCE).split())
        count = whole("Number of translations", count, 1, MOST_TRANSLATIONS)
        with self._lock:
            return self._remembered(sentence, count)

    def _compute(self, sentence: str, count: int) -> Reading:
        translator = self.translator
        tokens = len(translator.tokenizers.source.encode([sentence])[0])
        if tokens > MOST_TOKENS:
            raise UsageError(f"The sentence has {tokens:,} tokens; {MOST_TOKENS} is the most that is read here.")
        beam = max(count, translator.settings.beam)
        found = translator.translate_n_best([sentence], n_best=count, beam=beam)[0]
        pair = token_pair(translator.tokenizers, sentence, found[0].text)
        model = translator.model
        seen = introspect(model, pair.source, pair.target) if isinstance(model, Transformer) else None
        return Reading(found, pair, seen)

    @cached_property
    def probe(self) -> PositionProbe | None:
        """Linear readings of the position from every layer, fitted on held-out sentences where there are enough."""
        model = self.translator.model
        if self._probed is None or not isinstance(model, Transformer):
            return None
        cache = TokenCache(self._probed)
        limit = min(model.max_positions or cache.max_tokens, cache.max_tokens)
        chosen = np.linspace(0, len(cache) - 1, min(_PROBE_PAIRS, len(cache))).round().astype(int).tolist()
        pairs = [([*cache.source[i].tolist(), EOS], [BOS, *cache.target[i].tolist()]) for i in chosen]
        try:
            return probe_positions(model, [pair for pair in pairs if max(map(len, pair)) <= limit])
        except DataError:  # too few sentences to tell
            return None

    def pictures(self, sentence: Any, count: Any, part: Any, layer: Any, head: Any) -> Mapping[str, Panel]:
        """Return the attention of one head, and what the probe reads; nothing before there is a sentence.

        Args:
            sentence: As for :meth:`read`.
            count: Likewise.
            part: One of :data:`PARTS`.
            layer: From 1.
            head: From 1.

        Raises:
            UsageError: A value is out of range; as for :meth:`read`.
        """
        if sentence is None or not self.layers:
            return {}
        part = choice("Attention", part, PARTS)
        layer = whole(f"Layer of the {part} attention", layer, 1, self.layers[part])
        head = whole("Head", head, 1, self.heads)
        with self._lock:
            reading, probe = self.read(sentence, count), self.probe
        assert reading.seen is not None
        found: dict[str, Panel] = {"attention": _attention(reading.tokens, reading.seen, part, layer, head)}
        if probe is not None:
            side = "encoder" if part == "encoder" else "decoder"
            found |= {"layers": _explained(probe), "positions": _positions(reading, probe, side)}
        return found


def _attention(tokens: TokenPair, seen: Introspection, part: str, layer: int, head: int) -> Matrix:
    weights = {
        "encoder": seen.encoder_attention, "decoder": seen.decoder_attention, "cross": seen.cross_attention,
    }[part]  # fmt: skip
    # The marks have no text of their own.
    source, target = [*tokens.source_tokens[:-1], "(end)"], ["(begin)", *tokens.target_tokens[1:]]
    queries, keys = (source if part == "encoder" else target), (target if part == "decoder" else source)
    return Matrix(
        f"Attention: {part}, layer {layer}, head {head}",
        "Each row is a token that looks, each column one that is looked at; a row sums to 1.",
        weights[layer - 1][head - 1].numpy(), "weight", "from", "to", rows=queries, columns=keys,
    )  # fmt: skip


def _explained(probe: PositionProbe) -> Curves:
    stacks = {"encoder": probe.encoder, "decoder": probe.decoder}
    longest = max(len(stack.layers) for stack in stacks.values()) + 1
    lines = {
        name: np.array([reading.r2 for reading in (stack.words, *stack.layers)] + [np.nan] * longest)[:longest]
        for name, stack in stacks.items()
    }
    return Curves(
        "How well each layer knows positions",
        f"Share of the position's variance that a linear function of the hidden state explains, on {probe.held_out} "
        f"sentences held out from {probe.fitted} it was fitted on. Step 0 is the words alone, step 1 the words told "
        "their positions, then the output of every layer.",
        np.arange(longest), "step", lines, "R², 1 is exact", points=True,
    )  # fmt: skip


def _positions(reading: Reading, probe: PositionProbe, side: str) -> Curves:
    assert reading.seen is not None
    stack, states = (
        (probe.encoder, reading.seen.encoder) if side == "encoder" else (probe.decoder, reading.seen.decoder)
    )
    steps: list[tuple[str, LinearReading, torch.Tensor]] = [("words alone", stack.words, states.words)]
    names = ["told positions", *(f"layer {number}" for number in range(1, len(stack.layers)))]
    steps += list(zip(names, stack.layers, states.layers, strict=True))
    length = len(states.words)
    lines = {"exact": np.arange(length, dtype=float)}
    lines |= {name: linear.read(state).numpy() for name, linear, state in steps}
    return Curves(
        f"Positions read from this sentence, {side}",
        "Where each layer's hidden state says that a token stands, against where it stands.",
        np.arange(length), "position in tokens", lines, "position read, tokens",
    )  # fmt: skip
