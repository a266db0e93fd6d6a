"""Training on short questions: what is learned from, and what counts as right."""

from pathlib import Path
from typing import Any

import pytest
import torch

from locant.errors import ConfigError
from locant.lab import Budget, Trial, build_task
from locant.lab.length_generalisation import ANSWER, END, START, LengthGeneralisationTask
from locant.lab.training import train_language_model
from locant.lab.variants import build_fairly
from locant.models import LanguageModel
from locant.text import PAD

TINY = {"layers": 1, "d_model": 32, "d_ff": 32, "heads": 2}


def task(name: str = "copy", **options: Any) -> LengthGeneralisationTask:
    found = build_task(name, {"model": TINY, "train_length": 2, "test_examples": 40, **options})
    assert isinstance(found, LengthGeneralisationTask)
    return found


def trial(variant: str, steps: int, tmp_path: Path, seed: int = 1) -> Trial:
    return Trial(variant, seed, Budget(steps=steps), torch.device("cpu"), tmp_path, lambda _: None)


def test_only_answers_are_learned() -> None:
    batch = next(task("addition").training_batches(1, 100))
    for ids, labels in zip(batch.ids.tolist(), batch.labels.tolist(), strict=True):
        row = [*(number for number in ids if number not in (PAD, END)), END]
        assert row[0] == START
        start = row.index(ANSWER)
        assert labels[:start] == [PAD] * start
        assert [label for label in labels if label != PAD] == row[start + 1 :]
    assert batch.tokens == int((batch.ids != PAD).sum()) - int((batch.ids == END).sum())


def greedy(model: LanguageModel, row: list[int], most: int) -> list[int]:
    """Decode token by token with a cache."""
    cache, answer = model.start(), list[int]()
    logits = model.step(torch.tensor([row]), cache)
    while len(answer) < most:
        answer.append(int(logits[0, -1].argmax()))
        if answer[-1] == END:
            break
        logits = model.step(torch.tensor([[answer[-1]]]), cache)
    return answer


def test_right_answers_are_those_of_greedy_decoding() -> None:
    copying = task("copy", train_length=3, optimiser={"learning_rate": 0.01, "warmup_steps": 10})
    model = build_fairly(
        LanguageModel, copying.model.config("rotary", copying.vocabulary_size, trained=9, longest=9), 1
    )
    train_language_model(model, copying.training_batches(1, 9), Budget(steps=150), copying.optimiser, lambda _: None)
    model.eval()
    shares = []
    for length in (1, 2, 4):
        batches = copying.test_batches(1, length)
        right = 0
        with torch.no_grad():
            for ids, labels in zip(batches[0].ids.tolist(), batches[0].labels.tolist(), strict=True):
                wanted = [label for label in labels if label != PAD]
                right += greedy(model, ids[: ids.index(ANSWER) + 1], len(wanted)) == wanted
        shares.append(100 * right / 40)
        assert copying.measure(model, length, batches).value == pytest.approx(shares[-1])
    assert max(shares) > 20, "the model must have learned something, or nothing was compared"
    assert min(shares) < 90


def test_the_numbers_of_a_whole_trial(tmp_path: Path) -> None:
    outcome = task(test_lengths=[1, 3]).run(trial("learned", 3, tmp_path))
    # Tokens of the longest training sequence that are read: start, two letters, the mark, two letters.
    assert outcome.scheme_parameters == 6 * 32
    assert outcome.steps == 3
    assert [(m.length, m.split) for m in outcome.measurements] == [(1, "seen"), (3, "unseen")]
    assert outcome.measurements[0].value is not None
    assert outcome.measurements[1].value is None
    assert "8 tokens" in outcome.measurements[1].reason


def test_data_depend_on_the_seed_and_not_on_the_variant(tmp_path: Path) -> None:
    one = task(test_lengths=[1])
    found = [one.run(trial(name, 1, tmp_path)) for name in ("none", "t5", "learned")]
    assert len({(each.first_batch, each.initial_weights) for each in found}) == 1
    assert len({each.parameters - each.scheme_parameters for each in found}) == 1
    assert len({each.parameters for each in found}) == 3
    assert one.run(trial("none", 1, tmp_path, seed=2)).first_batch != found[0].first_batch


def test_lengths_that_cannot_be() -> None:
    task("chains", train_length=26).check()
    with pytest.raises(ConfigError, match="chains"):
        task("chains", train_length=30).check()
    with pytest.raises(ConfigError, match="test_lengths"):
        task(test_lengths=[0, 1])
