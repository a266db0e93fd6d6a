"""Word alignments: which words of a translation come from which words of its source, by the model's attention.

Notation: B pairs of a batch, S source tokens, T target tokens as the decoder reads them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch

from locant.errors import ConfigError, DataError
from locant.models.encoder_decoder import AlignmentStep, EncoderDecoder
from locant.models.transformer import Transformer
from locant.runtime import explaining_memory
from locant.text.spans import Span, encode_with_spans, word_spans
from locant.text.tokenizer_pair import Prefixes, TokenizerPair
from locant.translation.lines import require_text
from locant.translation.search import evaluated, padded

# Weights of a head that are in memory at once, unless one pair alone has more.
_MOST_WEIGHTS = 1 << 20


@dataclass(frozen=True)
class Alignment:
    """Which words of a translation come from which words of its source.

    Words are what white space separates. Of scripts that write none between words, ``subword_links`` says more.

    Attributes:
        source_words: The words of the source.
        target_words: The words of the translation.
        links: Numbers of a source word and of a target word that belong together, from 0, in ascending order.
        subword_links: The same of subwords, as spans of characters of the source and of the translation, in the order
            of the translation.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    links: tuple[tuple[int, int], ...]
    subword_links: tuple[tuple[Span, Span], ...]

    @property
    def pharaoh(self) -> str:
        """The links of words in the format of the decoder Pharaoh: ``0-0 1-2 2-1``, the source's number first."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    @property
    def word_pairs(self) -> tuple[tuple[str, str], ...]:
        """The words that belong together."""
        return tuple((self.source_words[source], self.target_words[target]) for source, target in self.links)


@dataclass(frozen=True)
class _Side:
    """One side of a pair: ids without what is around them, and the span of each in the text."""

    text: str
    ids: list[int]
    spans: list[Span]


def align(
    model: EncoderDecoder[Any],
    tokenizers: TokenizerPair,
    prefixes: Prefixes,
    sources: Sequence[str],
    translations: Sequence[str],
    *,
    limits: tuple[int, int, str],
    batch_tokens: int,
    layer: int | None = None,
    step: AlignmentStep | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Alignment]:
    """Align sentences with their translations, in one pass of the model that reads both.

    Arguments and errors are those of :meth:`locant.translation.Translator.align`; besides, the model has its weights.
    The limits are the most tokens of a source and of a translation, and what sets them.
    """
    if isinstance(sources, str) or isinstance(translations, str):  # whose letters would be taken for sentences
        raise DataError("Sources and translations are lists of sentences; put one sentence into a list.")
    if len(sources) != len(translations):
        raise DataError(f"There are {len(sources)} sources and {len(translations)} translations; give one for each.")
    require_text(map("".join, zip(sources, translations, strict=True)), "Pair")
    if step not in (None, *get_args(AlignmentStep)):
        raise ConfigError(f"The step whose attention is taken is 'predicts' or 'reads', not {step!r}.")
    layers = model.config.decoder_layers if isinstance(model, Transformer) else 1
    if layer is not None and not 0 <= layer < layers:
        raise ConfigError(f"The decoder has layers 0 to {layers - 1}; there is no layer {layer}.")
    sides = [
        [_Side(text, ids, spans) for text, (ids, spans) in zip(texts, encode_with_spans(tokenizer, texts), strict=True)]
        for tokenizer, texts in ((tokenizers.source, sources), (tokenizers.target, translations))
    ]
    pairs = list(zip(sides[0], sides[1], strict=True))
    found = [_alignment(source, target, []) for source, target in pairs]
    possible = []
    for index, (source, target) in enumerate(pairs):
        if len(source.ids) > limits[0] or len(target.ids) > limits[1]:
            message = (
                f"Pair {index + 1} has {len(source.ids)} and {len(target.ids)} tokens, but at most {limits[0]} and "
                f"{limits[1]} can be aligned ({limits[2]})."
            )
            if say is None:
                raise DataError(f"{message} Split it into shorter sentences.")
            say(f"{message} It is not aligned.")
        elif source.ids and target.ids:
            possible.append(index)
    model = evaluated(model)
    with explaining_memory(f"Lower --batch-tokens (batch_tokens), now {batch_tokens}."):
        for batch in _batches(possible, [max(len(a.ids), len(b.ids)) for a, b in pairs], batch_tokens):
            chosen = [pairs[index] for index in batch]
            for index, links in zip(batch, _links(model, tokenizers, prefixes, chosen, layer, step), strict=True):
                found[index] = _alignment(*pairs[index], links)
    return found


def _batches(indices: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of the pairs of each batch, longest first."""
    order = sorted(indices, key=lambda index: -lengths[index])
    while order:
        longest = lengths[order[0]]
        size = max(1, min(batch_tokens // longest, _MOST_WEIGHTS // longest**2))
        yield order[:size]
        order = order[size:]


@torch.inference_mode()
def _links(
    model: EncoderDecoder[Any],
    tokenizers: TokenizerPair,
    prefixes: Prefixes,
    pairs: Sequence[tuple[_Side, _Side]],
    layer: int | None,
    step: AlignmentStep | None,
) -> list[list[tuple[int, int]]]:
    """Return the links of the subwords of each pair: each target subword with the source subword it attends to most."""
    device = model.target_embedding.weight.device
    before, opened = len(prefixes.source), len(prefixes.target)
    source, lengths = padded([[*prefixes.source, *each.ids, *tokenizers.source_end] for each, _ in pairs], device)
    target, _ = padded([[*prefixes.target, *each.ids] for _, each in pairs], device)
    weights = model.alignment_weights(source, lengths, target, layer=layer, step=step)
    # What is around the subwords of the source is no word: its weights count for nothing.
    ends = torch.tensor([before + len(each.ids) for each, _ in pairs], device=device)
    columns = torch.arange(source.shape[1], device=device)
    words = (columns >= before) & (columns < ends[:, None])
    best = weights.masked_fill(~words[:, None], -1).argmax(2).sub(before).tolist()
    return [
        [(place, number) for number, place in enumerate(row[opened : opened + len(each.ids)])]
        for row, (_, each) in zip(best, pairs, strict=True)
    ]


def _alignment(source: _Side, target: _Side, subword_links: Sequence[tuple[int, int]]) -> Alignment:
    """Return the alignment of words, two of which belong together where any of their subwords do."""
    words = [word_spans(side.text) for side in (source, target)]
    numbers = [
        [bisect_right(spans, begin, key=lambda span: span[0]) - 1 for begin, _ in side.spans]
        for spans, side in zip(words, (source, target), strict=True)
    ]
    links = {(numbers[0][one], numbers[1][other]) for one, other in subword_links}
    return Alignment(
        tuple(source.text[begin:end] for begin, end in words[0]),
        tuple(target.text[begin:end] for begin, end in words[1]),
        tuple(sorted(links)),
        tuple((source.spans[one], target.spans[other]) for one, other in subword_links),
    )
