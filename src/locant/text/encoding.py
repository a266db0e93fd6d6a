"""Sentence pairs as token ids in flat arrays, encoded a block at a time wherever there is a process for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from locant.text.pairs import Block, Pair
from locant.text.tokenizer_pair import Prefixes, TokenizerPair
from locant.text.word_table import FlatIds

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Lengths = npt.NDArray[np.int32]


class Encoded(NamedTuple):
    """Some pairs of one part of a corpus.

    Attributes:
        part: Its number.
        dropped: How many pairs were left out because a side had too many tokens.
        ids: Token ids of all source and of all target sentences.
        lengths: How many each sentence has, by side.
        texts: UTF-8 of both sides, where it is wanted.
        text_lengths: The bytes of each sentence, by side.
    """

    part: int
    dropped: int
    ids: tuple[Tokens, Tokens]
    lengths: tuple[Lengths, Lengths]
    texts: tuple[npt.NDArray[np.uint8], ...] = ()
    text_lengths: tuple[Lengths, ...] = ()


class Task(NamedTuple):
    """What is encoded.

    Attributes:
        part: Number of the part of the corpus.
        block: Pairs of it.
    """

    part: int
    block: Block


@dataclass(frozen=True)
class Encoder:
    """Encodes blocks.

    Attributes:
        tokenizers: For both languages.
        prefixes: What stands before the tokens of a sentence, by part.
        max_tokens: The most tokens a side may have, EOS and language tokens included.
        keep_text: Whether the text is wanted too.
    """

    tokenizers: TokenizerPair
    prefixes: Sequence[Prefixes]
    max_tokens: int
    keep_text: bool = False

    def __call__(self, task: Task) -> Encoded:
        """Return the token ids of a task, in one thread."""
        pairs = task.block.read()
        before = self.prefixes[task.part]
        sources = self.tokenizers.source.encode_flat([source for source, _ in pairs]).after(before.source)
        targets = self.tokenizers.target.encode_flat([target for _, target in pairs]).after(before.target[1:])
        return self.packed(task.part, pairs, sources, targets)

    def packed(self, part: int, pairs: Sequence[Pair], sources: FlatIds, targets: FlatIds) -> Encoded:
        """Return pairs whose token ids are there, without those that have too many.

        Args:
            part: Number of the part of the corpus.
            pairs: The text.
            sources: Ids of each source, with what stands before them.
            targets: Likewise of the targets, without what the decoder reads first.
        """
        fits = np.maximum(sources.lengths, targets.lengths) < self.max_tokens
        dropped = int(len(fits) - fits.sum())
        if dropped:
            pairs = list(compress(pairs, fits.tolist()))
            sources, targets = sources.select(fits), targets.select(fits)
        kinds = id_types(self.tokenizers)
        texts = [[pair[side].encode("utf-8") for pair in pairs] for side in (0, 1)] if self.keep_text else []
        return Encoded(
            part,
            dropped,
            (sources.ids.astype(kinds[0]), targets.ids.astype(kinds[1])),
            (sources.lengths, targets.lengths),
            tuple(np.frombuffer(b"".join(side), dtype=np.uint8) for side in texts),
            tuple(np.fromiter(map(len, side), np.int32, len(side)) for side in texts),
        )


def id_types(tokenizers: TokenizerPair) -> tuple[type[np.unsignedinteger[Any]], ...]:
    """Return the smallest type that holds the ids of the source and of the target."""
    return tuple(
        np.uint16 if side.vocab_size <= 1 << 16 else np.uint32 for side in (tokenizers.source, tokenizers.target)
    )
