"""Token ids of words, kept: of a sentence they are those of its words, one after the other.

SentencePiece cuts text at spaces before anything else, so that each word's subwords depend on the word alone, and most
words of a text come again and again. Sentences of which that is not so (unknown characters, which are joined across
words, and the sign that stands for spaces itself) are encoded whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sentencepiece

END = "\x01"
"""The word that stands behind each text; it is in none."""

_SPACE = "▁"
_MOST = 1 << 18
"""Words that are kept, of which each takes about 200 bytes; when there are more all are learned anew."""

# NFKC, case folding and the removal of what cannot be seen change these; what changes none of them has no rules.
_CHANGED_BY_RULES = "\uff21\u2460\ufb01\u00bd\uff76\uff9e\u3000\u200b\u00ad\u00c4\u017f"


class FlatIds(NamedTuple):
    """Token ids of n texts.

    Attributes:
        ids: Of all, one after the other; [N] int32.
        lengths: How many each has; [n] int32.
    """

    ids: npt.NDArray[np.int32]
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
        self._forget()

    @staticmethod
    def suits(processor: sentencepiece.SentencePieceProcessor) -> bool:
        """Whether a model cuts at all spaces and changes no character before it does."""
        pieces = (processor.id_to_piece(index) for index in range(processor.get_piece_size()))
        if any(_SPACE in piece[1:] for piece in pieces if piece != _SPACE * len(piece)):
            return False
        return bool(processor.normalize(f"x {_CHANGED_BY_RULES} y") == f"{_SPACE}x{_SPACE}{_CHANGED_BY_RULES}{_SPACE}y")

    def _forget(self) -> None:
        self._rows: dict[str, int] = {END: 0}
        self._ids = np.zeros(0, dtype=np.int32)
        self._starts = np.zeros(1, dtype=np.int64)
        self._lengths = np.zeros(1, dtype=np.int32)
        self._odd = np.zeros(1, dtype=bool)

    def encode(self, words: Sequence[str]) -> FlatIds:
        """Return the token ids of texts.

        Args:
            words: Of all texts, normalised, with :data:`END` behind each.
        """
        rows = self._rows_of(words)
        ends = np.flatnonzero(rows == 0)
        lengths = self._lengths[rows]
        behind = np.cumsum(lengths, dtype=np.int64)
        # Where the ids of a word stand in the table, less where they come to stand.
        shifts = np.repeat(self._starts[rows] - (behind - lengths), lengths)
        flat = FlatIds(self._ids[shifts + np.arange(len(shifts))], _sums(behind, ends).astype(np.int32))
        odd = np.flatnonzero(_sums(np.cumsum(self._odd[rows]), ends))
        if not len(odd):
            return flat
        begins = np.concatenate(([0], ends + 1))
        texts = [" ".join(words[begins[text] : ends[text]]) for text in odd.tolist()]
        return _replaced(flat, odd, self._processor.encode(texts, num_threads=1))

    def _rows_of(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the rows of words in the table, which learns new ones."""
        try:
            return np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
        except KeyError:
            if len(self._rows) > _MOST:
                self._forget()
            self._learn([word for word in dict.fromkeys(words) if word not in self._rows])
            return np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))

    def _learn(self, words: list[str]) -> None:
        found = self._processor.encode(words, num_threads=1)
        unknown = self._processor.unk_id()
        new = flat_ids(found)
        starts = len(self._ids) + np.cumsum(new.lengths, dtype=np.int64) - new.lengths
        odd = [unknown in ids or _SPACE in word for word, ids in zip(words, found, strict=True)]
        self._rows.update(zip(words, range(len(self._rows), len(self._rows) + len(words)), strict=True))
        self._ids = np.concatenate((self._ids, new.ids))
        self._starts = np.concatenate((self._starts, starts))
        self._lengths = np.concatenate((self._lengths, new.lengths))
        self._odd = np.concatenate((self._odd, np.array(odd, dtype=bool)))


def _sums(behind: npt.NDArray[Any], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sum of each stretch, given the sums up to each value and where the stretches end."""
    upto = np.concatenate(([0], behind))[ends]
    return np.diff(upto, prepend=0)


def _replaced(flat: FlatIds, rows: npt.NDArray[np.int64], others: Sequence[Sequence[int]]) -> FlatIds:
    """Return flat ids with those of some texts, in ascending order, replaced."""
    ends = np.cumsum(flat.lengths, dtype=np.int64)
    parts, begin = [], 0
    for row, ids in zip(rows.tolist(), others, strict=True):
        parts += [flat.ids[begin : ends[row] - flat.lengths[row]], np.array(ids, dtype=np.int32)]
        begin = ends[row]
    lengths = flat.lengths.copy()
    lengths[rows] = list(map(len, others))
    return FlatIds(np.concatenate((*parts, flat.ids[begin:])), lengths)
