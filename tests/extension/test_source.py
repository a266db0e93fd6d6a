"""Hostile and broken input ends in a sentence, never in a crash, a wait or code of the model."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from extend_models import save_model
from hypothesis import given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from published_models import MODELS

from locant.errors import CheckpointError, LocantError, UsageError
from locant.extension import ENGINES, inspect_model, to_engine_config
from locant.extension.load import load_model
from locant.extension.source import load_source


class _Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (os.mkdir, ("executed",))


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "cannot be read as JSON"),
        ("config.json", b"", "cannot be read as JSON"),
        ("config.json", b"\xff\xfe\x00", "cannot be read as JSON"),
        ("config.json", b"[" * 200_000, "cannot be read as JSON"),
        ("config.json", b'{"a": 1' + b"0" * 5000 + b"}", "cannot be read as JSON"),
        ("config.json", b"[1, 2]", "must hold a JSON object; it holds a list"),
        ("config.json", b"null", "must hold a JSON object"),
        ("config.json", b'"' + b"a" * 10_000_000 + b'"', "larger than 10 MB"),
        ("config.json", json.dumps(dict.fromkeys(map(str, range(3000)))).encode(), "more than 2000 entries"),
        ("pytorch_model.bin", pickle.dumps(_Bomb()), "looks like a pickle checkpoint, which can execute code"),
        ("model.json", pickle.dumps(_Bomb()), "looks like a pickle checkpoint"),
        ("model.pt", b"PK\x03\x04 zip", "looks like a pickle checkpoint"),
        ("model.safetensors", b"\x08\x00\x00\x00", "holds weights alone. Give its folder"),
        ("model.gguf", b"<html>", "is no GGUF file"),
    ],
)
def test_what_is_no_configuration_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        inspect_model(_written(tmp_path / name, content))
    assert not (tmp_path / "executed").exists()


def test_paths_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no config\.json"):
        inspect_model(tmp_path)
    with pytest.raises(UsageError, match=r"There is no .*nothing is downloaded"):
        load_source(Path("meta-llama/Llama-2-7b-hf"))
    with pytest.raises(UsageError, match=r"There is no .*the id of a model on Hugging Face's Hub"):
        inspect_model(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        inspect_model(tmp_path / "pipe")


def test_code_of_the_folder_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    remote = {"auto_map": {"AutoConfig": "configuration_evil.EvilConfig"}, **MODELS["Mistral 7B"]}
    _written(tmp_path / "config.json", json.dumps(remote).encode())
    _written(tmp_path / "configuration_evil.py", b"import os; os.mkdir('executed')")
    _written(tmp_path / "pytorch_model.bin", pickle.dumps({"rotary_emb.inv_freq": _Bomb()}))
    assert not inspect_model(tmp_path).has_errors
    assert not (tmp_path / "executed").exists()


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = _written(tmp_path / "config.json", b'\xef\xbb\xbf{"model_type": "llama"}')
    assert load_source(path).content == {"model_type": "llama"}


_ROPE_KEYS = ["type", "rope_type", "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale"]
_ROPE_KEYS += ["attention_factor", "short_factor", "long_factor", "low_freq_factor", "high_freq_factor", "truncate"]
_TOP_KEYS = ["head_dim", "hidden_size", "num_attention_heads", "max_position_embeddings", "rope_theta", "text_config"]
_TOP_KEYS += ["rope_parameters", "rotary_dim", "partial_rotary_factor", "rope_local_base_freq", "model_type"]
_NAMES = st.sampled_from(["yarn", "dynamic", "linear", "longrope", "llama3", "proportional", "default"])
_NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 1e308, 5e-324, 10**400, 2**63, 0.5]),
    st.floats(1, 64),
    st.integers(1, 65536),
    st.floats(),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | _NUMBERS | _NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_ROPE_KEYS), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60 * TIMES, deadline=None)
@given(
    rope=st.dictionaries(st.sampled_from(_ROPE_KEYS), _NUMBERS | _VALUES, max_size=5),
    kind=_NAMES,
    top=st.dictionaries(st.sampled_from(_TOP_KEYS), _NUMBERS | _VALUES, max_size=3),
)
def test_any_json_object_is_read_or_diagnosed(
    rope: dict[str, Any], kind: str, top: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = {**MODELS["Llama 2 7B"], "head_dim": 16, "rope_scaling": {"type": kind, **rope}, **top}
    path = _written(tmp_path_factory.mktemp("model") / "config.json", json.dumps(content).encode())
    inspection = inspect_model(path)
    assert inspection.parsed or inspection.has_errors
    json.dumps(inspection.as_data(), allow_nan=False)
    for engine in ENGINES:
        with suppress(LocantError):
            json.dumps(to_engine_config(inspection, engine), allow_nan=False)


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "hidden_size", "intermediate_size"])
def test_sizes_of_config_json_are_compared_with_the_weights_before_a_model_is_built(key: str, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", "llama")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: 10**9}))
    with pytest.raises(CheckpointError, match=f"By config.json the {key} of .* is {10**9}, but the weights have"):
        load_model(folder)
