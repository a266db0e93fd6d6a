"""The search in C++ against the one in Python with the same kernels: the same hypotheses, to the last bit.

In int8, where a row's sums do not depend on how many others there are: hypotheses as good as each other stay so.
"""

from __future__ import annotations

import math
import random
import signal

import pytest
import torch
from compiled_steps import CompiledSteps
from tiny_models import tiny_model
from with_kernels import needs_compiler

from locant.errors import ConfigError
from locant.models import DecodingSettings, Transformer
from locant.text import BOS, EOS
from locant.translation import CompiledEngine, Hypothesis, compiled, continuous_search, supports
from locant.translation.compiled import CompiledSearch, Searched
from locant.translation.search import search

pytestmark = needs_compiler

VOCABULARY = 24


def model_with_ties(seed: int) -> Transformer:
    """A random model in which tokens are as probable as others, one of them as the end."""
    model = tiny_model(VOCABULARY, seed, sharpness=(0.5, 2.0, 4.0)[seed % 3])
    with torch.no_grad():
        model.output.weight[[5, 9, 17]] = model.output.weight[[4, EOS, 4]]
    return model


def int8_engine(model: Transformer) -> CompiledEngine:
    if not supports("int8"):
        pytest.skip("this processor has no fast int8 arithmetic")
    return CompiledEngine(model, "int8")


def random_sources(draw: random.Random, count: int) -> list[list[int]]:
    return [[*(draw.randrange(4, VOCABULARY) for _ in range(draw.randint(0, 9))), EOS] for _ in range(count)]


def in_python(engine: CompiledEngine, sentence: Searched) -> list[Hypothesis]:
    found = search(
        CompiledSteps(engine), [sentence.source], [sentence.max_length], sentence.settings, prefix=sentence.prefix
    )
    return dict(found)[0]


def joined(running: CompiledSearch, sentences: dict[int, Searched]) -> CompiledSearch:
    running.begin(sentences)
    assert running.encode(math.inf)
    return running


def rest(running: CompiledSearch) -> dict[int, object]:
    """What is found of the sentences that are left."""
    found: list[tuple[int, object]] = []
    while len(running):
        found += running.step(1000)
    return dict(found)


