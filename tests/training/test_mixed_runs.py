"""Whole runs on mixtures of a toy corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from processes import run_processes
from safetensors.torch import load_file

from locant.cli import main
from locant.errors import ConfigError
from locant.training import (
    Recipe,
    TrainingCallback,
    evaluate,
    load_run_evaluation,
    read_metrics,
    resume_training,
    train,
)


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
    assert [part["shares"] for part in data["parts"]] == [[pytest.approx(600 / 900)], [pytest.approx(300 / 900)]]
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


class Stop(TrainingCallback):
    """Ends a run as Ctrl-C does, after a validation."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_validation(self, report):
        if report.step == self._step:
            raise KeyboardInterrupt


STAGES = [{"until": 0.6}, {"sources": ["small"]}]


def rows_of(run: Path, kind: str) -> list[dict]:
    timed = {"seconds", "tokens_per_second"}
    return [
        {key: value for key, value in row.items() if key not in timed}
        for row in read_metrics(run)
        if row["kind"] == kind
    ]


def test_stages_follow_the_share_of_the_budget_and_resume_exactly(recipe_data, tmp_path):
    data = mixed(recipe_data, stages=STAGES)
    data["corpus"]["sources"]["clean"]["noise"] = {"typos": 0.5}
    data["training"] = {**data["training"], "steps": 20, "validate_every": 4}
    whole = tmp_path / "whole"
    train(Recipe.parse(data), whole)
    (began,) = rows_of(whole, "stage")
    assert (began["step"], began["stage"]) == (13, 2)
    epochs = {row["step"]: row["epoch"] for row in rows_of(whole, "training")}
    assert epochs[13] == began["epoch"] == epochs[12] + 1
    assert [part["shares"][1] for part in json.loads((whole / "data.json").read_text())["parts"]] == [0, 1]

    # Stopped in each of the stages, and where one begins.
    for stop in (4, 12, 16):
        run = tmp_path / f"stopped at {stop}"
        with pytest.raises(KeyboardInterrupt):
            train(Recipe.parse(data), run, callback=Stop(stop))
        resume_training(run)
        for kind in ("training", "validation", "stage"):
            assert rows_of(run, kind) == rows_of(whole, kind)
        ours, theirs = load_file(run / "model.safetensors"), load_file(whole / "model.safetensors")
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_resumed_run_goes_back_to_no_stage_and_keeps_those_begun(recipe_data, tmp_path):
    data = mixed(recipe_data, stages=STAGES)
    data["training"] = {**data["training"], "steps": 10}
    run = tmp_path / "run"
    train(Recipe.parse(data), run)
    resume_training(run, ["training.steps=30"])
    assert [row["step"] for row in rows_of(run, "stage")] == [7]
    with pytest.raises(ConfigError, match=r"in stage 2 of its corpus, but corpus\.stages has 0 now"):
        resume_training(run, ["training.steps=40", "corpus.stages=[]"])


def test_what_cannot_be_is_said_before_work_starts(recipe_data, tmp_path):
    with pytest.raises(ConfigError, match=r"begins after 30 updates, but training\.steps is 30"):
        Recipe.parse(mixed(recipe_data, stages=[{"until": 30}, {}]))
    data = mixed(recipe_data)
    data["corpus"]["sources"]["small"]["noise"] = {"title_case": 0.1}
    data["tokenizer"] = {"vocab_size": 34, "lowercase": True}
    with pytest.raises(ConfigError, match=r"corpus\.sources\.small\.noise changes the case of text"):
        Recipe.parse(data)
    assert not list(tmp_path.iterdir())


def test_two_processes_draw_the_text_of_one(recipe_data, tmp_path):
    data = mixed(recipe_data, stages=STAGES)
    data["corpus"]["sources"]["small"] |= {"tag": "<bt>", "noise": {"typos": 0.5}}
    data["tokenizer"] = {"vocab_size": 35}
    data["model"] = {**data["model"], "dropout": 0}
    data["training"] = {**data["training"], "steps": 10, "validate_every": 5}
    train(Recipe.parse(data), tmp_path / "one")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(data))
    run_processes(["train", tmp_path / "recipe.yaml", "--output", tmp_path / "two"], tmp_path)
    assert rows_of(tmp_path / "two", "stage") == rows_of(tmp_path / "one", "stage")
    for left, right in zip(rows_of(tmp_path / "one", "training"), rows_of(tmp_path / "two", "training"), strict=True):
        assert left["loss"] == pytest.approx(right["loss"], rel=2e-5)
