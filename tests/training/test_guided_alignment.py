"""A head that learns which words belong together."""

import json
import sys

import pytest
import torch
from aligner import put_aligner

from locant.errors import ConfigError, MissingExtraError
from locant.models import Transformer, TransformerConfig
from locant.text import Batch
from locant.training import Recipe, resume_training, train
from locant.training.losses import TranslatorLoss, alignment_loss
from locant.training.recipe import apply_overrides
from locant.translation import Translator

SHAPE = {"d_model": 32, "d_ff": 32, "heads": 2, "encoder_layers": 1, "dropout": 0.0}


def model_of(layers, **fields):
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(source_vocab_size=30, target_vocab_size=30, decoder_layers=layers, **SHAPE, **fields)
    )


def batch_of(rows=4, length=6):
    """A batch with a link of each target token to the source token at the mirrored place; rows grow shorter."""
    lengths = torch.arange(length, length - rows, -1)
    source = torch.randint(4, 30, (rows, length)).masked_fill(torch.arange(length) >= lengths[:, None], 0)
    target_input = torch.cat((torch.full((rows, 1), 2), source[:, :-1]), dim=1)
    links = [(row, place, int(lengths[row]) - place) for row in range(rows) for place in range(1, int(lengths[row]))]
    return Batch(source, lengths, target_input, source, lengths, 0, int(lengths.sum()), torch.tensor(links))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_head_is_the_first_of_the_last_layer_but_one(layers, norm):
    model, batch = model_of(layers, norm=norm, alignment_head=True).eval(), batch_of()
    given = batch.source, batch.source_lengths, batch.target_input
    hidden, log_weights = model.hidden_and_alignment(*given)
    assert torch.equal(hidden, model.hidden(*given))
    layer = max(0, layers - 2)
    cache = model.start(model.encode(*given[:2]), batch.source_lengths)
    heads = model.decoder.cross_attention_weights(model._embed_target(batch.target_input), cache, layer)
    torch.testing.assert_close(log_weights.exp(), heads[:, 0], rtol=1e-5, atol=1e-6)
    assert model.alignment_attention == (layer, "reads")
    assert torch.equal(model.alignment_weights(*given), heads[:, 0])
    assert torch.equal(model.alignment_weights(*given, layer=layers - 1, step="reads"), heads[:, 0]) == (layers == 1)


def test_the_loss_is_the_mean_over_the_links_of_each_target_token():
    weights = torch.rand(2, 3, 4).log_softmax(-1)
    links = torch.tensor([(0, 1, 2), (0, 1, 3), (1, 2, 0)])
    expected = -(weights[0, 1, 2] + weights[0, 1, 3]) / 2 - weights[1, 2, 0]
    torch.testing.assert_close(alignment_loss(weights, links), expected)
    assert alignment_loss(weights, links[:0]) == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_the_head_learns_the_links_it_is_shown(r_drop):
    model, batch = model_of(2, alignment_head=True), batch_of(rows=8, length=10)
    loss = TranslatorLoss(model, 0.1, torch.float32, r_drop=r_drop, guided_alignment=0.5)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(120):
        optimizer.zero_grad()
        loss(batch)[0].div(batch.target_tokens).backward()
        optimizer.step()
    row, target, source = batch.links.unbind(1)
    model.eval()
    weights = model.alignment_weights(batch.source, batch.source_lengths, batch.target_input)
    assert (weights[row, target].argmax(-1) == source).double().mean() > 0.9
    # Validation is of translation alone.
    assert loss.eval()(batch)[0] == TranslatorLoss(model, 0.1, torch.float32)(batch)[0]


def test_a_run_aligns_its_text_and_goes_on(recipe_data, tmp_path, monkeypatch):
    aligner = put_aligner(tmp_path, monkeypatch)
    steps = ["training.steps=4", "training.validate_every=2", "training.guided_alignment=0.05"]
    changed = Recipe.parse(apply_overrides(recipe_data, steps))
    train(changed, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"]["alignment_head"] is True
    assert (tmp_path / "run" / "cache" / "links" / "links.npy").is_file()
    (found,) = Translator.from_pretrained(tmp_path / "run").align(["one two"], ["eins zwei"])
    assert found.source_words == ("one", "two")
    plain = Recipe.parse(apply_overrides(recipe_data, steps[:2]))
    train(plain, tmp_path / "plain")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "plain")]
    assert weights[0] != weights[1]
    aligner.unlink()  # what was aligned once is not aligned again
    resume_training(tmp_path / "run", training={"steps": 6})


def test_bad_input_is_refused_before_work_starts(recipe_data, tmp_path, monkeypatch):
    guided = ["training.guided_alignment=0.05"]
    with pytest.raises(ConfigError, match=r"tokenizer\.sampling changes them"):
        Recipe.parse(apply_overrides(recipe_data, [*guided, "tokenizer.sampling=0.1"]))
    with pytest.raises(ConfigError, match="leave it out for architecture rnn"):
        Recipe.parse({**apply_overrides(recipe_data, guided), "model": {"architecture": "rnn"}})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="Guided alignment needs the package 'eflomal'"):
        train(Recipe.parse(apply_overrides(recipe_data, guided)), tmp_path / "run")
