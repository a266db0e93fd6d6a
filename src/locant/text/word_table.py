"""Token ids of words, kept: of a sentence they are those of its words, one after the other.

SentencePiece cuts text at spaces before anything else, so that each word's subwords depend on the word alone, and most
words of a text come again and again. Sentences of which that is not so (unknown characters, which are joined across
words, and the sign that stands for spaces itself) are encoded whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import sentencepiece

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
        last = np.flatnonzero(np.array(words) == END)
        begins = np.concatenate(([0], last + 1))
        texts = [" ".join(words[begins[text] : last[text]]) for text in odd.tolist()]
        whole = flat_ids(self._processor.encode(texts, num_threads=1))
        others = np.ones(len(ends), dtype=bool)
        others[odd] = False
        places = np.cumsum(flat.lengths * others)[odd]
        ids = np.insert(flat.select(others).ids, np.repeat(places, whole.lengths), whole.ids)
        flat.lengths[odd] = whole.lengths
        return FlatIds(ids, flat.lengths)
