"""Rotary positions of GGUF files against what llama.cpp computed with small models of every architecture.

``gguf_graphs.json`` holds, for metadata and changes of them, the parameters of llama.cpp's operations of rotation in
every layer (``ggml_rope_ext``: ``n_dims``, ``freq_base`` and so on) and how many of 24 tokens the last one sees.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from locant.rotary_configs import ParsedConfig, read_gguf
from locant.rotary_configs.gguf.architectures import KNOWN

_TOKENS = 24
_RECORDS: dict[str, Any] = json.loads(Path(__file__).with_name("gguf_graphs.json").read_text("utf-8"))
_CASES = [
    pytest.param(name, {**each["metadata"], **changes}, layers, id=f"{name}-{index}")
    for name, each in _RECORDS.items()
    if name != "source"
    for index, (changes, layers) in enumerate(each["cases"])
]


def _frequencies(layer: dict[str, Any]) -> tuple[list[float], float]:
    """Return the frequencies and the attention scale of ``rope_yarn`` and ``ggml_rope_yarn_corr_dims`` in ggml."""
    dim, base, scale = layer["n_dims"], layer["freq_base"], layer["freq_scale"]
    mix, magnitude = layer.get("ext_factor", 0.0), layer.get("attn_factor", 1.0)
    plain = [base ** (-2 * pair / dim) for pair in range(dim // 2)]
    if not mix:
        return [each * scale for each in plain], magnitude

    def corner(rotations: float) -> float:
        return dim * math.log(layer["n_ctx_orig"] / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = max(0, math.floor(corner(layer["beta_fast"])))
    high = min(dim - 1, math.ceil(corner(layer["beta_slow"])))
    ramp = [mix * (1 - min(1, max(0, (pair - low) / max(0.001, high - low)))) for pair in range(dim // 2)]
    mixed = [each * (scale * (1 - part) + part) for each, part in zip(plain, ramp, strict=True)]
    return mixed, magnitude * (1 + 0.1 * math.log(1 / scale))


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("architecture", "keys", "layers"), _CASES)
def test_every_layer_turns_as_in_the_graph(
    architecture: str, keys: dict[str, Any], layers: list[dict[str, Any]]
) -> None:
    stated = {f"{architecture}.{key}": value for key, value in keys.items() if value is not None}
    parsed = read_gguf({"general.architecture": architecture} | stated)
    kinds = {index: kind for kind in parsed.layers for index in kind.layers}
    assert sorted(kinds) == sorted(index for layer in layers for index in layer["layers"])
    for layer in layers:
        for index in layer["layers"]:
            window = kinds[index].window
            assert (window if window and window < _TOKENS else None) == layer.get("window"), index
            _check_turns(parsed, kinds[index].config, layer, keys["context_length"])


def _check_turns(parsed: ParsedConfig, name: str | None, layer: dict[str, Any], length: int) -> None:
    if "n_dims" not in layer:
        assert name is None
        return
    assert name is not None
    config = parsed.configs[name]
    frequencies, magnitude = _frequencies(layer)
    assert config.layout == ("interleaved" if layer["pairs"] == "neighbours" else "half")
    assert (name in parsed.multimodal) == layer.get("axes", False)
    assert config.rotary_dim == layer["n_dims"]
    assert [float(each) for each in config.frequencies(length)] == pytest.approx(frequencies, rel=3e-5)
    assert config.attention_scale(length) == pytest.approx(magnitude, rel=1e-5)


def test_every_architecture_that_runs_by_itself_is_on_record() -> None:
    """Drafts of other models, which need one of those beside them, are not."""
    assert KNOWN - {*_RECORDS} <= {"eagle3", "gemma4-assistant"}
