"""Tasks on a text: trials from end to end, on models of a few thousand weights."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_records import TINY
from safetensors.torch import load_file

from locant.errors import ConfigError, DataError, LocantError
from locant.lab import Budget, ComparisonTask, MetricValue, Trial, build_task


def trial(variant: str, folder: Path, steps: int = 20) -> Trial:
    return Trial(variant, 1, Budget(steps=steps), torch.device("cpu"), folder / "prepared", lambda _: None)


def task(name: str, path: Path, **options: Any) -> ComparisonTask:
    sizes = {"model": TINY, "train_length": 8, "batch": 16, "test_characters": 640}
    return build_task(name, {"text": str(path), **sizes, **options})


def by_length(
    measurements: tuple[MetricValue, ...], metric: str, condition: str = ""
) -> dict[int | None, float | None]:
    return {m.length: m.value for m in measurements if m.metric == metric and m.condition == condition}


def test_perplexity_against_length(text: Path, tmp_path: Path) -> None:
    outcome = task("language-modelling", text).run(trial("rotary", tmp_path, steps=150))
    perplexity, nats = (by_length(outcome.measurements, metric) for metric in ("perplexity", "nats"))
    assert list(perplexity) == [4, 8, 16, 32, 64]
    assert nats[None] == nats[8]
    for length, value in perplexity.items():
        assert value == pytest.approx(math.exp(nats[length] or 0))
    assert nats[8] is not None
    assert nats[8] < 2.0, "well below the 3.2 nats of guessing evenly among the 24 characters"
    assert outcome.tokens == 150 * 16 * 8


def test_a_table_that_ends_at_the_trained_length(text: Path, tmp_path: Path) -> None:
    found = by_length(task("language-modelling", text).run(trial("learned", tmp_path)).measurements, "perplexity")
    assert [length for length, value in found.items() if value is None] == [16, 32, 64]


def test_extension_of_one_model(text: Path, tmp_path: Path) -> None:
    extension = task("context-extension", text, factors=[2, 4], fine_tune_steps=5)
    extension.prepare(trial("", tmp_path, steps=100))
    kept = load_file(tmp_path / "prepared" / "model.safetensors")
    results = {name: extension.run(trial(name, tmp_path)) for name in extension.default_variants()}
    for outcome in results.values():
        conditions = list(dict.fromkeys(m.condition for m in outcome.measurements))
        tuned = ["2x, fine-tuned", "4x, fine-tuned"]
        assert sorted(conditions) == sorted(["2x", "4x", *tuned])
        assert outcome.steps == 100
    assert len({outcome.initial_weights for outcome in results.values()}) == 1
    # Up to the trained length, dynamic NTK is the model as it was trained.
    plain = by_length(results["none"].measurements, "nats", "2x")
    dynamic = by_length(results["dynamic"].measurements, "nats", "4x")
    assert dynamic[8] == pytest.approx(plain[8], rel=1e-6)
    assert dynamic[32] != pytest.approx(plain[32], rel=1e-6)
    assert by_length(results["linear"].measurements, "nats", "2x")[8] != pytest.approx(plain[8], rel=1e-6)
    # The model is what it was before all these fine-tunes.
    again = load_file(tmp_path / "prepared" / "model.safetensors")
    assert all(torch.equal(kept[name], again[name]) for name in kept)
    assert extension.run(trial("linear", tmp_path)).measurements == results["linear"].measurements


@pytest.mark.parametrize(
    ("name", "options", "kind", "said"),
    [
        ("language-modelling", {"text": None}, ConfigError, "--text"),
        ("language-modelling", {"text": "nowhere.txt"}, DataError, "nowhere.txt"),
        ("language-modelling", {"train_length": 100_000}, ConfigError, "100000"),
        ("language-modelling", {"test_lengths": [5000]}, DataError, "5,000"),
        ("language-modelling", {"test_lengths": [0]}, ConfigError, "0"),
        ("context-extension", {"factors": []}, ConfigError, "factors"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(
    text: Path, name: str, options: dict[str, Any], kind: type[LocantError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        task(name, text, **options).check()


def test_only_frequency_scalings_extend(text: Path) -> None:
    with pytest.raises(ConfigError, match="'yarn'"):
        task("context-extension", text).check_variant("yarm")
