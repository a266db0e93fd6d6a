"""Whole runs on mixtures of a toy corpus."""

from __future__ import annotations

import json

import pytest

from locant.cli import main
from locant.errors import ConfigError
from locant.training import Recipe, evaluate, load_run_evaluation, train


def mixed(recipe_data: dict, **more) -> dict:
    """The recipe with a mixture of its corpus and of its test as training text, both with a test."""
    corpus = recipe_data["corpus"]
    small = {**corpus, "train": corpus["test"], "valid": None, "test": corpus["valid"]}
    sources = {"clean": {"weight": 1, "corpus": corpus}, "small": {"weight": 10, "corpus": small}}
    return {**recipe_data, "corpus": {"kind": "mixture", "sources": sources, **more}}


def test_a_mixture_is_trained_reported_and_evaluated_by_part(recipe_data, tmp_path, capsys):
    run = tmp_path / "run"
    train(Recipe.parse(mixed(recipe_data)), run)
    data = json.loads((run / "data.json").read_text())
    assert [part["name"] for part in data["parts"]] == ["clean", "small"]
    assert [part["cleaning"]["kept"] for part in data["parts"]] == [600, 30]
    assert [part["share"] for part in data["parts"]] == pytest.approx([600 / 900, 300 / 900])
    assert (data["train_pairs"], data["valid_pairs"], data["test_pairs"]) == (630, 40, 70)
    assert data["train_tokens"]["target"] == sum(part["train_tokens"]["target"] for part in data["parts"])

    result = evaluate(run)
    assert len(result.hypotheses) == 70
    assert list(result.parts) == ["clean", "small"]
    one, other = evaluate(run, part="clean"), evaluate(run, part="small")
    assert result.hypotheses == one.hypotheses + other.hypotheses
    assert (result.parts["clean"].scores, result.parts["small"].scores) == (one.scores, other.scores)
    assert one.name == "clean, test split"
    assert load_run_evaluation(run) == result
    with pytest.raises(ConfigError, match=r"has no part 'smal'. Did you mean 'small'\?"):
        evaluate(run, part="smal")
    assert main(["evaluate", str(run), "--part", "small", "--beam", "1"]) == 0
    assert "small, test split: 40 sentences" in capsys.readouterr().out
