"""What the compiled engine does with ids, lengths and rows that are wrong, and in many threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tiny_models import tiny_model, tiny_tokenizers
from with_kernels import needs_compiler

from locant.errors import CheckpointError, ConfigError, DataError
from locant.kernels.library import Library
from locant.models import DecodingSettings, SamplingSettings
from locant.text import BOS, EOS, LanguageTokens, TokenizerPair
from locant.translation import CompiledEngine, CompiledTransformer, Translator

VOCABULARY = 40


@needs_compiler
@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40, 2**63, -(2**63) - 1, 10**30])
@pytest.mark.parametrize("settings", [DecodingSettings(beam=2), DecodingSettings(sampling=SamplingSettings())])
def test_tokens_of_a_translation_outside_the_vocabulary(settings: DecodingSettings, token: int) -> None:
    engine = CompiledEngine(tiny_model(VOCABULARY, seed=1))
    with pytest.raises(ConfigError, match=rf"Token {token} is outside the source vocabulary of 40 tokens"):
        list(engine.translate([[5, 6, EOS], [5, token, EOS]], [3, 3], [BOS], settings))
    with pytest.raises(ConfigError, match=rf"Token {token} is outside the target vocabulary of 40 tokens"):
        list(engine.translate([[5, 6, EOS]], [3], [BOS, token], settings))


@needs_compiler
@pytest.mark.parametrize("limit", [2**32, 2**63, 10**30])
def test_a_greatest_length_that_no_translation_has(limit: int) -> None:
    engine = CompiledEngine(tiny_model(VOCABULARY, seed=1))
    with pytest.raises(ConfigError, match=f"There is no translation of {limit} tokens"):
        list(engine.translate([[5, 6, EOS]], [limit], [BOS], DecodingSettings()))


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_of_fork_waits_for_none_of_its_parent_s_threads() -> None:
    """A table of positions is growing, and the library is loading, in another thread when the process is forked."""
    model, library = CompiledTransformer(tiny_model(VOCABULARY, seed=1)), Library()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with model._growing, library._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        free = [lock.acquire(timeout=5) for lock in (model._growing, library._lock)]
        os._exit(0 if all(free) else 1)
    _, status = os.waitpid(child, 0)
    assert model._growing.locked(), "the parent's thread has it still"
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0


@needs_compiler
@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_the_default_dtype_and_device_are_those_of_nothing_that_is_written(position: str) -> None:
    model = tiny_model(VOCABULARY, seed=1, position=position)

    def found() -> list[object]:
        kinds = DecodingSettings(), DecodingSettings(sampling=SamplingSettings())
        return [list(CompiledEngine(model).translate([[5, 9, EOS]], [6], [BOS], kind)) for kind in kinds]

    expected = found()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            assert found() == expected
    finally:
        torch.set_default_dtype(torch.float32)


@needs_compiler
def test_sentences_beyond_the_positions_that_are_learned() -> None:
    engine = CompiledEngine(tiny_model(VOCABULARY, seed=1, position="learned", position_options={"max_positions": 8}))
    with pytest.raises(DataError, match="outside the 8 known positions"):
        list(engine.translate([[5] * 9], [3], [BOS], DecodingSettings()))


@needs_compiler
def test_weights_of_other_shapes() -> None:
    model = tiny_model(VOCABULARY, seed=1)
    model.output.weight = torch.nn.Parameter(model.output.weight[:-1])
    with pytest.raises(ConfigError, match="weights of the shapes that the model's configuration says"):
        CompiledTransformer(model)


@pytest.mark.parametrize("index", [VOCABULARY, 8003, 2**40, -1])
@pytest.mark.parametrize("layout", ["fairseq", "marian"])
def test_language_tokens_outside_the_vocabulary(index: int, layout: str) -> None:
    plain = tiny_tokenizers()
    size = plain.source.vocab_size
    index = size if index == VOCABULARY else index
    languages = LanguageTokens(layout=layout, ids={"de": 5, "en": index})
    with pytest.raises(CheckpointError, match=rf"language 'en' has the token {index}, but the model's source vocab"):
        Translator(tiny_model(size, seed=1), TokenizerPair(plain.source, plain.target, languages))


@pytest.mark.parametrize(
    ("sources", "limits", "prefix", "message"),
    [
        ([[5, EOS], []], [3, 3], [BOS], "Sentence 2 has no tokens"),
        ([[5, EOS]], [0], [BOS], "at least 1 token; got 0"),
        ([[5, EOS]], [3], [], "at least one token"),
    ],
)
def test_searches_that_cannot_begin(
    translator: Translator, sources: list[list[int]], limits: list[int], prefix: list[int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        list(translator.engine.translate(sources, limits, prefix, DecodingSettings()))


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@needs_compiler
@pytest.mark.usefixtures("hasty")
def test_sixteen_threads_on_one_translator() -> None:
    """Sentences of other lengths need position tables of other lengths, none of which may take another's place."""
    tokenizers = tiny_tokenizers()
    model = tiny_model(tokenizers.source.vocab_size, seed=3, sharpness=3.0, tie_output=True)
    settings = DecodingSettings(beam=2, max_length_extra=6)
    letters = "ab" * 200
    texts = [letters[: 1 + 11 * index] for index in range(16)]
    expected = Translator(model, tokenizers, settings, engine=CompiledEngine(model)).translate(texts)
    for _ in range(4):
        one = Translator(model, tokenizers, settings, engine=CompiledEngine(model))
        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(one.translate, texts)) == expected
