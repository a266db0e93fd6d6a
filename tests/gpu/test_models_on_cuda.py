"""Models on CUDA: the same outputs, the same translations, and cached decoding."""

from __future__ import annotations

import pytest
import torch

from locant.models import LanguageModel, LanguageModelConfig, Transformer, TransformerConfig
from locant.positions import SCHEMES
from locant.translation import beam_search

OPTIONS = {"randomised": {"max_positions": 512, "evaluation_length": 64}}


@pytest.mark.parametrize("name", SCHEMES)
def test_cached_decoding_equals_the_full_pass(name: str) -> None:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocab_size=50, layers=2, d_model=64, d_ff=128, position=name, position_options=OPTIONS.get(name, {})
    )
    model = LanguageModel(config).eval()
    ids = torch.randint(50, (2, 40))
    with torch.no_grad():
        expected = model(ids)
        model = model.cuda()
        torch.testing.assert_close(model(ids.cuda()).cpu(), expected, atol=2e-4, rtol=2e-4)
        cache = model.start()
        steps = [model.step(part, cache) for part in ids.cuda().split([17, 1, 1, 12, 9], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1).cpu(), expected, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "t5"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_searches_find_what_they_find_on_the_cpu(position: str, norm: str) -> None:
    torch.manual_seed(1)
    config = TransformerConfig(
        source_vocab_size=60,
        target_vocab_size=60,
        encoder_layers=2,
        decoder_layers=2,
        d_model=64,
        d_ff=128,
        heads=4,
        dropout=0.0,
        norm=norm,
        position=position,
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # sharper, so that no two hypotheses are as good as each other
    source, lengths = torch.randint(4, 60, (5, 12)), torch.tensor([12, 9, 12, 3, 7])
    limits = torch.full((5,), 15)
    for settings in ({"beam": 1}, {"beam": 4, "n_best": 2}):
        with torch.no_grad():
            on_cpu = beam_search(model.cpu(), source, lengths, limits, **settings)
            on_cuda = beam_search(model.cuda(), source.cuda(), lengths.cuda(), limits.cuda(), **settings)
        assert [[one.tokens for one in each] for each in on_cuda] == [[one.tokens for one in each] for each in on_cpu]
