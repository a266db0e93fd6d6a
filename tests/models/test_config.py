from typing import Any

import pytest
import torch

from locant.errors import ConfigError
from locant.models import PRESETS, TransformerConfig, preset

VOCABULARIES = {"source_vocab_size": 9, "target_vocab_size": 9}


def test_the_defaults_are_the_base_model_of_the_paper() -> None:
    """Table 3, first row; post-norm and sinusoids by sections 3.1 and 3.5; tied weights by section 3.4."""
    base = TransformerConfig(**VOCABULARIES)
    assert base == preset("base", **VOCABULARIES)
    assert (base.encoder_layers, base.decoder_layers, base.d_model, base.d_ff, base.heads) == (6, 6, 512, 2048, 8)
    assert (base.dropout, base.attention_dropout, base.feed_forward_dropout) == (0.1, 0.0, 0.0)
    assert (base.norm, base.feed_forward, base.position) == ("post", "relu", "sinusoidal")
    assert base.share_embeddings
    assert base.tie_output


@pytest.mark.parametrize(
    ("name", "layers", "d_model", "d_ff", "heads", "dropout"),
    [
        ("tiny", 4, 128, 256, 4, 0.3),
        ("small", 3, 256, 1024, 4, 0.1),
        ("base", 6, 512, 2048, 8, 0.1),
        ("big", 6, 1024, 4096, 16, 0.3),
    ],
)
def test_presets(name: str, layers: int, d_model: int, d_ff: int, heads: int, dropout: float) -> None:
    config = preset(name, **VOCABULARIES)
    assert (config.encoder_layers, config.decoder_layers) == (layers, layers)
    assert (config.d_model, config.d_ff, config.heads, config.dropout) == (d_model, d_ff, heads, dropout)
    assert len(PRESETS) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"d_model": 30}, r"preset tiny: d_model 30 is not a multiple of heads 4\.$"),
        ({"d_modle": 3}, r"preset tiny: unknown key 'd_modle'\. Did you mean 'd_model'\?$"),
        ({"target_vocab_size": 3}, "one joint vocabulary, but source_vocab_size is 9 and target_vocab_size is 3"),
        ({"heads": 0}, r"'heads': Input should be greater than or equal to 1 \(got 0\)"),
        ({"dropout": 1}, "'dropout': Input should be less than 1"),
        ({"norm": "mid"}, "'norm': Input should be 'post', 'pre'"),
        ({"feed_forward": "swigl"}, "'feed_forward': Input should be 'relu'"),
        ({"position": "sinusoidl"}, r"'sinusoidl'\. Did you mean 'sinusoidal'\? Known: none.*[^.]\.$"),
        ({"position_options": {"bas": 3}}, r"no option 'bas'\. Did you mean 'base'\?"),
        ({"position_options": {"base": "1e4"}}, "'base' .* must be a number"),
        ({"position": "learned", "position_options": {"max_positions": 0}}, "at least 1; got 0"),
        ({"d_model": 15, "heads": 5}, "even width.*got 15"),
    ],
)
def test_wrong_values(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        preset("tiny", **{**VOCABULARIES, **changes})


def test_missing_vocabulary_and_unknown_preset() -> None:
    with pytest.raises(ConfigError, match="the key 'source_vocab_size' is missing"):
        preset("tiny", target_vocab_size=3)
    with pytest.raises(
        ConfigError, match=r"Unknown preset 'bigg'\. Did you mean 'big'\? Known: tiny, small, base, big"
    ):
        preset("bigg", **VOCABULARIES)


def test_round_trip() -> None:
    config = preset("small", **VOCABULARIES, position="learned", position_options={"max_positions": 7}, norm="pre")
    assert TransformerConfig.parse(config.to_dict()) == config
    assert set(config.to_dict()) == set(TransformerConfig.model_fields)


def test_checking_a_configuration_draws_no_random_numbers() -> None:
    """Otherwise reading a recipe before or after seeding would give different models."""
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    preset("tiny", **VOCABULARIES, position="learned")
    assert torch.equal(torch.rand(1), expected)
