"""Recipes and run folders of which something is damaged: one sentence, never a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated_bytes, mutated_data

from locant.app.run_report import run_report
from locant.errors import CheckpointError, ConfigError, LocantError
from locant.models.model_card import model_card
from locant.training import Recipe, evaluate, load_recipe, load_run_evaluation, load_run_recipe, read_metrics, train
from locant.training.before_after import compare_after
from locant.training.loop import TrainingLoop

UNHURRIED = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def run(recipe_data: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    short = recipe_data["training"] | {"steps": 4, "validate_every": 2, "average_checkpoints": 1}
    train(Recipe.parse(recipe_data | {"training": short}), folder)
    evaluate(folder)
    return folder


@UNHURRIED
@given(data=st.data())
def test_any_change_of_a_recipe(data: st.DataObject, recipe_data: dict, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(data.draw(mutated_data(recipe_data, times=1))), encoding="utf-8")
    with suppress(ConfigError):
        load_recipe(path)


@UNHURRIED
@given(data=st.data())
def test_any_damage_of_a_recipe(data: st.DataObject, recipe_data: dict, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(data.draw(mutated_bytes(yaml.safe_dump(recipe_data).encode())))
    with suppress(ConfigError):
        load_recipe(path)


READERS = {
    "evaluation.test.json": load_run_evaluation,
    "data.json": model_card,
    "environment.json": model_card,
    "metrics.jsonl": read_metrics,
    "config.json": model_card,
    "tokenizer.json": model_card,
    "recipe.yaml": load_run_recipe,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", READERS)
@UNHURRIED
@given(data=st.data())
def test_any_damage_of_a_record(name: str, data: st.DataObject, run: Path) -> None:
    path = run / name
    content = path.read_bytes()
    plain = yaml.safe_load(content) if name.endswith(".yaml") else [] if name.endswith("l") else json.loads(content)
    try:
        path.write_bytes(
            data.draw(
                st.one_of(mutated_bytes(content), mutated_data(plain).map(lambda each: json.dumps(each).encode()))
            )
        )
        with suppress(LocantError):
            READERS[name](run)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("data.json", '"parameters"', '"parameter"'),
        ("environment.json", '"cores"', '"core"'),
        ("metrics.jsonl", '"seconds"', '"second"'),
    ],
)
def test_a_report_of_damaged_records_is_refused_in_a_sentence(name: str, old: str, new: str, run: Path) -> None:
    evaluation = load_run_evaluation(run)
    path = run / name
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))
    try:
        with pytest.raises(LocantError, match="is damaged, or was not written by Locant: the key"):
            run_report(run, evaluation)
    finally:
        path.write_text(content)


def test_too_little_memory_of_a_gpu_says_what_to_lower(
    recipe_data: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = TrainingLoop.update

    def full(self: TrainingLoop, batches: object) -> object:
        if self.progress.step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return update(self, batches)

    monkeypatch.setattr(TrainingLoop, "update", full)
    with pytest.raises(LocantError, match=r"memory of the GPU does not suffice\. Lower batches\.tokens and raise"):
        train(Recipe.parse(recipe_data), tmp_path / "run")


@pytest.mark.parametrize("change", [{"pairs": [["one"]]}, {"before": []}, {"pairs": None}])
def test_damaged_measurements_before_fine_tuning(change: dict, tmp_path: Path) -> None:
    test = {"name": "t", "of": "new", "pairs": [["one", "eins"]], "source_language": None, "target_language": None}
    (tmp_path / "cache").mkdir()
    kept = {"parent": "p", "notes": [], "tests": [{**test, "before": ["zwei"], **change}]}
    (tmp_path / "cache" / "before.json").write_text(json.dumps(kept))
    with pytest.raises(CheckpointError, match=r"before\.json is damaged"):
        compare_after(tmp_path)
