from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from locant.models import Transformer, TransformerConfig

BuildModel = Callable[..., Transformer]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small run faster on one thread than several can be started."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def build_model() -> BuildModel:
    """Build a small seeded model in evaluation mode, so that only what a test names differs from the paper's."""

    def build(**changes: Any) -> Transformer:
        torch.manual_seed(1)
        small = {"source_vocab_size": 30, "target_vocab_size": 30, "encoder_layers": 2, "decoder_layers": 2}
        sizes = {"d_model": 16, "d_ff": 24, "heads": 4}
        model = Transformer(TransformerConfig(**{**small, **sizes, **changes})).eval()
        # Fresh models have biases of zero and norms of one, which would hide a bias or norm that is left out; some
        # positional schemes begin at zero too.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1 or not parameter.any():
                    parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    return build
