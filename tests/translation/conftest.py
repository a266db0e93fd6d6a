from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from small_models import build, sentence_pairs, teach
from tiny_models import tiny_model, tiny_tokenizers

from locant.models import DecodingSettings, Transformer
from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers
from locant.translation import Translator


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Tiny models gain nothing from threads and lose much where others use the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    return tiny_tokenizers()


@pytest.fixture
def translator(tokenizers: TokenizerPair) -> Translator:
    model = tiny_model(tokenizers.source.vocab_size, seed=3, sharpness=3.0, tie_output=True)
    return Translator(model, tokenizers, DecodingSettings(beam=3, max_length_extra=6), source_language="el")


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return sentence_pairs(400)


@pytest.fixture(scope="session")
def joint(pairs) -> TokenizerPair:
    return train_tokenizers(pairs, TokenizerSettings(vocab_size=80))


@pytest.fixture(scope="session")
def trained(joint, pairs) -> Transformer:
    model = build(joint)
    model.reset_parameters()
    teach(model, joint, pairs, 100)
    return model
