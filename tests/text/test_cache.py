import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from locant.errors import CheckpointError, DataError
from locant.text import (
    BatchSettings,
    BatchStream,
    Encoder,
    NoiseSettings,
    RowSampler,
    TokenCache,
    TrainingEpochs,
    collate,
    prefetch,
    write_cache,
)
from locant.text import epochs as sampled_module
from locant.text.pairs import memory_blocks


def ids(column):
    return [column[index].tolist() for index in range(len(column.lengths))]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(sampled_module, "_CHUNK", 37)


def test_the_cache_holds_the_ids_of_the_pairs(pairs, tokenizers, tmp_path, small_chunks):
    cache = write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    assert len(cache) == len(pairs)
    assert cache.dropped == 0
    for opened in (cache, TokenCache(tmp_path / "c")):
        assert ids(opened.source) == tokenizers.source.encode([source for source, _ in pairs])
        assert ids(opened.target) == tokenizers.target.encode([target for _, target in pairs])
        assert opened.source.lengths.tolist() == [len(one) for one in ids(opened.source)]
        assert opened.source.tokens[:].dtype == "uint16"


def test_pairs_with_too_many_tokens_are_dropped_and_counted(pairs, tokenizers, tmp_path):
    lengths = [
        max(len(one), len(other))
        for one, other in zip(
            tokenizers.source.encode([source for source, _ in pairs]),
            tokenizers.target.encode([target for _, target in pairs]),
            strict=True,
        )
    ]
    cache = write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=30), tmp_path / "c")
    fitting = [length for length in lengths if length + 1 <= 30]
    assert 0 < cache.dropped == len(lengths) - len(fitting)
    assert max(cache.source.lengths.max(), cache.target.lengths.max()) == max(fitting)
    with pytest.raises(DataError, match=r"All 600 pairs have 1 tokens or more"):
        write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=1), tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_rewriting_replaces_and_a_failure_leaves_nothing_half_done(pairs, tokenizers, tmp_path):
    write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=500), tmp_path / "c")

    def broken():
        yield pairs[0]
        raise DataError("half way")

    assert len(write_cache([memory_blocks(pairs[:3])], Encoder(tokenizers, max_tokens=500), tmp_path / "c")) == 3
    with pytest.raises(DataError, match="half way"):
        write_cache([memory_blocks(broken())], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_noticed(pairs, tokenizers, tmp_path):
    write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    tokens = tmp_path / "c" / "target.tokens.bin"
    tokens.write_bytes(tokens.read_bytes()[:-2])
    with pytest.raises(CheckpointError, match=r"target.tokens.bin is damaged"):
        TokenCache(tmp_path / "c")
    tokens.unlink()
    with pytest.raises(CheckpointError, match=r"target.tokens.bin cannot be read"):
        TokenCache(tmp_path / "c")


def test_sampled_sentences_never_exceed_the_limit(pairs, tokenizers, tmp_path, small_chunks):
    cache = write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=30), tmp_path / "c")
    sampled = TrainingEpochs(cache, tokenizers=tokenizers, alpha=0.1, seed=1)(0)
    assert len(sampled) == len(cache)
    assert sampled.source.lengths.max() < 30
    usual = ids(cache.source)
    longest = cache.source.lengths.argmax()
    assert ids(sampled.source) != usual
    assert ids(sampled.source)[longest] == usual[longest]


