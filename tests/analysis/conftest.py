from __future__ import annotations

import pytest
from tiny_models import tiny_tokenizers

from locant.text import TokenizerPair


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    return tiny_tokenizers()
