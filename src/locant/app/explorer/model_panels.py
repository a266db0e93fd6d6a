"""Panels of a trained model that reads a sentence: translations, attention, and the positions its layers know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import torch

from locant.analysis.introspection import Introspection, StackStates, TokenPair, hidden_states, introspect, token_pair
from locant.analysis.position_probe import LinearReading, PositionProbe, StackReadings, probe_positions
from locant.app.explorer.limits import choice, text, whole
from locant.app.explorer.panels import Curves, Matrix, Picture
from locant.errors import DataError, UsageError
from locant.figures.drawing import Numbers
from locant.figures.trained import readable
from locant.models.transformer import Transformer
from locant.text.cache import TokenCache
from locant.text.tokenizer import BOS, EOS
from locant.translation.results import Translation
from locant.translation.translator import Translator


def attention(tokens: TokenPair, seen: Introspection, part: str, layer: int, head: int) -> Matrix:
    """Return the attention weights of one head; ``part`` is encoder, decoder or cross, layer and head count from 1."""
    weights = {
        "encoder": seen.encoder_attention,
        "decoder": seen.decoder_attention,
        "cross": seen.cross_attention,
    }[part]
    source, target = readable(tokens.source_tokens), readable(tokens.target_tokens)
    queries, keys = (source if part == "encoder" else target), (target if part == "decoder" else source)
    return Matrix(
        f"Attention: {part}, layer {layer}, head {head}",
        "Each row is a token that looks, each column one that is looked at; a row sums to 1.",
        weights[layer - 1][head - 1].numpy(),
        "weight",
        "from",
        "to",
        rows=queries,
        columns=keys,
    )


def knowledge(probes: Mapping[str, PositionProbe]) -> Curves:
    """Return how well positions are read from every layer, by what is added to the name of each probe's stacks."""
    lines: dict[str, Numbers] = {}
    for condition, probe in probes.items():
        for name, stack in (("encoder", probe.encoder), ("decoder", probe.decoder)):
            # How much worse than a guess would only stretch the axis.
            lines[name + condition] = np.array([max(reading.r2, 0.0) for reading in (stack.words, *stack.layers)])
    longest, first = max(map(len, lines.values())), next(iter(probes.values()))
    return Curves(
        "How well each layer knows positions",
        f"Share of the position's variance that a linear function of the hidden state explains, on {first.held_out} "
        f"sentences held out from {first.fitted} it was fitted on, 0 where it is no better than a guess; and the same "
        "for the model without its residual connections. Step 0 is the words alone, step 1 the words told their "
        "positions, then the output of each layer.",
        np.arange(longest),
        "step",
        {name: np.pad(line, (0, longest - len(line)), constant_values=np.nan) for name, line in lines.items()},
        "R², 1 is exact",
        points=True,
    )


def positions_read(title: str, caption: str, stack: StackReadings, states: StackStates) -> Curves:
    """Return where the hidden states ``[L, E]`` of a sentence say that its tokens stand."""
    steps: list[tuple[str, LinearReading, torch.Tensor]] = [("words alone", stack.words, states.words)]
    names = ["told positions", *(f"layer {number}" for number in range(1, len(stack.layers)))]
    steps += list(zip(names, stack.layers, states.layers, strict=True))
    length = len(states.words)
    lines = {"exact": np.arange(length, dtype=float)}
    lines |= {name: linear.read(state).numpy() for name, linear, state in steps}
    return Curves(title, caption, np.arange(length), "position in tokens", lines, "position read, tokens")


PICTURES = ("attention", "layers", "positions", "positions-bare")
PARTS = ("encoder", "decoder", "cross")

LONGEST_SENTENCE = 2000
MOST_TOKENS = 200
MOST_TRANSLATIONS = 10

_KEPT = 8
_PROBE_PAIRS = 200
_EXAMPLE_TOKENS = range(6, 13)


