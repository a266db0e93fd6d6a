"""What the compiled engine does with ids, lengths and rows that are wrong, and in many threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tiny_models import tiny_model, tiny_tokenizers
from with_kernels import needs_compiler

from locant.errors import CheckpointError, ConfigError
from locant.models import DecodingSettings
from locant.text import LanguageTokens, TokenizerPair
from locant.translation import CompiledEngine, Translator

VOCABULARY = 40


@needs_compiler
def test_weights_of_other_shapes() -> None:
    model = tiny_model(VOCABULARY, seed=1)
    model.output.weight = torch.nn.Parameter(model.output.weight[:-1])
    with pytest.raises(ConfigError, match="weights of the shapes that the model's configuration says"):
        CompiledEngine(model)


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
