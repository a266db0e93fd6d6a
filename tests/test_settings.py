import pickle
import re
import tomllib
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, ValidationError

from locant.errors import _EXTRAS, ConfigError, DataError, LocantError, MissingExtraError, UsageError, nearest
from locant.settings import Settings


class Optimizer(Settings):
    learning_rate: float = Field(1.0, gt=0)
    warmup: int = 4000


class Constant(Settings):
    kind: Literal["constant"] = "constant"
    value: float = 1.0


class Run(Settings):
    name: str
    optimizer: Optimizer = Optimizer()
    schedule: Constant | None = None
    stages: list[Optimizer] = Field(default_factory=list)


def message(data: object) -> list[str]:
    with pytest.raises(ConfigError) as error:
        Run.parse(data, "run.yaml")
    return str(error.value).split("\n")


def test_an_unknown_key_names_the_nearest_at_its_own_level() -> None:
    assert message({"name": "a", "optimiser": {}}) == ["run.yaml: unknown key 'optimiser'. Did you mean 'optimizer'?"]
    assert message({"name": "a", "optimizer": {"learning_rat": 1}}) == [
        "run.yaml: unknown key 'optimizer.learning_rat'. Did you mean 'learning_rate'?"
    ]
    assert message({"name": "a", "stages": [{}, {"warmups": 1}]}) == [
        "run.yaml: unknown key 'stages.1.warmups'. Did you mean 'warmup'?"
    ]
    assert message({"name": "a", "schedule": {"valeu": 1}}) == [
        "run.yaml: unknown key 'schedule.valeu'. Did you mean 'value'?"
    ]
    assert message({"name": "a", "optimizer": {"qqq": 1}}) == [
        "run.yaml: unknown key 'optimizer.qqq'. Known keys: learning_rate, warmup."
    ]


def test_missing_wrong_and_several_at_once() -> None:
    assert message({}) == ["run.yaml: the key 'name' is missing."]
    assert message({"optimizer": {"learning_rate": -1, "warmup": "soon"}, "colour": 1}) == [
        "run.yaml: the key 'name' is missing.",
        "run.yaml: 'optimizer.learning_rate': Input should be greater than 0 (got -1).",
        "run.yaml: 'optimizer.warmup': Input should be a valid integer, unable to parse string as an integer "
        "(got 'soon').",
        "run.yaml: unknown key 'colour'. Known keys: name, optimizer, schedule, stages.",
    ]


def test_what_is_no_mapping_at_all() -> None:
    (line,) = message(None)
    assert line.startswith("run.yaml: Input should be a valid dictionary")
    assert line.endswith("(got None).")


def test_round_trip_and_immutability() -> None:
    run = Run(name="a", optimizer=Optimizer(warmup=3), stages=[Optimizer()])
    assert Run.parse(run.to_dict()) == run
    assert run.to_dict()["optimizer"] == {"learning_rate": 1.0, "warmup": 3}
    with pytest.raises(ValidationError):
        run.name = "b"  # type: ignore[misc]


def test_errors_tell_whose_fault_it_is() -> None:
    assert issubclass(ConfigError, ValueError)
    assert [LocantError.exit_code, DataError.exit_code, UsageError.exit_code, ConfigError.exit_code] == [1, 1, 2, 2]
    missing = MissingExtraError("The report", "jinja2")
    required = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    for package, extra in _EXTRAS.items():
        named = package.removeprefix("google.").replace("_", "-")
        assert named in {re.match(r"[\w-]+", name)[0].replace("_", "-") for name in required[extra]}
    assert str(pickle.loads(pickle.dumps(missing))) == str(missing)
    assert "'jinja2'" in str(missing)
    assert "pip install 'locant[report]'" in str(missing)
    assert nearest("lerning", ["learning", "leaning"]) == " Did you mean 'learning'?"
    assert nearest("x", ["learning"]) == ""


def test_a_missing_or_unknown_kind_is_explained():
    from locant.training import Recipe

    with pytest.raises(ConfigError, match=r"recipe x: 'corpus\.kind' is missing\. Known: 'files', 'tsv'"):
        Recipe.parse({"corpus": {"train": "a"}}, "recipe x")
    with pytest.raises(ConfigError, match=r"'corpus\.kind' is 'fiels'\. Known: 'files', 'tsv'"):
        Recipe.parse({"corpus": {"kind": "fiels"}}, "recipe x")


def test_keys_are_named_as_they_are_written():
    from locant.training import Recipe

    def said(corpus):
        with pytest.raises(ConfigError) as error:
            Recipe.parse({"corpus": corpus}, "x")
        return str(error.value).split("\n")

    text = {"kind": "tsv", "train": "a.tsv"}
    source = {"corpus": {**text, "source_field": "a"}, "weihgt": 3}
    assert said({"kind": "mixture", "sources": {"files": source}}) == [
        "x: unknown key 'corpus.sources.files.corpus.source_field'. Did you mean 'source_column'?",
        "x: unknown key 'corpus.sources.files.weihgt'. Did you mean 'weight'?",
    ]
    assert said({"kind": "languages", "pairs": [{**text, "valid_size": -1}], "directions": 3}) == [
        "x: 'corpus.directions': Input should be 'all' (got 3).",
        "x: 'corpus.directions': Input should be a valid tuple (got 3).",
        "x: 'corpus.pairs.0.valid_size': Input should be greater than or equal to 0 (got -1).",
    ]
    stages = [{"until": 0.5}, {"sources": ["claen"]}]
    assert said({"kind": "mixture", "sources": {"clean": {"corpus": text}}, "stages": stages}) == [
        "x: 'corpus': stage 2 names the source 'claen', which there is not. Did you mean 'clean'?"
    ]
