from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.text import (
    BOS,
    EOS,
    PAD,
    BatchSettings,
    BatchStream,
    Encoder,
    Prefixes,
    TrainingEpochs,
    collate,
    padding_waste,
    plan_batches,
    write_cache,
)
from locant.text.pairs import memory_blocks

lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=200).map(
    lambda rows: np.array(rows, dtype=np.int32).reshape(-1, 2).T
)
settings = st.builds(
    BatchSettings,
    tokens=st.integers(41, 400),
    max_sentences=st.none() | st.integers(1, 20),
    pool=st.integers(1, 300),
)


@given(lengths, settings, st.integers(0, 9))
def test_every_pair_occurs_once_and_the_budget_holds(lengths, settings, epoch):
    source, target = lengths
    plan = list(plan_batches(source, target, settings, seed=3, epoch=epoch))
    assert sorted(np.concatenate([np.zeros(0, int), *plan]).tolist()) == list(range(len(source)))
    for batch in plan:
        assert 1 <= len(batch) <= (settings.max_sentences or len(source))
        for side in (source, target):
            assert (side[batch].max() + 1) * len(batch) <= settings.tokens
    again = plan_batches(source, target, settings, seed=3, epoch=epoch)
    assert [batch.tolist() for batch in plan] == [batch.tolist() for batch in again]


def realistic(count=20000):
    rng = np.random.default_rng(0)
    source = rng.gamma(9, 1.6, count).astype(np.int32) + 3
    target = np.maximum(1, source + rng.normal(0, 3, count)).astype(np.int32)
    return source, target


def test_padding_is_rare_and_batches_are_full():
    source, target = realistic()
    settings = BatchSettings(tokens=4096)
    plan = list(plan_batches(source, target, settings, seed=0, epoch=0))
    waste = padding_waste(plan, source, target)
    assert max(waste) < 0.08
    assert sum(waste) / 2 < 0.05
    fullness = [max(source[b].max() + 1, target[b].max() + 1) * len(b) / 4096 for b in plan]
    assert np.median(fullness) > 0.97


def test_padding_waste_by_hand():
    plan = [np.array([0, 1]), np.array([2])]
    # Lengths with end marks: source 2, 4 | 3 -> 4x2 + 3x1 = 11 cells, 9 used; target 1, 1 | 6 -> no waste.
    source_waste, target_waste = padding_waste(plan, np.array([1, 3, 2]), np.array([0, 0, 5]))
    assert source_waste == pytest.approx(2 / 11)
    assert target_waste == 0


