"""Training of extended models: what is learnt, what is saved, and going on after an interruption."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import save_model, save_tokenizer

from locant.errors import CheckpointError, ConfigError, DataError, MissingExtraError, TrainingError, UsageError
from locant.extension import evaluate_context
from locant.extension.evaluate.perplexity import next_token_loss
from locant.extension.extend.extend import extend_model
from locant.extension.extend.finetune import FineTuning, FineTuningStep

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = save_model(tmp_path / "model", "llama")
    save_tokenizer(folder)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("abc " * 200)
    return path


def settings(text: Path, **options: Any) -> FineTuning:
    return FineTuning(**({"texts": (text,), "steps": 6, "length": 96, "rank": 4, "learning_rate": 0.02} | options))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_the_model_learns_and_is_saved_whole(model: Path, text: Path, tmp_path: Path, kind: str) -> None:
    steps: list[FineTuningStep] = []
    chosen = settings(text, kind=kind, steps=30)
    extended = extend_model(model, tmp_path / "out", 160, finetuning=chosen, on_step=steps.append)
    assert [each.step for each in steps] == list(range(1, 31))
    assert steps[-1].loss < 0.6 * steps[0].loss
    # The saved folder in plain transformers has what was learnt.
    saved = transformers.AutoModelForCausalLM.from_pretrained(extended.path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(extended.path)
    tokens = torch.tensor([tokenizer("abc " * 40)["input_ids"]])
    with torch.no_grad():
        loss = saved(tokens, labels=tokens).loss.item()
    assert loss < steps[-1].loss * 1.1
    assert saved.config.rope_parameters["factor"] == 2.5
    assert not list(extended.path.glob("adapter*"))
    assert "was trained on" in (extended.path / "README.md").read_text()
    assert json.loads((extended.path / "config.json").read_text())["locant_extension"]["finetuned"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "out", "text.txt"]


class StopError(Exception):
    pass


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_going_on_is_as_if_nothing_had_happened(model: Path, text: Path, tmp_path: Path, kind: str) -> None:
    chosen = settings(text, kind=kind, save_every=2)
    through: list[FineTuningStep] = []
    extend_model(model, tmp_path / "through", 160, finetuning=chosen, on_step=through.append)

    def stop(step: FineTuningStep) -> None:
        if step.step == 5:
            raise StopError

    with pytest.raises(StopError):
        extend_model(model, tmp_path / "resumed", 160, finetuning=chosen, on_step=stop)
    saved = [each.name for each in (tmp_path / "resumed.training" / "checkpoints").iterdir()]
    assert sorted(saved) == ["step-00000002", "step-00000004"]
    rest: list[FineTuningStep] = []
    extend_model(model, tmp_path / "resumed", 160, finetuning=chosen, on_step=rest.append)
    assert rest == through[4:]
    first, second = weights(tmp_path / "through"), weights(tmp_path / "resumed")
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not (tmp_path / "resumed.training").exists()


def test_the_state_of_another_training(model: Path, text: Path, tmp_path: Path) -> None:
    def stop(step: FineTuningStep) -> None:
        if step.step == 3:
            raise StopError

    with pytest.raises(StopError):
        extend_model(model, tmp_path / "out", 160, finetuning=settings(text, save_every=1), on_step=stop)
    with pytest.raises(CheckpointError):
        extend_model(model, tmp_path / "out", 160, method="linear", finetuning=settings(text))
    for state in (tmp_path / "out.training" / "checkpoints").glob("*/weights.safetensors"):
        state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(CheckpointError):
        extend_model(model, tmp_path / "out", 160, finetuning=settings(text))


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "cohere"])
def test_the_loss_is_that_of_transformers(tmp_path: Path, family: str) -> None:
    folder = save_model(tmp_path / "model", family)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    if family == "gemma2":
        assert model.config.final_logit_softcapping, "a cap behind the output layer"
    tokens = torch.randint(3, 64, (1, 60), generator=torch.Generator().manual_seed(0))
    ours, theirs = next_token_loss(model, tokens), model(tokens, labels=tokens).loss
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    weight = model.get_input_embeddings().weight
    (gradient,) = torch.autograd.grad(ours, weight)
    (expected,) = torch.autograd.grad(theirs, weight)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_trained(model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError):
        extend_model(model, out, 160, finetuning=settings(text, length=200))
    with pytest.raises(DataError):
        extend_model(model, out, 160, finetuning=settings(tmp_path / "nothing"))
    (tmp_path / "short").write_text("abc")
    with pytest.raises(DataError):
        extend_model(model, out, 160, finetuning=settings(tmp_path / "short"))
    with pytest.raises(TrainingError):
        extend_model(model, out, 160, finetuning=settings(text, learning_rate=1e30, kind="full"))
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError):
        extend_model(model, out, 160, finetuning=settings(text))
    assert not out.exists()


def test_drope_trains_at_the_old_length_and_leaves_no_positions(model: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="finetune"):
        extend_model(model, tmp_path / "out", 160, method="drope")
    steps: list[FineTuningStep] = []
    chosen = settings(text, length=None, kind="full", steps=30)
    extended = extend_model(model, tmp_path / "out", 160, method="drope", finetuning=chosen, on_step=steps.append)
    assert steps[-1].loss < 0.6 * steps[0].loss
    assert "30 steps of 64 tokens" in extended.report.training
    saved = transformers.AutoModelForCausalLM.from_pretrained(extended.path).eval()
    tokens = torch.randint(3, 64, (2, 160), generator=torch.Generator().manual_seed(1))
    shuffled = torch.randperm(160, generator=torch.Generator().manual_seed(2)).expand(2, -1)
    with torch.no_grad():
        # Positions of one text: a jump to a lower one would be taken for the next text of a packed row.
        mask = torch.ones_like(tokens)
        found = [saved(tokens, attention_mask=mask, position_ids=at).logits for at in (None, shuffled, shuffled * 4)]
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=1e-5)
    results = evaluate_context(
        extended.path, tmp_path / "context", texts=[text], lengths=[64, 128], perplexity={"last": 16}, documents=1
    )
    assert all(row["perplexity"] < 10 for row in results["perplexity"])


def test_two_do_not_train_the_same(model: Path, text: Path, tmp_path: Path) -> None:
    said: list[str] = []

    def again(step: FineTuningStep) -> None:
        with pytest.raises(CheckpointError) as error:
            extend_model(model, tmp_path / "out", 160, finetuning=settings(text))
        said.append(str(error.value))

    extend_model(model, tmp_path / "out", 160, finetuning=settings(text, steps=1), on_step=again)
    assert "out.training is in use: process" in said[0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "out", "text.txt"]
