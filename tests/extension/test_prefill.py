"""Losses and answers, read in chunks with cached keys, against one plain pass of transformers without a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import save_model
from torch.nn import functional

from locant.extension.evaluate.prefill import Reader, follows_length
from locant.extension.extend.methods import apply_method
from locant.extension.load import load_config, load_model

LENGTH = 90
FAMILIES = ["llama", "qwen3", "gemma2", "gemma3-new", "gpt_neox", "cohere", "phi3-longrope"]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(save_model(tmp_path_factory.mktemp("model"), request.param))


def _tokens(length: int = LENGTH, seed: int = 1) -> torch.Tensor:
    return torch.randint(3, 64, (length,), generator=torch.Generator().manual_seed(seed))


def _plain_losses(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits = model(tokens[None], use_cache=False).logits[0, :-1].double()
    return functional.cross_entropy(logits, tokens[1:], reduction="none")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("chunk", "scored_from"), [(7, 1), (32, 70), (512, 1)])
def test_chunks_equal_one_pass(model: Any, chunk: int, scored_from: int) -> None:
    tokens = _tokens()
    losses = Reader(model, chunk=chunk).losses(tokens, scored_from).double()
    torch.testing.assert_close(losses, _plain_losses(model, tokens)[scored_from - 1 :], rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("scaling", ["dynamic", "yarn"])
def test_extended_models_equal_one_fresh_pass(scaling: str, exact: bool, tmp_path: Path) -> None:
    path = save_model(tmp_path / "model", "llama")
    config = apply_method(load_config(path), scaling, 128)
    evaluated = load_model(path, config)
    assert follows_length(evaluated) is (scaling == "dynamic")
    reader = Reader(evaluated, chunk=16, exact=exact)
    for length in (128, 90, 40):  # a longer text must leave no trace in a shorter one
        expected = _plain_losses(load_model(path, config), _tokens(length))
        torch.testing.assert_close(reader.losses(_tokens(length)).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(3)
def test_greedy_answers_equal_full_passes(model: Any) -> None:
    reader, shared = Reader(model, chunk=16), _tokens(60).tolist()
    for seed, length in ((2, 12), (3, 12), (4, 5)):
        prompt = shared[: 60 - 10 * seed] + _tokens(length, seed).tolist()
        row = list(prompt)
        for _ in range(4):
            # Padding behind the last token decides the frequencies, where they follow the length.
            padded = torch.tensor([*row, *[3] * (LENGTH - len(row))])
            with torch.no_grad():
                row.append(int(model(padded[None], use_cache=False).logits[0, len(row) - 1].argmax()))
        assert reader.answer(prompt, 4, length=LENGTH) == row[len(prompt) :]


def test_memory_grows_with_the_length(tmp_path: Path) -> None:
    # Logits and scores exist for a chunk at a time: no tensor that is made has L x L or L x V elements.
    model, sizes, length = load_model(save_model(tmp_path / "model", "llama")), list[int](), 2048

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                sizes.append(result.untyped_storage().nbytes())
            return result

    with Watch():
        Reader(model, chunk=64).losses(_tokens(length))
    assert max(sizes) < 4 * 64 * length * 8 < 4 * length * length
