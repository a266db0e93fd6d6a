"""Sentences that join a running search and leave it, against the search of each alone."""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from compiled_steps import CompiledSteps
from tiny_models import tiny_model
from with_kernels import needs_compiler

from locant.errors import ConfigError, LocantError
from locant.models import DecodingSettings, SamplingSettings, Transformer
from locant.text import BOS, EOS
from locant.translation import (
    CompiledEngine,
    Engine,
    Hypothesis,
    PyTorchEngine,
    continuous,
    continuous_search,
    supports,
)
from locant.translation.compiled import CompiledSearch, Searched
from locant.translation.search import search

VOCABULARY = 30
ENGINES = ["pytorch", *(pytest.param(name, marks=needs_compiler) for name in ("float32", "bfloat16", "int8"))]
Outcomes = dict[int, list[Hypothesis] | LocantError]


def engine_of(name: str, model: Transformer) -> Engine:
    if name == "pytorch":
        return PyTorchEngine(model)
    if not supports(name):
        pytest.skip(f"this processor has no fast {name} arithmetic")
    return CompiledEngine(model, name)


def random_sentences(count: int, seed: int, **changes: Any) -> dict[int, Searched]:
    """Sentences of any length, with any beam, length penalty, number of hypotheses, greatest length and prefix."""
    draw = random.Random(seed)

    def sentence() -> Searched:
        beam = draw.choice([1, 1, 2, 4, 5])
        options = {"beam": beam, "n_best": draw.randint(1, beam), "length_penalty": draw.choice([0, 0.6, 1, 2])}
        source = [draw.randrange(4, VOCABULARY) for _ in range(draw.randint(0, 12))]
        prefix = BOS, *(draw.randrange(4, VOCABULARY) for _ in range(draw.choice([0, 0, 1, 3])))
        limit = draw.choice([1, 2, 5, 9, 14, 40])
        return Searched([*source, EOS], limit, prefix, DecodingSettings.parse({**options, **changes}))

    return {number: sentence() for number in range(count)}


def alone(engine: Engine, sentence: Searched) -> list[Hypothesis]:
    arguments = [sentence.source], [sentence.max_length]
    if isinstance(engine, CompiledEngine):  # by the search in Python
        found = search(CompiledSteps(engine), *arguments, sentence.settings, prefix=sentence.prefix)
    else:
        found = engine.translate(*arguments, sentence.prefix, sentence.settings)
    return dict(found)[0]


def translate(
    engine: Engine,
    sentences: Mapping[int, Searched],
    seed: int,
    *,
    rows: int = 32,
) -> Outcomes:
    """Add sentences at random steps."""
    draw = random.Random(seed)
    search = continuous_search(engine, rows=rows)
    coming = list(sentences)
    outcomes: Outcomes = {}
    while coming or search.active:
        for key in coming[: draw.choice([0, 0, 1, 2, 6])]:
            coming.remove(key)
            one = sentences[key]
            search.add(key, one.source, one.max_length, one.prefix, one.settings)
        for key, outcome in search.step():
            assert key not in outcomes
            outcomes[key] = outcome
    assert search.step() == []
    return outcomes


