"""Scores of word alignments against those of people, or of another aligner."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from locant.errors import DataError

Link = tuple[int, int]
"""The numbers of a source word and of a target word, from 0."""


@dataclass(frozen=True)
class AlignmentScores:
    """How well links agree with a reference, over all sentences (Och and Ney 2003, section 4).

    Attributes:
        error_rate: Alignment error rate, ``1 - (|A & S| + |A & P|) / (|A| + |S|)``, from 0 (best) to 1, of links ``A``,
            sure reference links ``S`` and possible ones ``P``, which include the sure ones.
        precision: ``|A & P| / |A|``; 1 where there are no links.
        recall: ``|A & S| / |S|``; 1 where the reference has no sure links.
        links: ``|A|``.
        n: Number of sentences.
    """

    error_rate: float
    precision: float
    recall: float
    links: int
    n: int


def score_alignments(
    found: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> AlignmentScores:
    """Score the links of sentences against a reference.

    Args:
        found: The links of each sentence.
        sure: The reference's links of each.
        possible: Those that the reference allows besides them; ``None`` for no others.

    Raises:
        DataError: There are no sentences, or not as many references.

    Example:
        >>> score_alignments([[(0, 0), (1, 2)]], sure=[[(0, 0)]], possible=[[(1, 1)]])
        AlignmentScores(error_rate=0.33333333333333337, precision=0.5, recall=1.0, links=2, n=1)
    """
    others = possible if possible is not None else [()] * len(sure)
    if not found or not len(found) == len(sure) == len(others):
        raise DataError(
            f"Scoring alignments needs as many references as sentences, and at least one; got {len(found)} sentences, "
            f"{len(sure)} with sure and {len(others)} with possible links."
        )
    links = right = allowed = wanted = 0
    for own, certain, other in zip(map(set, found), map(set, sure), map(set, others), strict=True):
        links += len(own)
        wanted += len(certain)
        right += len(own & certain)
        allowed += len(own & (certain | other))
    return AlignmentScores(
        error_rate=1 - (right + allowed) / (links + wanted) if links + wanted else 0.0,
        precision=allowed / links if links else 1.0,
        recall=right / wanted if wanted else 1.0,
        links=links,
        n=len(found),
    )
