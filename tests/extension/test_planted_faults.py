"""Every fault is planted in every published model where it can stand, and `inspect` finds each of them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from published_corpus import CORPUS, MEANT
from safetensors.torch import save_file

from locant.extension import inspect_model
from locant.positions.scaling import Unscaled

_ORIGINAL = "original_max_position_embeddings"
_LENGTH = "max_position_embeddings"


def _text(content: dict[str, Any]) -> dict[str, Any]:
    return content.get("text_config", content)


def _rope(content: dict[str, Any]) -> dict[str, Any]:
    return _text(content).get("rope_scaling") or {}


def _kind(content: dict[str, Any]) -> str:
    return _rope(content).get("rope_type", _rope(content).get("type", "default"))


def _no_original_length(content: dict[str, Any]) -> bool:
    for group in (_text(content), _rope(content)):
        group.pop(_ORIGINAL, None)
    return _kind(content) in ("yarn", "llama3", "longrope")


def _extended_length_as_original(content: dict[str, Any]) -> bool:
    if _kind(content) not in ("yarn", "llama3"):
        return False
    _rope(content)[_ORIGINAL] = round(_text(content)[_LENGTH] * _rope(content)["factor"])
    return True


def _factor_below_the_lengths(content: dict[str, Any]) -> bool:
    if _kind(content) != "yarn" or _rope(content)["factor"] * _rope(content)[_ORIGINAL] > _text(content)[_LENGTH]:
        return False
    _rope(content)["factor"] /= 2
    return True


def _factor_beyond_the_lengths(content: dict[str, Any]) -> bool:
    if _kind(content) != "yarn" or _rope(content)[_ORIGINAL] == _text(content)[_LENGTH]:
        return False
    _rope(content)["factor"] *= 4
    return True


def _factor_of_longrope(content: dict[str, Any]) -> bool:
    _rope(content)["factor"] = 2.0
    return _kind(content) == "longrope"


def _factor_below_one(content: dict[str, Any]) -> bool:
    _rope(content)["factor"] = 0.25
    return _kind(content) not in ("default", "mrope")


def _factor_in_quotes(content: dict[str, Any]) -> bool:
    _rope(content)["factor"] = "4"
    return bool(_rope(content))


def _no_factor(content: dict[str, Any]) -> bool:
    return _kind(content) in ("linear", "dynamic") and bool(_rope(content).pop("factor"))


def _dynamic(content: dict[str, Any]) -> bool:
    was_scaled = bool(_rope(content))
    _text(content)["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}
    return not was_scaled and _LENGTH in _text(content)


def _unknown_type(content: dict[str, Any]) -> bool:
    for name in ("rope_type", "type"):
        if name in _rope(content):
            _rope(content)[name] += "x"
    return bool(_rope(content))


def _misspelt_base(content: dict[str, Any]) -> bool:
    base = _text(content).pop("rope_theta", None)
    _text(content)["rope_tetha"] = base
    return base is not None


def _two_bases(content: dict[str, Any]) -> bool:
    base = _text(content).get("rope_theta")
    _text(content)["rope_parameters"] = {"rope_type": "default", "rope_theta": 7.5e4}
    return base is not None and not _rope(content)


_FAULTS: dict[str, tuple[Callable[[dict[str, Any]], bool], str, str]] = {
    "original length missing": (_no_original_length, "error|warning", f"{_ORIGINAL} is missing in rope_scaling"),
    "extended length as original": (_extended_length_as_original, "error", "extended length stands where the original"),
    "factor below the lengths": (_factor_below_the_lengths, "warning", "declared for .* extends it to|serves"),
    "factor beyond the lengths": (_factor_beyond_the_lengths, "warning", "factor .* makes .* transformers uses"),
    "factor of LongRoPE": (_factor_of_longrope, "error", "is 2, but max_position_embeddings 131072 is 32 times"),
    "factor below 1": (_factor_below_one, "error", "at least 1|is 0.25"),
    "factor in quotes": (_factor_in_quotes, "error", "'factor' in rope_scaling .* must be a number; got '4'"),
    "factor missing": (_no_factor, "error", "'factor' is missing"),
    "dynamic": (_dynamic, "warning", "cached keys keep older ones"),
    "unknown type": (_unknown_type, "error", "Unknown rope_type '.*x'.*Did you mean|rope_type '.*' and type '.*'"),
    "misspelt base": (_misspelt_base, "error", "'rope_tetha' in config.json .* Did you mean 'rope_theta'"),
    "two bases": (_two_bases, "error", "rope_theta is 75000.* in rope_parameters"),
}


def _planted() -> Iterator[Any]:
    for name, published in CORPUS.items():
        for fault, (plant, severity, found) in _FAULTS.items():
            content = copy.deepcopy(published)
            if plant(content):
                yield pytest.param(published, content, severity, found, id=f"{name}: {fault}")


def _messages(folder: Path, content: dict[str, Any], severity: str = "error|warning") -> list[str]:
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    diagnoses = inspect_model(folder, ask_class=False).findings
    assert all(diagnosis.remedy for diagnosis in diagnoses)
    return [diagnosis.message for diagnosis in diagnoses if re.fullmatch(severity, diagnosis.severity)]


@pytest.mark.sampled(30)
@pytest.mark.parametrize(("published", "content", "severity", "found"), list(_planted()))
def test_a_planted_fault_is_found(
    published: dict[str, Any], content: dict[str, Any], severity: str, found: str, tmp_path: Path
) -> None:
    assert [message for message in _messages(tmp_path, content, severity) if re.search(found, message)]
    new = set(_messages(tmp_path, content)) - set(_messages(tmp_path, published))
    assert [message for message in new if re.search(found, message)]


def test_every_fault_stands_somewhere() -> None:
    planted = {str(parameters.id).partition(": ")[2] for parameters in _planted()}
    assert planted == set(_FAULTS)


def _exact(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the frequencies of a model, and those before its scaling, of its first layer type."""
    config = next(iter(MEANT[name].values()))
    assert config.rotary_dim is not None
    scaled, plain = config.frequencies(), Unscaled().frequencies(config.rotary_dim, config.base)
    return torch.tensor([*map(float, scaled)]).double(), torch.tensor([*map(float, plain)]).double()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CORPUS)
def test_frequencies_stored_in_low_precision_are_found(name: str, tmp_path: Path) -> None:
    frequencies = _exact(name)[0]
    save_file({"rotary_emb.inv_freq": frequencies.float()}, tmp_path / "model.safetensors")
    assert not [message for message in _messages(tmp_path, CORPUS[name]) if "inv_freq" in message]
    save_file({"rotary_emb.inv_freq": frequencies.bfloat16()}, tmp_path / "model.safetensors")
    (message,) = [message for message in _messages(tmp_path, CORPUS[name], "warning") if "inv_freq" in message]
    assert "rounded to bfloat16" in message


@pytest.mark.parametrize("name", [name for name in CORPUS if not torch.equal(*_exact(name))])
def test_frequencies_that_were_scaled_twice_are_found(name: str, tmp_path: Path) -> None:
    scaled, plain = _exact(name)
    save_file({"rotary_emb.inv_freq": (scaled * scaled / plain).float()}, tmp_path / "model.safetensors")
    (message,) = [message for message in _messages(tmp_path, CORPUS[name], "error") if "inv_freq" in message]
    assert "other frequencies than the configuration says" in message
