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

from locant.errors import CheckpointError, ConfigError
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
