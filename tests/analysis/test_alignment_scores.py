from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locant.analysis import score_alignments
from locant.errors import DataError

links = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)
texts = st.lists(st.tuples(links, links, links), min_size=1, max_size=5)


def test_the_example_of_the_definition() -> None:
    # Two sentences, counted together: |A| = 4, |S| = 3, |A & S| = 2, |A & P| = 3.
    found = [{(0, 0), (1, 1), (2, 2)}, {(0, 1)}]
    sure, possible = [{(0, 0), (1, 1)}, {(0, 0)}], [{(2, 2)}, set()]
    scores = score_alignments(found, sure, possible)
    assert scores.error_rate == pytest.approx(1 - 5 / 7)
    assert (scores.precision, scores.recall, scores.links, scores.n) == (0.75, pytest.approx(2 / 3), 4, 2)


@given(texts)
def test_scores_are_shares_and_the_reference_itself_is_perfect(text) -> None:
    found, sure, possible = (list(column) for column in zip(*text, strict=True))
    scores = score_alignments(found, sure, possible)
    for share in (scores.error_rate, scores.precision, scores.recall):
        assert 0 <= share <= 1
    assert score_alignments(sure, sure, possible).error_rate == 0
    # A link that the reference allows besides is no error.
    both = [own | other for own, other in zip(sure, possible, strict=True)]
    assert score_alignments(both, sure, possible).error_rate == 0


@given(texts)
def test_without_possible_links_it_is_one_minus_f1(text) -> None:
    found, sure, _ = (list(column) for column in zip(*text, strict=True))
    scores = score_alignments(found, sure)
    hits = sum(len(own & certain) for own, certain in zip(found, sure, strict=True))
    total = sum(map(len, found)) + sum(map(len, sure))
    assert scores.error_rate == pytest.approx(1 - 2 * hits / total if total else 0)


def test_as_many_references_as_sentences() -> None:
    with pytest.raises(DataError, match="got 1 sentences, 2 with sure"):
        score_alignments([set()], [set(), set()])
    with pytest.raises(DataError, match="at least one"):
        score_alignments([], [])
