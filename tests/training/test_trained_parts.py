import pytest
import torch
from tiny_models import tiny_model

from locant.errors import ConfigError
from locant.training.trained_parts import freeze, learning_rate_scales, part_parameters


def trained(model: torch.nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("tied", [True, False])
def test_frozen_parts_get_no_gradients(tied):
    model = tiny_model(20, tie_output=tied)
    freeze(model, ["embeddings", "encoder"])
    left = trained(model)
    assert left == {
        name for name, _ in model.named_parameters() if name.startswith("decoder") or (name == "output.weight")
    }
    ids = torch.randint(4, 20, (2, 5))
    model(ids, torch.tensor([5, 5]), ids).sum().backward()
    assert {name for name, one in model.named_parameters() if one.grad is not None} == left


def test_all_but_norms_can_be_frozen():
    model = tiny_model(20, norm="pre")
    freeze(model, [], ["norms"])
    assert trained(model) == {name for name, _ in model.named_parameters() if ".norm." in name or "norm." in name}
    freeze(model, ["decoder"], ["norms", "biases"])
    assert trained(model) == {
        name
        for name, _ in model.named_parameters()
        if name.startswith("encoder") and ("norm" in name or name.endswith("bias"))
    }


def test_parts_are_modules_one_below_the_other():
    model = tiny_model(20)
    assert part_parameters(model, "decoder.layers.1.cross_attention.query") == {
        "decoder.layers.1.cross_attention.query.weight",
        "decoder.layers.1.cross_attention.query.bias",
    }
    assert len(part_parameters(model, "cross_attention.query")) == 4
    assert part_parameters(tiny_model(20, position="learned", position_options={"max_positions": 9}), "positions") == {
        "encoder.schemes.0.weight",
        "decoder.schemes.0.weight",
    }


def test_unknown_parts_and_nothing_to_train_are_errors():
    model = tiny_model(20)
    with pytest.raises(ConfigError, match=r"no part 'encodr'.*Did you mean 'encoder'.*embeddings.*cross_attention"):
        freeze(model, ["encodr"])
    with pytest.raises(ConfigError, match=r"no part 'encoder\.layers\.7'.*Did you mean 'encoder\.layers\.\d'\?"):
        freeze(model, ["encoder.layers.7"])
    with pytest.raises(ConfigError, match=r"Nothing is left to train.*encoder, decoder, embeddings, output"):
        freeze(model, ["encoder", "decoder", "embeddings", "output"])
    with pytest.raises(ConfigError, match=r"no weights of 'positions' \(what a positional scheme learns\); leave"):
        freeze(model, ["positions"])
    with pytest.raises(ConfigError, match="Did you mean 'positions'") as refused:
        freeze(tiny_model(20, position="learned", position_options={"max_positions": 9}), ["position"])
    assert "encoder.layers.0" in str(refused.value)


def test_each_layer_learns_more_slowly_than_the_one_above():
    scales = learning_rate_scales(tiny_model(20, encoder_layers=3, decoder_layers=2), 0.5)
    assert scales["encoder.layers.2.feed_forward.inner.weight"] == 1.0
    assert scales["encoder.layers.1.feed_forward.inner.weight"] == 0.5
    assert scales["encoder.layers.0.self_attention.output.bias"] == 0.25
    assert scales["decoder.layers.1.cross_attention.query.weight"] == 1.0
    assert scales["decoder.layers.0.cross_attention.query.weight"] == 0.5
    assert scales["target_embedding.weight"] == 0.125
    assert scales["output.weight"] == 1.0
    assert set(learning_rate_scales(tiny_model(20), 1.0).values()) == {1.0}
