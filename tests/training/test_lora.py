"""Adapters of peft on Locant's models."""

import sys

import pytest
import torch
from tiny_models import tiny_model

from locant.errors import ConfigError, MissingExtraError
from locant.models import RNNConfig, build_model
from locant.training.trained_parts import LoraSettings, add_adapters, freeze, merged_weights

pytest.importorskip("peft")


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 30, (2, 6), generator=draw)
    return ids, torch.tensor([6, 4]), ids.flip(0)


@pytest.mark.parametrize("changes", [{}, {"tie_output": True, "norm": "pre", "feed_forward": "swiglu"}], ids=str)
def test_adapters_begin_at_nothing_and_are_added_to_the_weights_in_the_end(changes):
    model = tiny_model(30, **changes)
    before = model(*batch())
    settings = LoraSettings(rank=3, alpha=6)
    plain = {name: parameter.clone() for name, parameter in model.named_parameters()}
    add_adapters(model, settings, seed=1)
    torch.testing.assert_close(model.eval()(*batch()), before)

    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    assert all("lora_" in name for name in trained)
    # Query, key and value are one map, so are key and value of the source: 7 maps a decoder layer, 4 an encoder layer.
    assert len(trained) == 2 * (4 + 2 * 7)
    with torch.no_grad():
        for one in trained.values():
            one.add_(0.3 * torch.randn_like(one))
    expected = model(*batch())
    assert (expected - before).abs().max() > 0.1

    weights = dict(model.named_parameters())
    merged = merged_weights(model.config, settings, weights)
    assert merged.keys() == plain.keys()
    result = build_model(model.config).eval()
    result.load_state_dict(merged, strict=False)
    torch.testing.assert_close(result(*batch()), expected, atol=1e-4, rtol=1e-4)
    name = "decoder.layers.0.cross_attention.key_value"
    low, high = weights[f"{name}.lora_A.default.weight"], weights[f"{name}.lora_B.default.weight"]
    torch.testing.assert_close(merged[f"{name}.weight"], plain[f"{name}.weight"] + 6 / 3 * high @ low)


def test_adapters_go_where_weights_are_trained():
    model = tiny_model(30)
    freeze(model, ["encoder", "decoder.layers.0"])
    add_adapters(model, LoraSettings(target_modules=("cross_attention.query", "feed_forward")), 1)
    adapted = {name.rpartition(".lora_A")[0] for name, _ in model.named_parameters() if "lora_A" in name}
    assert adapted == {
        "decoder.layers.1.cross_attention.query",
        "decoder.layers.1.feed_forward.inner",
        "decoder.layers.1.feed_forward.outer",
    }


def test_what_cannot_be_adapted_is_said(monkeypatch):
    with pytest.raises(ConfigError, match=r"names 'q_proj'.*Known: .*query_key_value"):
        add_adapters(tiny_model(30), LoraSettings(target_modules=("q_proj",)), 1)
    frozen = tiny_model(30)
    freeze(frozen, ["encoder", "decoder"])
    with pytest.raises(ConfigError, match=r"frozen by finetuning\.freeze"):
        add_adapters(frozen, LoraSettings(), 1)
    recurrent = build_model(RNNConfig(source_vocab_size=20, target_vocab_size=20, d_model=8, hidden_size=8))
    with pytest.raises(ConfigError, match="LoRA needs a Transformer"):
        add_adapters(recurrent, LoraSettings(), 1)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"'peft'.*locant\[finetune\]"):
        add_adapters(tiny_model(30), LoraSettings(), 1)
