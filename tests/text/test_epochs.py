import json
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locant.text import (
    EOS,
    PAD,
    BatchSettings,
    BatchStream,
    Encoder,
    RowSampler,
    StagePlace,
    TokenCache,
    TrainingEpochs,
    sampling_shares,
    write_cache,
)
from locant.text.pairs import memory_blocks


def test_shares_are_those_of_the_paper():
    # Arivazhagan et al. (2019): p_l proportional to (n_l / N) ** (1 / T), here with T = 5 for 1,000,000 and 32 pairs.
    assert sampling_shares([1_000_000, 32], [1, 1], 5) == pytest.approx([15.849 / 17.849, 2 / 17.849], rel=1e-4)
    assert sampling_shares([300, 100], [1, 1], 1) == [0.75, 0.25]
    assert sampling_shares([300, 100], [1, 6], 1) == pytest.approx([1 / 3, 2 / 3])
    assert sampling_shares([300, 100], [1, 3], float("inf")) == [0.25, 0.75]
    assert sampling_shares([300, 100, 7], [0, 3, 0], 2) == [0, 1, 0]


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    weights=st.lists(st.floats(0.01, 20), min_size=4, max_size=4),
    temperature=st.sampled_from([0.5, 1, 5, float("inf")]),
    epochs=st.integers(1, 6),
)
def test_a_part_is_read_through_before_any_of_it_is_read_again(sizes, weights, temperature, epochs):
    weights = weights[: len(sizes)]
    sampler = RowSampler(sizes, weights, temperature, seed=3)
    total, seen = sum(sizes), Counter()
    for epoch in range(epochs):
        rows = sampler(epoch)
        rows = np.arange(total) if rows is None else rows
        assert (np.diff(rows) >= 0).all()
        seen.update(rows.tolist())
    first = 0
    for size, share in zip(sizes, sampling_shares(sizes, weights, temperature), strict=True):
        counts = [seen[row] for row in range(first, first + size)]
        assert max(counts) - min(counts) <= 1
        assert abs(sum(counts) - epochs * share * total) <= 0.51
        first += size


@pytest.fixture
def texts_of(tokenizers):
    def texts(cache):
        sides = (tokenizers.source.decode(ids(column)) for column in (cache.source, cache.target))
        return list(zip(*sides, strict=True))

    return texts


@pytest.fixture
def cache(pairs, tokenizers, tmp_path):
    parts = [memory_blocks(pairs[:100]), memory_blocks(pairs[100:120]), memory_blocks(pairs[120:200])]
    return write_cache(parts, Encoder(tokenizers, max_tokens=500), tmp_path / "c")


def ids(column):
    return [column[index].tolist() for index in range(len(column.lengths))]


def test_selected_rows_are_rows_of_the_cache(cache, pairs, texts_of):
    rows = np.array([0, 0, 99, 105, 105, 105, 199])
    selected = cache.select(rows)
    assert len(selected) == 7
    assert [part.pairs for part in selected.parts] == [3, 3, 1]
    assert texts_of(selected) == [pairs[row] for row in rows]
    for ours, all_rows in ((selected.source, cache.source), (selected.target, cache.target)):
        assert ids(ours) == [ids(all_rows)[row] for row in rows]
    assert texts_of(selected.select(np.array([2, 3]))) == [pairs[99], pairs[105]]


