from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from small_models import build, sentence_pairs, teach

from locant.models import Transformer
from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return sentence_pairs(400)


@pytest.fixture(scope="session")
def joint(pairs) -> TokenizerPair:
    return train_tokenizers(pairs, TokenizerSettings(vocab_size=80))


@pytest.fixture(scope="session")
def separate(pairs) -> TokenizerPair:
    return train_tokenizers(pairs, TokenizerSettings(vocab_size=60, joint=False))


@pytest.fixture(scope="session")
def trained(joint, pairs) -> Transformer:
    model = build(joint)
    model.reset_parameters()
    teach(model, joint, pairs, 100)
    return model
