import pickle
import re
import tomllib
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, ValidationError

from locant import errors
from locant.errors import ConfigError, DataError, LocantError, MissingExtraError, UsageError, nearest
from locant.settings import Settings

TSV = {"kind": "tsv", "train": "a.tsv"}


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


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"name": "a", "optimiser": {}}, ["'optimiser'.*'optimizer'"]),
        ({"name": "a", "optimizer": {"learning_rat": 1}}, ["'optimizer.learning_rat'.*'learning_rate'"]),
        ({"name": "a", "stages": [{}, {"warmups": 1}]}, ["'stages.1.warmups'.*'warmup'"]),
        ({"name": "a", "schedule": {"valeu": 1}}, ["'schedule.valeu'.*'value'"]),
        ({"name": "a", "optimizer": {"qqq": 1}}, ["'optimizer.qqq'.*learning_rate, warmup"]),
        ({}, ["'name'"]),
        (
            {"optimizer": {"learning_rate": -1, "warmup": "soon"}, "colour": 1},
            ["'name'", "'optimizer.learning_rate'.*-1", "'optimizer.warmup'.*'soon'", "'colour'.*name, optimizer"],
        ),
        (None, ["None"]),
    ],
)
def test_every_wrong_key_is_named_on_its_own_line_with_the_nearest_or_its_value(data: object, named: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        Run.parse(data, "run.yaml")
    for line, pattern in zip(str(error.value).split("\n"), named, strict=True):
        assert re.match(rf"run\.yaml: .*{pattern}", line)


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
    for package, extra in errors._EXTRAS.items():
        named = package.removeprefix("google.").replace("_", "-")
        assert named in {re.match(r"[\w-]+", name)[0].replace("_", "-") for name in required[extra]}
    assert str(pickle.loads(pickle.dumps(missing))) == str(missing)
    assert "'jinja2'" in str(missing)
    assert "pip install 'locant[report]'" in str(missing)
    assert nearest("lerning", ["learning", "leaning"]) == " Did you mean 'learning'?"
    assert nearest("x", ["learning"]) == ""


@pytest.mark.parametrize(
    ("corpus", "named"),
    [
        ({"train": "a"}, ["'corpus.kind'.*'files', 'tsv'"]),
        ({"kind": "fiels"}, ["'corpus.kind'.*'fiels'.*'files', 'tsv'"]),
        (
            {"kind": "mixture", "sources": {"files": {"corpus": {**TSV, "source_field": "a"}, "weihgt": 3}}},
            ["'corpus.sources.files.corpus.source_field'.*'source_column'", "'corpus.sources.files.weihgt'.*'weight'"],
        ),
        (
            {"kind": "languages", "pairs": [{**TSV, "valid_size": -1}], "directions": 3},
            ["'corpus.directions'", "'corpus.directions'", "'corpus.pairs.0.valid_size'.*-1"],
        ),
        (
            {
                "kind": "mixture",
                "sources": {"clean": {"corpus": TSV}},
                "stages": [{"until": 0.5}, {"sources": ["claen"]}],
            },
            ["'claen'.*'clean'"],
        ),
    ],
)
def test_keys_of_a_corpus_are_named_as_they_are_written(corpus: dict[str, object], named: list[str]) -> None:
    from locant.training import Recipe

    with pytest.raises(ConfigError) as error:
        Recipe.parse({"corpus": corpus}, "x")
    for line, pattern in zip(str(error.value).split("\n"), named, strict=True):
        assert re.match(rf"(recipe )?x: .*{pattern}", line)