def test_epochs_and_seeds_differ():
    source, target = realistic(2000)
    plans = [
        [batch.tolist() for batch in plan_batches(source, target, BatchSettings(tokens=512), seed=seed, epoch=epoch)]
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    sets = [{frozenset(batch) for batch in plan} for plan in plans]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 2
    assert len(sets[0] & sets[2]) < len(sets[0]) / 2
    sizes = [source[batch].mean() for batch in plans[0]]
    assert abs(np.corrcoef(np.arange(len(sizes)), sizes)[0, 1]) < 0.4, "long and short batches are mixed"


def test_a_sentence_beyond_the_budget_is_named():
    with pytest.raises(ConfigError, match=r"budget is 10 tokens, but the longest sentence alone has 11"):
        list(plan_batches(np.array([3, 10]), np.array([3, 3]), BatchSettings(tokens=10), seed=0, epoch=0))


@pytest.fixture(scope="module")
def cache(pairs, tokenizers, tmp_path_factory):
    return write_cache(
        [memory_blocks([("", ""), *pairs])], Encoder(tokenizers, max_tokens=500), tmp_path_factory.mktemp("cache") / "c"
    )


def test_collated_tensors_by_hand(cache):
    rows = [5, 0, 17]
    batch = collate(cache, np.array(rows))
    for row, index in enumerate(rows):
        source, target = cache.source[index].tolist(), cache.target[index].tolist()

        def padded(ids, tensor):
            return ids + [PAD] * (tensor.shape[1] - len(ids))

        assert batch.source[row].tolist() == padded([*source, EOS], batch.source)
        assert batch.target_input[row].tolist() == padded([BOS, *target], batch.target_input)
        assert batch.target_output[row].tolist() == padded([*target, EOS], batch.target_output)
    assert batch.source_lengths.tolist() == [len(cache.source[index]) + 1 for index in rows]
    assert batch.target_lengths.tolist() == [len(cache.target[index]) + 1 for index in rows]
    assert batch.source.shape == (3, batch.source_lengths.max())
    assert batch.target_tokens == batch.target_lengths.sum()
    assert batch.source_tokens == (batch.source != PAD).sum()
    assert {tensor.dtype for tensor in (batch.source, batch.target_input, batch.target_output)} == {torch.int64}
    assert batch.to("meta").target_lengths.device.type == "meta"


@pytest.mark.parametrize("prefixes", [Prefixes([7], [EOS, 9]), Prefixes([11], [BOS])], ids=["fairseq", "marian"])
def test_language_tokens_stand_in_their_places(prefixes, pairs, tokenizers, tmp_path):
    settings = {"max_tokens": 20}
    plain = write_cache([memory_blocks(pairs)], Encoder(tokenizers, **settings), tmp_path / "plain")
    told = write_cache([memory_blocks(pairs)], Encoder(tokenizers, prefixes=[prefixes], **settings), tmp_path / "told")
    assert told.source.lengths.max() + 1 == 20, "language tokens count"
    assert told.dropped > plain.dropped
    kept = {tuple(plain.source[index].tolist()): plain.target[index].tolist() for index in range(len(plain))}
    sampled = TrainingEpochs(told, tokenizers=tokenizers, alpha=0.1, seed=1)(0)
    assert any(told.source[row].tolist() != sampled.source[row].tolist() for row in range(len(told)))
    for cache in (told, sampled):
        batch = collate(cache, np.arange(8))
        for row in range(8):
            source, read, written = (
                tensor[row][tensor[row] != PAD].tolist()
                for tensor in (batch.source, batch.target_input, batch.target_output)
            )
            assert source[0] == prefixes.source[0]
            assert source[-1] == written[-1] == EOS
            assert read == [*prefixes.target, *read[len(prefixes.target) :]]
            assert written == [*read[1:], EOS]
            assert batch.target_lengths[row] == len(read)
            if cache is told:
                assert read[len(prefixes.target) :] == kept[tuple(source[1:-1])]
        assert max(cache.source.lengths.max(), cache.target.lengths.max()) < 20


def stream(cache, **more):
    return BatchStream(TrainingEpochs(cache), BatchSettings(tokens=400), seed=5, **more)


def same(one, other):
    return one[:2] == other[:2] and all(
        torch.equal(getattr(one[2], name), getattr(other[2], name)) for name in ("source", "target_output")
    )


def test_a_stream_resumed_anywhere_equals_the_tail(cache):
    whole = list(islice(stream(cache).start(), 200))
    per_epoch = sum(epoch == 0 for epoch, _, _ in whole)
    assert whole[per_epoch][:2] == (1, 0)
    for place in (0, 7, per_epoch - 1, per_epoch + 3):
        epoch, index, _ = whole[place]
        tail = list(islice(stream(cache).start(epoch, index + 1), 20))
        assert all(map(same, tail, whole[place + 1 :]))


def test_processes_share_every_batch(cache):
    whole = list(islice(stream(cache).start(), 80))
    parts = [list(islice(stream(cache, rank=rank, world_size=7).start(), 80)) for rank in range(7)]
    empty = 0
    for number, (epoch, index, batch) in enumerate(whole):
        shares = [part[number] for part in parts]
        assert all(share[:2] == (epoch, index) for share in shares)
        assert sum(share[2].target_tokens for share in shares) == batch.target_tokens
        rows = [row[row != PAD].tolist() for share in shares for row in share[2].target_output]
        assert sorted(rows) == sorted(row[row != PAD].tolist() for row in batch.target_output)
        empty += sum(len(share[2]) == 0 for share in shares)
    assert empty > 0, "the case of fewer rows than processes occurs"