@pytest.mark.parametrize(("length", "most"), [(1, 60), (1023, 4)])
def test_a_search_that_is_no_longer_wanted_ends(length: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its prefix is read, and while a long sentence is encoded."""
    monkeypatch.setattr(compiled, "INTERVAL", 0)
    engine, asked = CompiledEngine(model_with_ties(0), "float32"), []
    running = CompiledSearch(engine, 1)
    sentence = Searched([*[5] * length, EOS], 10_000, (BOS, *[7] * 400), DecodingSettings(beam=2))
    assert running.run({0: sentence}, lambda: not asked.append(None) and len(asked) < most) == []
    assert (len(running), len(asked)) == (1, most)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("lengths", [[1024], [700, 20, 300, 1, 1, 512], [3] * 90])
def test_encoding_that_pauses_finds_the_same(lengths: list[int], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses after each sub-layer, whether threads share sentences or each has its own."""
    # Large enough for several threads.
    model = tiny_model(VOCABULARY, 1, encoder_layers=3, d_model=64, d_ff=256, heads=4)
    engine, draw = CompiledEngine(model, "float32"), random.Random(1)
    sources = [[*(draw.randrange(4, VOCABULARY) for _ in range(length - 1)), EOS] for length in lengths]
    sentences = {number: Searched(source, 3, (BOS,), DecodingSettings()) for number, source in enumerate(sources)}
    at_once = rest(joined(CompiledSearch(engine, threads), sentences))
    asked: list[None] = []
    monkeypatch.setattr(compiled, "INTERVAL", 0)
    bit_by_bit = CompiledSearch(engine, threads)
    assert dict(bit_by_bit.run(sentences, lambda: not asked.append(None))) == at_once
    assert len(asked) >= 2 * 3 + 2, "a pause after each sub-layer, and before the keys and values of each layer"


def test_sentences_that_are_not_encoded_yet_hold_up_no_others_and_can_be_removed() -> None:
    engine = int8_engine(model_with_ties(1))
    running = CompiledSearch(engine, 2)
    short, long = (Searched([*[5] * length, EOS], 9, (BOS,), DecodingSettings()) for length in (3, 400))
    running.begin({0: short})
    with pytest.raises(ConfigError, match="The sentences that came before are not encoded yet"):
        running.begin({1: short})
    assert running.encode(math.inf)
    running.begin({1: long, 2: long, 3: short})
    assert not running.encode(0)
    running.remove(2)
    found = running.step(1000)
    assert found == [(0, in_python(engine, short))]
    while not running.encode(0):
        pass
    assert rest(running) == {1: in_python(engine, long), 3: in_python(engine, short)}
    running.begin({4: long})
    assert not running.encode(0)
    running.remove(4)
    assert not len(running)
    assert running.encode(0), "there is nothing to encode any more"
    assert rest(joined(running, {5: short})) == {5: in_python(engine, short)}


def test_ctrl_c_does_not_wait_for_a_long_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "INTERVAL", 0)
    engine, calls, encode = CompiledEngine(model_with_ties(1), "float32"), [], CompiledSearch.encode

    def pressed(self: CompiledSearch, seconds: float) -> bool:
        calls.append(done := encode(self, seconds))
        signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(CompiledSearch, "encode", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs that ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            list(engine.translate([[*[5] * 1023, EOS]], [3], (BOS,), DecodingSettings()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [False]
    monkeypatch.undo()
    assert dict(engine.translate([[5, EOS]], [3], (BOS,), DecodingSettings()))


@pytest.mark.parametrize("seed", range(6))
def test_batches(seed: int) -> None:
    engine, draw = int8_engine(model_with_ties(seed)), random.Random(seed)
    for beam in (1, 2, 4, 5):
        settings = DecodingSettings(
            beam=beam,
            n_best=draw.randint(1, beam),
            length_penalty=draw.choice([0.0, 0.6, 2.0]),
            batch_tokens=draw.choice([1, 300, 8192]),
        )
        sources = random_sources(draw, 12)
        limits = [draw.choice([1, 2, 7, 30]) for _ in sources]
        prefix = (BOS, 7)[: draw.randint(1, 2)]
        found = dict(engine.translate(sources, limits, prefix, settings))
        assert found == dict(search(CompiledSteps(engine), sources, limits, settings, prefix=prefix))
        assert len(found) == 12


@pytest.mark.parametrize("seed", range(6))
def test_sentences_that_come_and_go(seed: int) -> None:
    engine, draw = int8_engine(model_with_ties(seed)), random.Random(seed)
    sentences = []
    for source in random_sources(draw, 30):
        beam = draw.choice([1, 2, 4, 5])
        settings = DecodingSettings(beam=beam, n_best=draw.randint(1, beam), length_penalty=draw.choice([0, 0.6, 1.5]))
        prefix = [BOS, *(draw.randrange(4, VOCABULARY) for _ in range(draw.choice([0, 0, 1, 3])))]
        sentences.append(Searched(source, draw.choice([1, 3, 9, 33]), prefix, settings))
    running = continuous_search(engine, rows=40)
    coming, removed, found = list(range(30)), set(), {}
    while coming or running.active:
        for number in coming[: draw.randint(0, 4)]:
            coming.remove(number)
            one = sentences[number]
            running.add(number, one.source, one.max_length, one.prefix, one.settings)
        if draw.random() < 0.1:
            removed.add(gone := draw.randrange(30))
            if gone not in coming:
                running.remove(gone)
        found.update(running.step())
    assert len(found) >= 30 - len(removed)
    assert found == {number: in_python(engine, sentences[number]) for number in found}


def test_steps_until_a_sentence_is_finished() -> None:
    engine = int8_engine(tiny_model(VOCABULARY, 5, sharpness=2.0))
    settings = DecodingSettings(beam=2)
    limits = {1: 3, 2: 9, 3: 9, 4: 70}
    sentences = {number: Searched([5, 5 + number, EOS], limit, (BOS,), settings) for number, limit in limits.items()}

    def searching() -> CompiledSearch:
        return joined(CompiledSearch(engine, 1), sentences)

    alone = {number: in_python(engine, sentence) for number, sentence in sentences.items()}
    one_by_one, found = searching(), []
    while len(one_by_one):
        found.append(one_by_one.step())
    ended = [outcomes for outcomes in found if outcomes]
    many, together = searching(), []
    while len(many):
        together.append(many.step(1000))
    assert together == ended
    few = searching()
    steps = [few.step(2) for _ in range(len(found)) if len(few)]
    assert [outcomes for outcomes in steps if outcomes] == ended
    assert len(ended) <= len(steps) < len(found)
    by_two, pairs = searching(), []
    while len(by_two):
        pairs.append(by_two.step(1000, 2))
    assert [len(outcomes) >= 2 for outcomes in pairs[:-1]] == [True] * (len(pairs) - 1)
    assert len(pairs) < len(ended)
    assert [outcome for outcomes in pairs for outcome in outcomes] == [one for outcomes in ended for one in outcomes]
    assert by_two.step(1000, 2) == []
    assert dict(CompiledSearch(engine, 1).run(sentences)) == alone