@dataclass(frozen=True)
class SentenceReading:
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

    Attributes:
        translator: The model.
        lock: Held while the model computes, because what is watched or left out is hooked into its modules.
    """

    def __init__(self, translator: Translator, probed: Path | None = None) -> None:
        self.translator = translator
        self._probed = probed
        self.lock = RLock()
        self._remembered = lru_cache(maxsize=_KEPT)(self._compute)

    @classmethod
    def from_folder(cls, folder: Path, *, device: str = "auto") -> Self:
        """Load a run or a model folder; errors as for :meth:`~locant.translation.Translator.from_pretrained`.

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

    def read(self, sentence: Any, count: Any) -> SentenceReading:
        """Translate a sentence and look inside.

        Args:
            sentence: A text; line breaks count as spaces.
            count: Number of translations wanted.

        Raises:
            UsageError: There is no sentence, it is too long, or the number is out of range.
        """
        sentence = " ".join(text("The sentence", sentence, LONGEST_SENTENCE).split())
        count = whole("Number of translations", count, 1, MOST_TRANSLATIONS)
        with self.lock:
            return self._remembered(sentence, count)

    def _compute(self, sentence: str, count: int) -> SentenceReading:
        translator = self.translator
        tokens = len(translator.tokenizers.source.encode([sentence])[0])
        if tokens > MOST_TOKENS:
            raise UsageError(f"The sentence has {tokens:,} tokens; {MOST_TOKENS} is the most that is read here.")
        beam = max(count, translator.settings.beam)
        found = translator.translate_n_best([sentence], n_best=count, beam=beam)[0]
        pair = token_pair(translator.tokenizers, sentence, found[0].text, translator.prefixes)
        model = translator.model
        seen = introspect(model, pair.source, pair.target) if isinstance(model, Transformer) else None
        return SentenceReading(found, pair, seen)

    @cached_property
    def _probe_pairs(self) -> list[tuple[list[int], list[int]]]:
        """Held-out sentences that the model can read, as ids; none where it cannot be looked into."""
        model = self.translator.model
        if self._probed is None or not isinstance(model, Transformer):
            return []
        cache = TokenCache(self._probed)
        limit = min(model.max_positions or cache.max_tokens, cache.max_tokens)
        chosen = np.linspace(0, len(cache) - 1, min(_PROBE_PAIRS, len(cache))).round().astype(int).tolist()
        pairs = [([*cache.source[i].tolist(), EOS], [BOS, *cache.target[i].tolist()]) for i in chosen]
        return [pair for pair in pairs if max(map(len, pair)) <= limit]

    @cached_property
    def example(self) -> str:
        """A short held-out sentence; none where the folder has none."""
        if self._probed is None:
            return ""
        cache = TokenCache(self._probed)
        ids = [cache.source[index].tolist() for index in range(min(_PROBE_PAIRS, len(cache)))]
        short = [one for one in ids if len(one) in _EXAMPLE_TOKENS] or ids
        return self.translator.tokenizers.source.decode([short[0]])[0] if short else ""

    @cached_property
    def probe(self) -> PositionProbe | None:
        """Linear readings of the position from every layer, fitted on held-out sentences where there are enough."""
        return self._fitted(residuals=True)

    @cached_property
    def bare_probe(self) -> PositionProbe | None:
        """The same without residual connections, fitted anew."""
        return self._fitted(residuals=False)

    def _fitted(self, *, residuals: bool) -> PositionProbe | None:
        model = self.translator.model
        if not self._probe_pairs or not isinstance(model, Transformer):
            return None
        try:
            return probe_positions(model, self._probe_pairs, residuals=residuals)
        except DataError:  # too few sentences to tell
            return None

    def pictures(self, sentence: Any, count: Any, part: Any, layer: Any, head: Any) -> Mapping[str, Picture]:
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
        with self.lock:
            self.read(sentence, count)
            probed = self.probe is not None
        found = {"attention": Picture(self._attention, (sentence, count, part, layer, head))}
        if probed:
            side = "encoder" if part == "encoder" else "decoder"
            found["layers"] = Picture(self._knowledge, ())
            found["positions"] = Picture(self._positions, (sentence, count, side))
            found["positions-bare"] = Picture(self._bare_positions, (sentence, count, side))
        return found

    def _attention(self, sentence: str, count: int, part: str, layer: int, head: int) -> Matrix:
        reading = self.read(sentence, count)
        assert reading.seen is not None
        return attention(reading.tokens, reading.seen, part, layer, head)

    def _knowledge(self) -> Curves:
        with self.lock:
            assert self.probe is not None
            assert self.bare_probe is not None
            return knowledge({"": self.probe, ", no residuals": self.bare_probe})

    def _positions(self, sentence: str, count: int, side: str) -> Curves:
        reading = self.read(sentence, count)
        assert reading.seen is not None
        assert self.probe is not None
        return positions_read(
            f"Positions read from this sentence, {side}",
            "Where each layer's hidden state says that a token stands, against where it stands.",
            getattr(self.probe, side),
            getattr(reading.seen, side),
        )

    def _bare_positions(self, sentence: str, count: int, side: str) -> Curves:
        tokens, model = self.read(sentence, count).tokens, self.translator.model
        assert isinstance(model, Transformer)
        device = model.target_embedding.weight.device
        source, target = (torch.tensor([ids], device=device) for ids in (tokens.source, tokens.target))
        with self.lock:  # hooks take the residual connections out while it runs
            lengths = torch.tensor([len(tokens.source)], device=device)
            both = hidden_states(model, source, lengths, target, residuals=False)
            assert self.bare_probe is not None
            stack = getattr(self.bare_probe, side)
        states = both[0] if side == "encoder" else both[1]
        return positions_read(
            f"Positions read without residual connections, {side}",
            "Every sub-layer passes on only what it computes itself; the linear functions are fitted anew. What is "
            "lost here is what the residual connections carry upwards.",
            stack,
            StackStates(states.words[0], tuple(layer[0] for layer in states.layers)),
        )
