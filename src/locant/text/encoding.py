"""Sentence pairs as token ids in flat arrays, encoded a block at a time wherever there is a process for it.

SentencePiece cuts text at spaces before anything else, so that each word's subwords depend on the word alone, and most
words of a text come again and again: their ids are kept. Sentences of which that is not so (unknown characters, which
are joined across words, and the sign that stands for spaces itself) are encoded whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import sentencepiece

from locant.text.pairs import Block, Pair

if TYPE_CHECKING:
    from locant.text.tokenizer_pair import Prefixes, TokenizerPair

END = "\x01"
"""The word that stands behind each text; it is in none."""

_SPACE = "▁"
_MOST = 1 << 18
"""Words that are kept, of which each takes about 200 bytes; when there are more all are learned anew."""
_END_IDS, _ODD_IDS = (-1,), (-2,)
"""What stands for the end of a text, and for a word of which the subwords depend on others."""

# NFKC, case folding and the removal of what cannot be seen change these; what changes none of them has no rules.
_CHANGED_BY_RULES = "\uff21\u2460\ufb01\u00bd\uff76\uff9e\u3000\u200b\u00ad\u00c4\u017f"


class FlatIds(NamedTuple):
    """Token ids of n texts, or their characters.

    Attributes:
        ids: Of all, one after the other; [N].
        lengths: How many each has; [n] int32.
    """

    ids: npt.NDArray[Any]
    lengths: npt.NDArray[np.int32]

    def after(self, prefix: Sequence[int]) -> FlatIds:
        """Return the same with a prefix before each text."""
        if not prefix:
            return self
        starts = np.cumsum(self.lengths) - self.lengths
        ids = np.insert(self.ids, np.repeat(starts, len(prefix)), np.tile(prefix, len(starts)))
        return FlatIds(ids, self.lengths + np.int32(len(prefix)))

    def select(self, kept: npt.NDArray[np.bool_]) -> FlatIds:
        """Return some of the texts."""
        return FlatIds(self.ids[np.repeat(kept, self.lengths)], self.lengths[kept])


def flat_ids(texts: Sequence[Sequence[int]]) -> FlatIds:
    """Return token ids in lists as flat arrays."""
    lengths = np.fromiter(map(len, texts), np.int32, len(texts))
    return FlatIds(np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum())), lengths)


class WordTable:
    """Encodes texts word by word.

    The ids are those of ``processor.encode(text)``, but where two segmentations are equally probable up to the rounding
    of sums in float32, which in a sentence are others.

    Args:
        processor: Of a model that :meth:`suits`.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        self._table: dict[str, tuple[int, ...]] = {END: _END_IDS}

    @staticmethod
    def suits(processor: sentencepiece.SentencePieceProcessor) -> bool:
        """Whether a model cuts at all spaces and changes no character before it does."""
        pieces = (processor.id_to_piece(index) for index in range(processor.get_piece_size()))
        if any(_SPACE in piece[1:] for piece in pieces if piece != _SPACE * len(piece)):
            return False
        return bool(processor.normalize(f"x {_CHANGED_BY_RULES} y") == f"{_SPACE}x{_SPACE}{_CHANGED_BY_RULES}{_SPACE}y")

    def encode(self, words: Sequence[str]) -> FlatIds:
        """Return the token ids of texts.

        Args:
            words: Of all texts, normalised, with :data:`END` behind each.
        """
        new = set(words).difference(self._table)
        if len(self._table) > _MOST:
            self._table, new = {END: _END_IDS}, set(words).difference((END,))
        if new:
            unknown, found = self._processor.unk_id(), self._processor.encode(learned := list(new), num_threads=1)
            for word, ids in zip(learned, found, strict=True):
                self._table[word] = _ODD_IDS if unknown in ids or _SPACE in word else tuple(ids)
        ids = np.fromiter(chain.from_iterable(map(self._table.__getitem__, words)), np.int32)
        ends = np.flatnonzero(ids == _END_IDS[0])
        flat = FlatIds(np.delete(ids, ends), (np.diff(ends, prepend=-1) - 1).astype(np.int32))
        odd = np.unique(np.searchsorted(ends, np.flatnonzero(ids == _ODD_IDS[0])))
        if not len(odd):
            return flat
        begins = np.concatenate(([0], np.flatnonzero(np.array(words) == END) + 1))
        whole = self._processor.encode(
            [" ".join(words[begins[text] : begins[text + 1] - 1]) for text in odd.tolist()], num_threads=1
        )
        texts = np.split(flat.ids, np.cumsum(flat.lengths)[:-1])
        for text, found in zip(odd.tolist(), whole, strict=True):
            texts[text] = np.array(found, np.int32)
        return FlatIds(np.concatenate(texts), np.fromiter(map(len, texts), np.int32, len(texts)))


class Encoded(NamedTuple):
    """Some pairs of one part of a corpus.

    Attributes:
        part: Its number.
        dropped: How many pairs were left out because a side had too many tokens.
        columns: By the name of the column, token ids of the sentences of each side, and UTF-8 of both where it is
            wanted.
    """

    part: int
    dropped: int
    columns: dict[str, FlatIds]


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

    @property
    def kinds(self) -> dict[str, npt.DTypeLike]:
        """The columns, and the smallest type that holds the numbers of each."""
        sides = {"source": self.tokenizers.source, "target": self.tokenizers.target}
        kinds: dict[str, npt.DTypeLike] = {
            f"{side}.tokens": np.uint16 if one.vocab_size <= 1 << 16 else np.uint32 for side, one in sides.items()
        }
        return kinds | ({f"{side}.text": np.uint8 for side in sides} if self.keep_text else {})

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
        found = [sources, targets]
        for side in (0, 1) if self.keep_text else ():
            texts = [pair[side].encode("utf-8") for pair in pairs]
            lengths = np.fromiter(map(len, texts), np.int32, len(texts))
            found.append(FlatIds(np.frombuffer(b"".join(texts), np.uint8), lengths))
        columns = {
            name: flat._replace(ids=flat.ids.astype(kind))
            for (name, kind), flat in zip(self.kinds.items(), found, strict=True)
        }
        return Encoded(part, dropped, columns)
