"""The optimiser of the lab, against the formulas of the setting that its defaults repeat."""

import math

import pytest
import torch

from locant.lab import Budget, build_task
from locant.lab.language_modelling import CharacterTask
from locant.lab.training import OptimiserSettings, train_language_model
from locant.models import LanguageModel, LanguageModelConfig
from locant.training import LanguageModelBatch

MODEL = LanguageModelConfig(
    vocab_size=9,
    layers=1,
    d_model=8,
    d_ff=8,
    heads=2,
    position="learned",
    position_options={"max_positions": 6},
)


def test_updates_are_those_of_a_loop_written_by_hand() -> None:
    """Weights after some updates, and the loss of the last one, against the same formulas in plain PyTorch."""
    torch.manual_seed(1)
    ids = torch.randint(1, 9, (3, 2, 6))
    ids[1, :, 4:] = 0  # padding
    optimiser = OptimiserSettings(
        learning_rate=0.01, warmup_steps=1, lowest_share=0.1, max_grad_norm=0.1, weight_decay=0.1
    )
    model, plain = LanguageModel(MODEL), LanguageModel(MODEL)
    plain.load_state_dict(model.state_dict())
    batches = [LanguageModelBatch(rows[:, :-1], rows[:, 1:], int((rows[:, :-1] != 0).sum())) for rows in ids]
    result = train_language_model(model, iter(batches), Budget(steps=3), optimiser, lambda _: None)

    decayed = [one for one in plain.parameters() if one.dim() > 1]
    others = [one for one in plain.parameters() if one.dim() <= 1]
    adam = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    for step, rows in enumerate(ids, start=1):
        for group in adam.param_groups:
            # nanoGPT's: min_lr + coefficient * (learning_rate - min_lr), after the warm-up
            group["lr"] = 0.001 + 0.5 * (1 + math.cos(math.pi * (step - 1) / (3 - 1))) * (0.01 - 0.001)
        loss = torch.nn.functional.cross_entropy(
            plain(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=0
        )
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        adam.step()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        if name.endswith("query_key_value.bias"):
            continue  # a bias of the keys changes no attention: its gradient is nothing but rounding
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=name)
    assert result["training_loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert (result["steps"], result["tokens"]) == (3, 10 + 8 + 10)


def test_the_defaults_are_nanogpts_small_setting() -> None:
    """Its README: 4 layers, 4 heads, width 128, 64 characters, no dropout; train.py the rest, and its learning rate."""
    task = build_task("language-modelling")
    assert isinstance(task, CharacterTask)
    model, optimiser = task.model, task.optimiser
    assert (model.layers, model.heads, model.d_model, model.d_ff, model.dropout) == (4, 4, 128, 4 * 128, 0.0)
    assert (task.train_length, task.batch) == (64, 12)
    assert (optimiser.beta2, optimiser.weight_decay, optimiser.max_grad_norm) == (0.99, 0.1, 1.0)
