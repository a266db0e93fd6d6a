"""Optimisers by name: against PyTorch's own and the definitions in the papers; what a checkpoint keeps of them."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from processes import run_processes
from safetensors.torch import load_file
from tiny_models import tiny_model
from torch import nn

from locant.training import TrainingCallback, TrainingSettings, resume_training, train
from locant.training.optimizers import Muon, WeightAverage, build_optimizer, orthogonalized


@pytest.mark.parametrize("shape", [(12, 12), (24, 8), (8, 24)])
def test_newton_schulz_moves_singular_values_to_about_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalized(torch.randn(3, *shape)))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_muon_equals_pytorchs():
    """PyTorch's iterates in bfloat16, so the two agree to its precision."""
    torch.manual_seed(1)
    start = [torch.randn(6, 6), torch.randn(10, 4), torch.randn(6, 6)]
    ours, theirs = ([nn.Parameter(tensor.clone()) for tensor in start] for _ in range(2))
    mine = Muon([{"params": ours}], lr=0.1, weight_decay=0.1)
    peer = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        mine.step()
        peer.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        moved = (other - before).norm()
        assert (one - other).norm() < 0.03 * moved


def test_stacked_matrices_are_orthogonalised_each_for_itself():
    torch.manual_seed(2)
    whole = nn.Parameter(torch.zeros(12, 4))
    parts = [nn.Parameter(torch.zeros(height, 4)) for height in (6, 4, 2)]
    whole.grad = torch.randn(12, 4)
    for part, gradient in zip(parts, whole.grad.split((6, 4, 2)), strict=True):
        part.grad = gradient
    Muon([{"params": [whole], "heights": (6, 4, 2)}], lr=0.1).step()
    Muon([{"params": parts}], lr=0.1).step()
    torch.testing.assert_close(whole, torch.cat(list(parts)))


def test_muon_takes_matrices_of_hidden_layers_and_adamw_the_rest():
    model = tiny_model(20, position="t5", kv_heads=1)
    muon, adamw = build_optimizer(model, TrainingSettings(optimizer="muon")).optimizers
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    mine = {names[id(parameter)] for group in muon.param_groups for parameter in group["params"]}
    rest = {names[id(parameter)] for group in adamw.param_groups for parameter in group["params"]}
    assert mine | rest == set(names.values())
    assert not mine & rest
    assert all(name.endswith(".weight") and "norm" not in name and "embedding" not in name for name in mine)
    assert "output.weight" in rest
    assert "encoder.layers.0.self_attention.query_key_value.weight" in mine
    half = model.config.d_model // model.config.heads
    queries = model.config.d_model
    assert {group["heights"] for group in muon.param_groups} == {(), (half, half), (queries, half, half)}


def test_frozen_weights_are_left_out_and_groups_scale_the_rate():
    model = tiny_model(20)
    model.target_embedding.weight.requires_grad_(False)
    optimizer = build_optimizer(model, TrainingSettings())
    assert all(parameter.requires_grad for group in optimizer.param_groups for parameter in group["params"])
    optimizer.param_groups[0]["lr_scale"] = 0.5
    optimizer.set_learning_rate(0.01)
    assert optimizer.param_groups[0]["lr"] == 0.005


def test_the_average_of_weights_follows_its_definition():
    parameter = nn.Parameter(torch.tensor([1.0]))
    average, expected = WeightAverage([("p", parameter)], 0.5), 1.0
    for step, value in enumerate((3.0, 5.0, 2.0, 8.0), start=1):
        parameter.data.fill_(value)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert average.tensors["p"].item() == pytest.approx(expected, rel=1e-6)


class StopAt(TrainingCallback):
    """Ends a training in the middle, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, done, report):
        if report and report.step == self.step:
            raise KeyboardInterrupt


def curve(run: Path) -> list[tuple[float, ...]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows if row["kind"] in ("training", "validation")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "muon", "weight_decay": 0.01},
        {"optimizer": "schedule_free", "schedule": "constant"},
        {"ema_decay": 0.9},
        {"r_drop": 2.0, "gradient_accumulation_steps": 3},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_interrupted_run_resumes_exactly(recipe_data, tmp_path, changes):
    changes = {**changes, "steps": 24, "validate_every": 8}
    train(recipe_data, tmp_path / "whole", training=changes)
    with pytest.raises(KeyboardInterrupt):
        train(recipe_data, tmp_path / "run", callback=StopAt(13), training=changes)
    resume_training(tmp_path / "run")
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")
    ours, theirs = (load_file(tmp_path / run / "model.safetensors") for run in ("run", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    first, *_, last = [loss for _, loss in curve(tmp_path / "whole")]
    assert last < 0.95 * first


def test_two_processes_with_each_optimiser(recipe_data, tmp_path):
    """The losses of one process, DDP or FSDP; Muon says that it needs whole matrices."""
    common = {"steps": 6, "validate_every": 3, "ema_decay": 0.9}
    data = {**recipe_data, "model": {**recipe_data["model"], "dropout": 0.0}}
    for optimizer, mode in (("muon", "ddp"), ("schedule_free", "fsdp")):
        training = {**data["training"], **common, "optimizer": optimizer, "schedule": "constant"}
        run = tmp_path / optimizer
        train({**data, "training": training}, run)
        recipe = tmp_path / f"{optimizer}.yaml"
        recipe.write_text(yaml.safe_dump({**data, "training": {**training, "parallel": mode}}))
        run_processes(["train", recipe, "--output", tmp_path / mode], tmp_path)
        one, two = curve(run), curve(tmp_path / mode)
        assert [step for step, _ in one] == [step for step, _ in two]
        assert [loss for _, loss in two] == pytest.approx([loss for _, loss in one], rel=1e-4)


@pytest.mark.parametrize("name", ["adamw", "muon", "schedule_free"])
def test_what_is_restored_lies_where_its_weights_are(name):
    """Counters too: a fused AdamW refuses them elsewhere. The device without memory is in the place of a GPU."""
    if name == "schedule_free":
        pytest.importorskip("schedulefree")
    model = tiny_model(12)
    settings = TrainingSettings(steps=1, optimizer=name)
    used = build_optimizer(model, settings)
    used.set_learning_rate(0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    used.step()
    states = [used.state(parameter) for parameter in model.parameters()]
    assert any(states)
    elsewhere = model.to("meta")
    restored = build_optimizer(elsewhere, settings)
    for parameter, state in zip(elsewhere.parameters(), states, strict=True):
        restored.restore(parameter, {kind: torch.zeros(value.shape) for kind, value in state.items()})
        assert {value.device.type for value in restored.state(parameter).values()} <= {"meta"}