@pytest.mark.parametrize("alpha", [None, 0.1])
def test_drawn_epochs_feed_the_stream_and_resume(cache, tokenizers, texts_of, alpha):
    def stream():
        samplers = [RowSampler([100, 20, 80], [1, 5, 0], 1, seed=1)]
        epochs = TrainingEpochs(cache, samplers)
        if alpha is not None:
            epochs = TrainingEpochs(cache, samplers, tokenizers=tokenizers, alpha=alpha, seed=1)
        return BatchStream(epochs, BatchSettings(tokens=300), seed=1)

    seen = []
    for epoch, index, batch in stream().start():
        if epoch == 3:
            break
        seen.append((epoch, index, batch.source.tolist()))
    texts = Counter(tokenizers.source.decode([row for _, _, rows in seen for row in rows]))
    pairs = texts_of(cache)
    once, five, none = ({source for source, _ in part} for part in (pairs[:100], pairs[100:120], pairs[120:]))
    # 60 of the 120 rows of an epoch are of each of the first two parts.
    assert sum(count for text, count in texts.items() if text in five) == 180
    assert sum(count for text, count in texts.items() if text in once - five) == 180
    assert not set(texts) & (none - once - five)
    for place in (3, len(seen) - 4):
        resumed = stream().start(*seen[place][:2])
        for expected in seen[place:]:
            epoch, index, batch = next(resumed)
            assert (epoch, index, batch.source.tolist()) == expected


def test_each_drawing_of_a_sentence_is_sampled_anew(cache, tokenizers, texts_of):
    samplers = [RowSampler([100, 20, 80], [0.001, 1, 0], 1, seed=1)]
    epochs = TrainingEpochs(cache, samplers, tokenizers=tokenizers, alpha=0.1, seed=1)
    segmentations, drawn = ids(epochs(0).source), epochs.drawn(0)
    assert tokenizers.source.decode(segmentations) == [source for source, _ in texts_of(drawn)]
    rows = drawn.whole_rows(np.arange(len(drawn)))
    assert len({tuple(one) for one, row in zip(segmentations, rows, strict=True) if row == 110}) > 1


def test_a_stage_reads_its_parts_from_their_beginnings():
    sampler = RowSampler([40, 10], [1, 2], 1, seed=1)
    assert sampler(0, 0).tolist() != sampler(7, 7).tolist(), "in another order"
    seen = Counter(np.concatenate([sampler(epoch, 7) for epoch in range(7, 13)]).tolist())
    assert max(seen[row] for row in range(40)) - min(seen[row] for row in range(40)) <= 1
    everything = RowSampler([40, 10], [1, 1], 1, seed=1)
    assert everything(7, 7) is None


def test_the_stream_draws_from_the_stage_it_is_told(cache):
    samplers = [RowSampler([100, 20, 80], weights, 1, seed=1) for weights in ([1, 1, 1], [0, 1, 0])]
    stream = BatchStream(TrainingEpochs(cache, samplers), BatchSettings(tokens=300), seed=1)
    rows = []
    for epoch, _, batch in stream.start(4, 0, StagePlace(1, 4)):
        if epoch == 5:
            break
        rows += [[token for token in row if token not in (PAD, EOS)] for row in batch.source.tolist()]
    assert sorted(rows) == sorted(ids(cache.source)[100:120])


def test_an_epoch_that_is_drawn_takes_at_most_12_bytes_a_pair(tmp_path):
    pairs = 1_500_000
    folder = tmp_path / "c"
    folder.mkdir()
    for side in ("source", "target"):
        np.arange(pairs + 1, dtype=np.int64).tofile(folder / f"{side}.offsets.bin")
        np.full(pairs, 5, dtype=np.uint16).tofile(folder / f"{side}.tokens.bin")
    parts = [{"pairs": pairs // 2, "dropped": 0}] * 2
    about = {"pairs": pairs, "parts": parts, "max_tokens": 9, "source_dtype": "uint16", "target_dtype": "uint16"}
    (folder / "cache.json").write_text(json.dumps(about))
    sampler = RowSampler([pairs // 2] * 2, [1, 3], 1, seed=1)
    stream = BatchStream(TrainingEpochs(TokenCache(folder), [sampler]), BatchSettings(tokens=8192, pool=10_000), seed=1)
    next(stream.start())  # what is imported is
    tracemalloc.start()
    try:
        next(epoch for epoch, *_ in stream.start() if epoch == 1)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 13 * pairs