@pytest.mark.parametrize(("small", "kept"), [(0, range(8, 10)), (1 << 16, range(2, 10))])
def test_sampled_epochs_leave_nothing_behind(pairs, tokenizers, tmp_path, monkeypatch, small, kept):
    monkeypatch.setattr(sampled_module, "_SMALL", small)
    cache = write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    run = TrainingEpochs(cache, tokenizers=tokenizers, alpha=0.1, seed=1)
    for epoch in range(10):
        run(epoch)
    (folder,) = [path for path in tmp_path.iterdir() if path.name != "c"]
    assert sorted(path.name for path in folder.iterdir()) == [f"{epoch}.0" for epoch in kept]
    del run
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_processes_of_a_training_read_the_same_sampled_epoch(pairs, tokenizers, tmp_path, small_chunks):
    parts = [memory_blocks(pairs[:300]), memory_blocks([]), memory_blocks(pairs[300:])]
    cache = write_cache(parts, Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    samplers = [RowSampler([300, 0, 300], [1, 1, 3], 1, seed=1)]
    settings = {"tokenizers": tokenizers, "alpha": 0.1, "seed": 1, "noise": [NoiseSettings(typos=0.5), None, None]}
    alone = TrainingEpochs(cache, samplers, **settings)
    together = [TrainingEpochs(cache, samplers, **settings, shared_by=(rank, 3)) for rank in range(3)]
    with ThreadPoolExecutor(3) as threads:
        for epoch in range(4):
            expected = alone(epoch)
            for found in threads.map(lambda one, epoch=epoch: one(epoch), together):
                assert ids(found.source) == ids(expected.source)
                assert ids(found.target) == ids(expected.target)
                assert found.parts == expected.parts
    together.clear()
    assert not (tmp_path / "sampled-together").exists()


def test_a_stream_ends_at_once_though_another_process_never_tokenises(pairs, tokenizers, tmp_path, small_chunks):
    """Each process reads ahead; the training may be over before the first begins the epoch that this one waits for."""
    cache = write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    settings = {"tokenizers": tokenizers, "alpha": 0.1, "seed": 1}
    first, one = (TrainingEpochs(cache, **settings, shared_by=(rank, 2)) for rank in range(2))
    batches = BatchStream(one, BatchSettings(tokens=100_000), seed=1)
    first(0)
    for _ in range(2):  # a stage of the corpus ends one stream and begins another
        stream = prefetch(batches.start(), 2, batches.interrupt)
        next(stream)
        begun = time.monotonic()
        stream.close()
        assert time.monotonic() - begun < 30


def test_a_sentence_with_an_unknown_token_keeps_its_tokens(pairs, tokenizers, tmp_path):
    odd = [(f"{source} 猫", target) for source, target in pairs[:50]]
    cache = write_cache([memory_blocks([*odd, *pairs[50:]])], Encoder(tokenizers, max_tokens=500), tmp_path / "c")
    sampled = TrainingEpochs(cache, tokenizers=tokenizers, alpha=0.1, seed=1)(0)
    assert ids(sampled.source)[:50] == ids(cache.source)[:50]
    assert ids(sampled.source)[50:] != ids(cache.source)[50:]
    assert ids(sampled.target)[:50] != ids(cache.target)[:50]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_is_noticed(data, pairs, tokenizers, tmp_path):
    cache = write_cache([memory_blocks(pairs[:40])], Encoder(tokenizers, max_tokens=500), tmp_path / "cache")
    cache.check()
    name = f"{data.draw(st.sampled_from(['source', 'target']))}.{data.draw(st.sampled_from(['tokens', 'offsets']))}.bin"
    content = bytearray((cache.folder / name).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (cache.folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        TokenCache(cache.folder).check()


def damaged(path, place, number, kind):
    """Put a number in a place of a flat file."""
    values = np.fromfile(path, kind)
    values[place] = number
    values.tofile(path)


@pytest.mark.parametrize(
    ("name", "place", "number", "kind", "said"),
    [
        ("source.offsets.bin", 1, 1 << 40, np.int64, r"source\.offsets\.bin"),
        ("target.offsets.bin", 0, -1, np.int64, r"target\.offsets\.bin"),
    ],
)
def test_damaged_numbers_are_said(pairs, tokenizers, tmp_path, name, place, number, kind, said):
    write_cache([memory_blocks(pairs)], Encoder(tokenizers, max_tokens=500), tmp_path / "cache")
    damaged(tmp_path / "cache" / name, place, number, kind)
    with pytest.raises(CheckpointError, match=said):
        collate(TokenCache(tmp_path / "cache"), np.arange(3))