def assert_same(found: list[Hypothesis] | LocantError, expected: list[Hypothesis]) -> None:
    assert isinstance(found, list)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-4, abs=1e-4)
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4, abs=1e-4)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("engine", "seed"),
    [("pytorch", 0), ("pytorch", 1), *((precision, seed) for precision in ("float32", "int8") for seed in range(9))],
)
@needs_compiler
def test_hypotheses_are_those_of_each_sentence_alone(engine: str, seed: int) -> None:
    options = {"position": ("sinusoidal", "learned")[seed % 2], "norm": ("pre", "post")[seed // 2 % 2]}
    model = tiny_model(VOCABULARY, seed, sharpness=(1.0, 3.0, 6.0)[seed % 3], **options)
    computes = engine_of(engine, model)
    sentences = random_sentences(24, seed)
    outcomes = translate(computes, sentences, seed, rows=(6, 32, 500)[seed % 3])
    assert outcomes.keys() == sentences.keys()
    for key, outcome in outcomes.items():
        assert_same(outcome, alone(computes, sentences[key]))


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_and_what_is_active(engine: str) -> None:
    computes = engine_of(engine, tiny_model(VOCABULARY, 5))
    search = continuous_search(computes, rows=8)
    settings = DecodingSettings(beam=2)
    search.remove(9)
    assert (search.active, search.step()) == (0, [])
    search.add(1, [5, EOS], 3, (BOS,), settings)
    search.add(2, [6, EOS], 3, (BOS,), settings)
    assert search.active == 2
    with pytest.raises(ConfigError, match="key 1 already"):
        search.add(1, [7, EOS], 3, (BOS,), settings)
    search.remove(1)
    assert search.active == 1
    search.add(1, [7, EOS], 3, (BOS,), settings)
    outcomes: Outcomes = {}
    for _ in range(5):
        outcomes.update(search.step())
    assert set(outcomes) == {1, 2}
    assert search.active == 0
    assert_same(outcomes[1], alone(computes, Searched([7, EOS], 3, (BOS,), settings)))


WRONG = [
    ({"source": [5, VOCABULARY, EOS]}, "Token 30 is outside the source vocabulary of 30 tokens"),
    ({"source": [5, -1, EOS]}, "Token -1 is outside the source"),
    ({"source": []}, "no tokens"),
    ({"source": [5] * 41}, "positions"),
    ({"max_length": 0}, "at least 1 token; got 0"),
    ({"prefix": ()}, "prefix"),
    ({"prefix": (BOS, 2**40)}, "Token 1099511627776 is outside the target vocabulary of 30 tokens"),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("change", "message"), WRONG)
@pytest.mark.parametrize("engine", ENGINES[:2])
def test_a_wrong_sentence_fails_alone(engine: str, change: dict[str, Any], message: str) -> None:
    model = tiny_model(VOCABULARY, 5, position="learned", position_options={"max_positions": 40})
    computes = engine_of(engine, model)
    settings = DecodingSettings(beam=2)
    right = Searched([5, 6, EOS], 6, (BOS,), settings)
    wrong = Searched(**{"source": [5, EOS], "max_length": 6, "prefix": (BOS,), "settings": settings, **change})
    outcomes = translate(computes, {0: right, 1: wrong, 2: right}, 0)
    for key in (0, 2):
        assert_same(outcomes[key], alone(computes, right))
    failure = outcomes[1]
    assert isinstance(failure, LocantError)
    assert message in str(failure)


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_samples_do_not_depend_on_what_else_runs(engine: str) -> None:
    computes = engine_of(engine, tiny_model(VOCABULARY, 5))
    sampling = DecodingSettings(n_best=3, sampling=SamplingSettings(seed=4))
    sentences = random_sentences(6, 2)
    for number in range(6, 10):
        sentences[number] = Searched([5, 6, EOS], 8, (BOS,), sampling)
    outcomes = translate(computes, sentences, 0)
    for key, outcome in outcomes.items():
        assert_same(outcome, alone(computes, sentences[key]))


@needs_compiler
def test_searches_in_several_threads_find_what_each_sentence_has_alone() -> None:
    computes = engine_of("float32", tiny_model(VOCABULARY, 5, sharpness=2.0))
    sentences = [random_sentences(20, seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda seed: translate(computes, sentences[seed], seed), (0, 1)))
    for outcomes, own in zip(found, sentences, strict=True):
        for key, outcome in outcomes.items():
            assert_same(outcome, alone(computes, own[key]))


@needs_compiler
@pytest.mark.parametrize("call", ["step", "begin", "encode"])
def test_memory_that_fails_costs_one_sentence(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    computes = engine_of("float32", tiny_model(VOCABULARY, 5, sharpness=2.0))
    sentences = random_sentences(30, 7)
    calls, plain = iter(range(10**9)), getattr(CompiledSearch, call)

    def failing(self: CompiledSearch, *arguments: Any) -> Any:
        if next(calls) == 9:
            raise MemoryError
        return plain(self, *arguments)

    monkeypatch.setattr(CompiledSearch, call, failing)
    outcomes = translate(computes, sentences, 7)
    monkeypatch.setattr(CompiledSearch, call, plain)
    failed = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, LocantError)}
    # Sentences that could not join together are tried one by one, and memory suffices then.
    assert len(failed) == 1 or (call != "step" and not failed)
    assert all("does not fit into memory" in str(failure) for failure in failed.values())
    for key in sentences.keys() - set(failed):
        assert_same(outcomes[key], alone(computes, sentences[key]))


def allocated() -> int:
    """Bytes that glibc has given out and not got back."""

    class Numbers(ctypes.Structure):
        _fields_ = [
            (name, ctypes.c_size_t)
            for name in ("arena", "free", "fast", "mapped", "hblkhd", "most", "in_fast", "uordblks", "in_free", "top")
        ]

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("needs mallinfo2 of glibc")
    libc.mallinfo2.restype = Numbers
    found = libc.mallinfo2()
    return int(found.uordblks + found.hblkhd)


@needs_compiler
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mallinfo2 of glibc")
def test_memory_does_not_grow() -> None:
    """The search is never empty, so nothing is freed but what it gives back by itself."""
    model = tiny_model(VOCABULARY, 5, sharpness=2.0)
    search = continuous_search(engine_of("float32", model), rows=24)
    sentences = list(random_sentences(100, 4).values())
    before, most = 0, 0
    for number in range(2300):
        one = sentences[number % 100]
        search.add(number, one.source, one.max_length, one.prefix, one.settings)
        if number % 17 == 16:
            search.remove(number - 5)
        while search.active > 12:
            search.step()
        if number % 100 == 99:
            most = max(most, allocated())
        if number == 299:
            before, most = most, 0
    assert most - before < 200_000


@pytest.fixture
def bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that encodes in nineteen steps."""
    monkeypatch.setattr(continuous, "INTERVAL", 0)
    return engine_of("int8", tiny_model(VOCABULARY, 5, encoder_layers=8, sharpness=2.0))


@needs_compiler
def test_a_sentence_that_is_being_encoded_can_be_removed(bit_by_bit: Engine) -> None:
    running, found = continuous_search(bit_by_bit, rows=40), {}
    running.add(1, [*[7] * 1023, EOS], 4, (BOS,), DecodingSettings(beam=2))
    running.add(2, [8, EOS], 4, (BOS,), DecodingSettings(beam=2))
    running.step()
    running.remove(1)
    assert running.active == 1
    while running.active:
        found |= dict(running.step())
    assert found == {2: alone(bit_by_bit, Searched([8, EOS], 4, (BOS,), DecodingSettings(beam=2)))}
