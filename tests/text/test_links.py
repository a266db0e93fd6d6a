import sys

import numpy as np
import pytest
from aligner import PROGRAM, put_aligner
from hypothesis import given
from hypothesis import strategies as st

from locant.errors import CheckpointError, DataError, MissingExtraError
from locant.text import (
    Encoder,
    Prefixes,
    collate,
    grow_diag_final_and,
    prepared_links,
    write_cache,
)
from locant.text.links import TokenLinks
from locant.text.pairs import memory_blocks
from locant.text.tokenizer_pair import PLAIN


@pytest.fixture
def aligner(tmp_path, monkeypatch):
    return put_aligner(tmp_path, monkeypatch)


def test_links_stand_where_the_tokens_stand_in_a_batch(pairs, tokenizers, tmp_path, aligner):
    """Tokens that say languages are not aligned, and the decoder reads something before the first token."""
    tagged = Prefixes([9, 8], [2, 7])
    parts = [memory_blocks(pairs[:50]), memory_blocks(pairs[50:80])]
    cache = write_cache(parts, Encoder(tokenizers, 500, [PLAIN, tagged]), tmp_path / "c")
    links = prepared_links(cache, tmp_path / "links")
    chosen = cache.select(np.array([3, 55, 55]))
    batch = collate(chosen, np.array([1, 0]), links)
    assert batch.links is not None
    for place, row, before in ((0, 55, (2, 1)), (1, 3, (0, 0))):
        sizes = [len(side[row]) - skipped for side, skipped in zip((cache.source, cache.target), before, strict=True)]
        expected = [(1 + before[1] + i, before[0] + i) for i in range(min(sizes))]
        found = [tuple(link[1:]) for link in batch.links.tolist() if link[0] == place]
        assert sorted(found) == sorted(expected)
    assert collate(chosen, np.array([1, 0])).links is None


def test_a_side_without_tokens_has_no_links(pairs, tokenizers, tmp_path, aligner):
    """The aligner is given a word in its place, and links it."""
    odd = [*pairs[:3], (pairs[3][0], ""), ("", pairs[4][1])]
    cache = write_cache([memory_blocks(odd)], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    assert [len(cache.target.lengths), cache.target.lengths[3], cache.source.lengths[4]] == [5, 0, 0]
    links = prepared_links(cache, tmp_path / "links")
    assert set(links.of(np.arange(5))[:, 0].tolist()) == {0, 1, 2}


def test_links_are_kept_and_belong_to_their_text(pairs, tokenizers, tmp_path, aligner):
    cache = write_cache([memory_blocks(pairs[:20])], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    first = prepared_links(cache, tmp_path / "links", made_from="a")
    aligner.write_text("#!/bin/sh\nexit 1\n")
    again = prepared_links(cache, tmp_path / "links", made_from="a")
    rows = np.arange(20)
    assert again.of(rows).tolist() == first.of(rows).tolist()
    assert again.of(rows[:0]).shape == (0, 3)
    with pytest.raises(CheckpointError, match="of another text"):
        TokenLinks(tmp_path / "links", 20, "b")
    with pytest.raises(DataError, match="eflomal could not align the training text: it ended with 1"):
        prepared_links(cache, tmp_path / "links", made_from="b")
    assert TokenLinks(tmp_path / "links", 20, "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "c", "links"]


def test_what_the_aligner_leaves_out_is_said(pairs, tokenizers, tmp_path, aligner):
    cache = write_cache([memory_blocks(pairs[:20])], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    aligner.write_text(PROGRAM.replace("zip(source, target)", "zip(list(source)[1:], target)"))
    with pytest.raises(DataError, match="eflomal aligned 19 pairs of the training text, which has 20"):
        prepared_links(cache, tmp_path / "links")


def test_without_the_aligner_it_is_said_what_installs_it(pairs, tokenizers, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    cache = write_cache([memory_blocks(pairs[:5])], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    with pytest.raises(MissingExtraError, match=r"locant\[alignment\]"):
        prepared_links(cache, tmp_path / "links")


def test_directions_are_made_symmetric():
    """Worked by hand: (1, 1) and (2, 2) are neighbours of what both have, (0, 3) is of a free word on each side."""
    forward, reverse = {(0, 0), (1, 1), (3, 0)}, {(0, 0), (2, 2), (4, 3)}
    assert grow_diag_final_and(forward, reverse) == {(0, 0), (1, 1), (2, 2), (4, 3)}


@given(*[st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)))] * 2)
def test_symmetric_links_have_what_both_directions_have_and_nothing_else(forward, reverse):
    found = grow_diag_final_and(forward, reverse)
    assert forward & reverse <= found <= forward | reverse
    for direction in (forward, reverse):  # of two free words that a direction links, one is not free any more
        for source, target in direction:
            assert any(one == source for one, _ in found) or any(other == target for _, other in found)
