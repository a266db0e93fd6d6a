"""Folders of strangers: whatever stands in their files gives an import or one error that a user can read."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from test_import_m2m100 import m2m100_folder
from test_import_marian import files_of, group_folder
from test_multilingual import m2m100_files, nllb_files

from locant.errors import CheckpointError, ConfigError, LocantError
from locant.interop import import_model
from locant.training.finetuning import open_parent
from locant.training.settings import FineTuningSettings


def marian(folder: Path, pairs: list[tuple[str, str]]) -> None:
    group_folder(folder, files_of(pairs, "unigram"))


def m2m100(folder: Path, pairs: list[tuple[str, str]]) -> None:
    tokenizer = m2m100_files(folder, pairs, joint=True)
    tokenizer.save_pretrained(folder)
    m2m100_folder(folder, vocab_size=tokenizer.get_lang_id("zu") + 9)


def nllb(folder: Path, pairs: list[tuple[str, str]]) -> None:
    tokenizer = nllb_files(folder, pairs)
    tokenizer.add_tokens(["ы"])
    tokenizer.save_pretrained(folder)
    m2m100_folder(folder, vocab_size=len(tokenizer) + 3)


KINDS: dict[str, Callable[[Path, list[tuple[str, str]]], None]] = {"marian": marian, "m2m100": m2m100, "nllb": nllb}

FILES = ("config", "generation_config", "tokenizer_config", "tokenizer", "vocab", "added_tokens", "special_tokens_map")
NAMES = ("<s>", "</s>", "<unk>", "eng_Latn", "__en__", "content", "id", "type", "relu", "m2m100", "", "\0", "../x")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 200),
    st.sampled_from([10**12, -(10**30), 10**400, 0.5, 1e308, math.inf, -math.inf, math.nan]),
    st.sampled_from(NAMES),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture(scope="module", params=KINDS)
def written(request, pairs, tmp_path_factory) -> Path:
    """A folder that can be imported, and has every file of JSON."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    KINDS[request.param](folder, pairs)
    for name in FILES:
        if not (folder / f"{name}.json").is_file():
            (folder / f"{name}.json").write_text("{}")
    if request.param != "nllb":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "vocab.json").unlink()
    return folder


def places(data: Any, found: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in JSON, of long lists and groups the first and the last ones."""
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    inner = [place for key in [*keys[:40], *keys[40:][-3:]] for place in places(data[key], (*found, key))]
    return [found, *inner]


def with_value(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = data.copy()
    copy[place[0]] = with_value(data[place[0]], place[1:], value)
    return copy


def imports_or_says(folder: Path, run: Path) -> None:
    for way in (lambda: import_model(folder, run), lambda: open_parent(FineTuningSettings(parent=str(folder)))):
        with suppress(LocantError):
            way()
        shutil.rmtree(run, ignore_errors=True)


def test_what_was_written_is_imported(written, tmp_path):
    assert import_model(written, tmp_path / "run")


@pytest.mark.sampled(3)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_is_read_or_refused(data, written, tmp_path):
    path = data.draw(st.sampled_from(sorted(written.glob("*.json"))))
    before = path.read_text(encoding="utf-8")
    content = json.loads(before)
    new = with_value(content, data.draw(st.sampled_from(places(content))), data.draw(VALUES))
    try:
        path.write_text(json.dumps(new), encoding="utf-8")
        imports_or_says(written, tmp_path / "run")
    finally:
        path.write_text(before, encoding="utf-8")


def changed_json(path: Path, **values: Any) -> None:
    data = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**data, **values}))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"model_type": ["marian"]}),
        ("config.json", {"model_type": "mt5"}),
        ("config.json", {"model_type": None}),
        ("config.json", {"activation_function": "gelu_new"}),
        ("config.json", {"decoder_attention_heads": 2}),
        ("config.json", {"decoder_ffn_dim": 48}),
        ("config.json", {"pad_token_id": 10**6}),
        *(("config.json", {key: 10**11}) for key in ("vocab_size", "d_model", "encoder_layers", "decoder_layers")),
        ("config.json", {"encoder_ffn_dim": 10**11, "decoder_ffn_dim": 10**11}),
        ("tokenizer_config.json", {"tokenizer_class": "SMALL100Tokenizer"}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["tokenization.Mine", None]}}),
    ],
    ids=str,
)
def test_what_is_another_model_or_tokenizer_is_refused(file, values, written, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(written, folder)
    changed_json(folder / file, **values)
    with pytest.raises(LocantError) as found:
        import_model(folder, tmp_path / "run")
    assert str(folder) in str(found.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pickled", [False, True])
def test_shards_give_the_same_model(pickled, written, tmp_path):
    weights = load_file(written / "model.safetensors")
    folder = tmp_path / "model"
    shutil.copytree(written, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    names = sorted(weights)
    suffix = "pytorch_model-{}-of-3.bin" if pickled else "model-{}-of-3.safetensors"
    places = {name: suffix.format(index % 3) for index, name in enumerate(names)}
    for place in set(places.values()):
        part = {name: weights[name].clone() for name in names if places[name] == place}
        torch.save(part, folder / place) if pickled else save_file(part, folder / place)
    index = folder / ("pytorch_model.bin.index.json" if pickled else "model.safetensors.index.json")
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    import_model(folder, tmp_path / "run")
    import_model(written, tmp_path / "whole")
    ours, whole = (load_file(tmp_path / run / "model.safetensors") for run in ("run", "whole"))
    assert ours.keys() == whole.keys()
    assert all(torch.equal(ours[name], whole[name]) for name in ours)

    for wrong in ("absent.safetensors", "config.json", ".", "a\0.bin", places[names[1]]):
        index.write_text(json.dumps({"weight_map": dict.fromkeys(places, wrong)}))
        with pytest.raises(LocantError):
            import_model(folder, tmp_path / "other")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "source.spm", "sentencepiece.bpe.model"])
@pytest.mark.parametrize("content", [None, b"", b"\xff not a model", b"[" * 10_000], ids=str)
def test_files_that_are_missing_or_damaged_are_named(name, content, written, tmp_path):
    if not (written / name).is_file():
        pytest.skip("another kind of model")
    folder = tmp_path / "model"
    shutil.copytree(written, folder)
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=re.escape(name)):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


SHAPES = st.lists(st.integers(0, 50), max_size=3)


@pytest.mark.sampled(3)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tensors_of_other_shapes_and_names_are_refused(data, written, tmp_path):
    weights = load_file(written / "model.safetensors")
    name = data.draw(st.sampled_from(sorted(weights)))
    shape = data.draw(st.none() | SHAPES)
    before = weights.pop(name)
    if shape is None:
        weights[data.draw(st.sampled_from(["other", "model.encoder.layers.7.fc1.weight"]))] = before
    else:
        weights[name] = torch.ones(shape)
    folder = tmp_path / "model"
    shutil.copytree(written, folder, dirs_exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    if shape is None or torch.Size(shape) != before.shape:
        with pytest.raises(LocantError):
            import_model(folder, tmp_path / "run")


def test_a_table_of_other_positions_is_refused(written, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(written, folder)
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    weights = load_file(folder / "model.safetensors")
    name = "model.encoder.embed_positions.weight" + ("s" if kind == "m2m_100" else "")
    save_file(weights | {name: torch.ones(64, 32)}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="sinusoid"):
        import_model(folder, tmp_path / "run")
