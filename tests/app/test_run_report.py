"""What the report of a run says at its top, and to try next."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from locant.app.run_report import next_steps, verdict
from locant.training import Recipe

EVALUATION: Any = SimpleNamespace(sources=['He said "no" to it.'], languages={})


@pytest.mark.parametrize(
    ("training", "longer"),
    [
        ({"steps": 40}, "training.steps=80"),
        ({"minutes": 2.5}, "training.minutes=5.0"),
        ({"steps": 40, "minutes": 60}, "training.steps=80 training.minutes=120.0"),
        ({}, "training.steps=200000"),
    ],
)
def test_a_run_is_trained_for_as_long_again(training: dict[str, float], longer: str) -> None:
    text = {"kind": "tsv", "train": "a.tsv"}
    lines = next_steps(Path("my runs/a"), Recipe.parse({"corpus": text, "training": training}), EVALUATION).splitlines()
    assert lines[0] == "locant translate 'my runs/a' 'He said \"no\" to it.'"
    assert lines[1] == f"locant train --resume 'my runs/a' {longer}"


def test_a_sentence_that_looks_like_an_option_is_none() -> None:
    evaluation: Any = SimpleNamespace(sources=["-Yes."], languages={"target": "fr"})
    recipe = Recipe.parse({"corpus": {"kind": "tsv", "train": "a.tsv"}})
    assert next_steps(Path("a"), recipe, evaluation).startswith("locant translate a --target-language fr -- -Yes.\n")


@pytest.mark.parametrize(
    ("bleu", "losses", "said"),
    [
        (2.0, [3.0, 2.0], "Train longer"),  # copying the source scores more
        (35.0, [3.0, 2.0, 1.9], "training longer"),
        (35.0, [3.0, 2.0, 2.1], "more text"),
        (35.0, [3.0, 2.0, 1.999], "larger model"),
        (35.0, [3.0], "training longer"),
    ],
)
def test_the_verdict_says_what_would_help(bleu: float, losses: list[float], said: str) -> None:
    evaluation: Any = SimpleNamespace(scores=SimpleNamespace(bleu=bleu), copy_scores=SimpleNamespace(bleu=5.0))
    assert said in verdict([{"kind": "validation", "loss": loss} for loss in losses], evaluation)
