"""JSON and YAML from anybody."""

from __future__ import annotations

import ast
import json
import tracemalloc
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import modules

from locant.errors import CheckpointError, ConfigError
from locant.files import explaining_damage, read_json
from locant.parsing import parse_json, parse_yaml, read_bytes
from locant.training import load_recipe

UNHURRIED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("depth", [60, 5_000, 200_000])
def test_depth_is_bounded(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        with pytest.raises(ValueError, match="nested more than 50 levels deep"):
            parse_json(opening * depth + "1" + closing * depth)
    with pytest.raises(yaml.YAMLError, match="nested more than 50 levels deep"):
        parse_yaml("[" * min(depth, 5_000) + "]" * min(depth, 5_000))
    assert parse_json("[" * 40 + "]" * 40)


def test_half_characters_are_refused_and_whole_ones_read() -> None:
    for half in ('"\\ud800"', '{"\\uDFFF": 1}', '["a\\ud83d"]'):
        with pytest.raises(ValueError, match="half of a character"):
            parse_json(half)
        assert parse_json(half, surrogates=True)
        with pytest.raises(yaml.YAMLError, match="half of a character"):
            parse_yaml(half)
    assert parse_json('"\\ud83d\\ude00"') == "😀"
    assert parse_json('"\\\\ud800"') == "\\ud800"


def test_aliases_are_counted_as_often_as_they_stand() -> None:
    laughs = "a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        laughs += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    with pytest.raises(yaml.YAMLError, match="more than 100,000 values"):
        parse_yaml(laughs)
    with pytest.raises(yaml.YAMLError, match="nested more than"):
        parse_yaml("&a [*a]")
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: {<<: {d: 3}}") == {"a": [1, 2], "b": [1, 2], "c": {"d": 3}}


@pytest.mark.parametrize(
    "value", ["9" * 5_000, "2001-99-99", "1:" * 400 + "1.5", "!!binary \xff", "{? {a: b} : c}", "a: 1\na: 2"]
)
def test_values_that_yaml_cannot_read_are_errors_of_yaml(value: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml(value)
    with pytest.raises(ConfigError, match="is not valid YAML"):
        load_recipe("translator", [f"description={value}"])


@UNHURRIED
@given(st.text(st.sampled_from("[]{}:,&*a1-?!|>'\"\\u\n #%.0e")))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse, refused in ((parse_json, ValueError), (parse_yaml, yaml.YAMLError)):
        try:
            value = parse(text)
        except refused:
            continue
        json.dumps(value, default=str, ensure_ascii=False).encode()


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" + "1," * 100 + "1]")
    with pytest.raises(ValueError, match="larger than"):
        read_bytes(path, 100)
    monkeypatch.setattr("locant.parsing.LARGEST_JSON", 100)
    with pytest.raises(CheckpointError, match=r"a\.json cannot be read as JSON: it is larger than 0\.0001 MB"):
        read_json(path)


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1]")
    tracemalloc.start()
    try:
        assert read_json(tmp_path / "a.json") == [1]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_records_of_another_shape_are_damage(tmp_path: Path) -> None:
    for wrong in (lambda: {}["key"], lambda: [][0], lambda: int("x"), lambda: None.get("a")):  # type: ignore[attr-defined]
        with (
            pytest.raises(CheckpointError, match="is damaged, or was not written by Locant"),
            explaining_damage(tmp_path),
        ):
            wrong()
    with pytest.raises(ConfigError, match="as it was"), explaining_damage(tmp_path):
        raise ConfigError("as it was")


def test_nothing_else_reads_json_or_yaml() -> None:
    """A reader that is not bounded is made by calling json or yaml; only data that Locant packs itself may be."""
    own = {
        "parsing.py",
        "figures/trained.py",
        "rotary_configs/vocabulary.py",
        "rotary_configs/gguf/architectures.py",
        "interop/onnx_example.py",  # runs alone, beside the model that it is exported with
        "documents/json_values.py",  # single strings of a document that the bounded reader has accepted
        "server/requests.py",  # requests, whose size the server bounds and whose halves of characters it refuses itself
    }
    readers = {"json.load", "json.loads", "yaml.load", "yaml.safe_load", "yaml.load_all", "yaml.full_load"}
    found = {
        path
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in readers
    }
    assert found == own
