"""GGUF files: metadata against what llama.cpp computed, published ones, tensors of factors, and writing."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from published import GGUF, is_meant, meaning

from locant.errors import ConfigError
from locant.positions import Linear, Llama3, LongRoPE, NTKByParts, RotaryConfig, Unscaled, YaRN
from locant.positions.scaling import DynamicNTK, FrequencyScaling, NTKAware, Proportional
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.gguf import read_gguf, write_gguf
from locant.rotary_configs.gguf.architectures import known_architectures
from locant.rotary_configs.reading import NoRotaryPositionsError, ParsedConfig

_TOKENS = 24
_RECORDS: dict[str, Any] = json.loads(Path(__file__).with_name("gguf_graphs.json").read_text("utf-8"))
_USUAL = _RECORDS.pop("usual")
_RECORDS.pop("source")
_CASES = [
    pytest.param(name, {**_USUAL, **each.get("metadata", {}), **changes}, layers, id=f"{name}-{index}")
    for name, each in _RECORDS.items()
    for index, (changes, layers) in enumerate(each["cases"])
]
_SIZES = {"attention.key_length": 64, "context_length": 4096, "embedding_length": 512, "attention.head_count": 8}
_YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 512}
_WINDOW = {"block_count": 8, "attention.sliding_window": 512}


def _read(architecture: str, tensors: Any = None, **keys: Any) -> ParsedConfig:
    own = {f"{architecture}.{key}": value for key, value in {**_SIZES, **keys}.items()}
    return read_gguf({"general.architecture": architecture, **own}, tensors)


def _float32(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _float32(value) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(_float32, values))
    return struct.unpack("f", struct.pack("f", values))[0] if isinstance(values, float) else values


def _frequencies(layer: dict[str, Any]) -> tuple[list[float], float]:
    """Return the frequencies and the attention scale of ``rope_yarn`` and ``ggml_rope_yarn_corr_dims`` in ggml."""
    dim, base, scale = layer["n_dims"], layer["freq_base"], layer.get("freq_scale", 1.0)
    plain, magnitude = [base ** (-2 * pair / dim) for pair in range(dim // 2)], layer.get("attn_factor", 1.0)
    if "n_ctx_orig" not in layer:
        return [each * scale for each in plain], magnitude

    def corner(rotations: float) -> float:
        return float(dim * math.log(layer["n_ctx_orig"] / (rotations * 2 * math.pi)) / (2 * math.log(base)))

    low = max(0, math.floor(corner(layer.get("beta_fast", 32.0))))
    high = min(dim - 1, math.ceil(corner(layer.get("beta_slow", 1.0))))
    ramp = [1 - min(1, max(0, (pair - low) / max(0.001, high - low))) for pair in range(dim // 2)]
    mixed = [each * (scale * (1 - part) + part) for each, part in zip(plain, ramp, strict=True)]
    return mixed, magnitude * (1 + 0.1 * math.log(1 / scale))


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("architecture", "keys", "layers"), _CASES)
def test_every_layer_turns_as_in_the_graph(
    architecture: str, keys: dict[str, Any], layers: list[dict[str, Any]]
) -> None:
    """Not on record: a factor beside the type 'none', by which 7 graphs scale layers with a window alone."""
    stated = {f"{architecture}.{key}": value for key, value in keys.items() if value is not None}
    parsed = read_gguf({"general.architecture": architecture} | stated)
    kinds = {index: kind for kind in parsed.layers for index in kind.layers}
    assert sorted(kinds) == sorted(index for layer in layers for index in layer["layers"])
    for layer in layers:
        frequencies, magnitude = _frequencies(layer) if "n_dims" in layer else ([], 1.0)
        for kind in (kinds[index] for index in layer["layers"]):
            assert (kind.window if kind.window and kind.window < _TOKENS else None) == layer.get("window")
            assert (kind.config is not None) == ("n_dims" in layer)
            if kind.config is None:
                continue
            config = parsed.configs[kind.config]
            assert config.layout == ("interleaved" if layer.get("pairs") == "neighbours" else "half")
            assert (kind.config in parsed.multimodal) == layer.get("axes", False)
            assert config.rotary_dim == layer["n_dims"]
            assert [float(each) for each in config.frequencies(256)] == pytest.approx(frequencies, rel=3e-5)
            assert config.attention_scale(256) == pytest.approx(magnitude, rel=1e-5)


def test_every_architecture_is_on_record_or_does_not_rotate() -> None:
    """Drafts of other models, which need one of those beside them, are not."""
    rotating = {name for name, facts in known_architectures().items() if facts.instead is None}
    assert rotating - {*_RECORDS} == {"eagle3", "gemma4-assistant"}


def test_every_architecture_of_the_gguf_package_is_known() -> None:
    gguf = pytest.importorskip("gguf")
    assert {*gguf.MODEL_ARCH_NAMES.values()} - {"gptj"} <= {*known_architectures()}  # of which llama.cpp has no graph


@pytest.mark.parametrize("name", GGUF)
def test_published_files_are_read_as_they_are_meant(name: str) -> None:
    try:
        said = meaning(read_gguf(GGUF[name]["metadata"]))
    except ConfigError:
        said = "refused"
    assert is_meant(said, GGUF[name]["meant"])


def test_a_missing_base_is_assumed() -> None:
    assert (_read("llama").config.base, _read("llama").assumed) == (10000.0, ("base 10000",))
    assert _read("llama", **{"rope.freq_base": 10000.0}).assumed == ()


def test_models_without_rope_are_told_from_wrong_files() -> None:
    without: list[tuple[str, dict[str, Any]]] = [
        ("bert", {}),
        ("mamba", {}),
        ("granitehybrid", {"rope.scaling.finetuned": False}),
    ]
    for architecture, keys in without:
        with pytest.raises(NoRotaryPositionsError):
            _read(architecture, **keys)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("deepseek9", {}),
        ("llama", {"rope.scaling.type": "yarm"}),
        ("llama", {"rope.scaling.type": "yarn", "rope.scaling.factor": -2.0}),
        ("llama", {"rope.freq_base": "big"}),
        ("llama", {"rope.freq_base": 0.5}),
        ("llama", {"rope.dimension_count": 32}),  # llama.cpp rotates whole heads
        ("qwen3", {"rope.dimension_count": 33}),
        ("deepseek2", {}),  # of a latent, from which the rotated part is not told
        ("llama", {"attention.key_length": None, "attention.head_count": 1000}),
        ("llama", {"attention.key_length": None, "attention.head_count": ["a"]}),
        ("llama", {"block_count": 10**9}),
        ("llama", {"block_count": [1]}),
    ]
    for architecture, keys in wrong:
        with pytest.raises(ConfigError) as caught:
            _read(architecture, **keys)
        assert not isinstance(caught.value, NoRotaryPositionsError)
    with pytest.raises(ConfigError):
        read_gguf({})


def test_scalings_by_keys() -> None:
    assert _read("llama", **{"rope.scale_linear": 4.0}).config.scaling == Linear(factor=4.0)
    assert _read("llama", **{"rope.scaling.type": "longrope", "rope.scaling.factor": 1.0}).config.scaling == Unscaled()
    assert _read("qwen2", **_YARN).config.scaling == YaRN(factor=4.0, original_length=512)
    assert _read("qwen2", **_YARN).config.max_length == 2048  # which is all that it reaches
    other = {"rope.scaling.yarn_beta_fast": 64.0, "rope.scaling.yarn_beta_slow": 4.0}
    assert _read("qwen2", **_YARN, **other).config.scaling == YaRN(factor=4.0, original_length=512)
    assert _read("mistral3", **_YARN, **other).config.scaling == YaRN(
        factor=4.0, original_length=512, beta_fast=64.0, beta_slow=4.0
    )
    alone = _YARN | {"rope.scaling.original_context_length": None}
    assert _read("qwen2", **alone).config.scaling.trained == 4096
    halved = _read("llama", **{"rope.scaling.factor": 0.5}).config
    assert isinstance(halved.scaling, Measured)
    assert float(halved.frequencies()[0]) == 2.0


def test_the_attention_factor_of_a_file_multiplies_that_of_yarn() -> None:
    usual = 0.1 * math.log(4) + 1
    for architecture, key, value, scale in (
        ("qwen2", "attn_factor", 1.5, usual * 1.5),
        ("qwen2", "attn_factor", 1 / usual, 1.0),
        ("qwen2", "yarn_log_multiplier", 0.1, usual),  # which its graph does not read
        ("mistral3", "yarn_log_multiplier", 1.0, 1.0),
        ("mistral4", "yarn_log_multiplier", 0.1, 1.0),
        ("deepseek2", "yarn_log_multiplier", 0.0707, 1.0),
    ):
        keys = _YARN | {f"rope.scaling.{key}": value, "rope.dimension_count": 64}
        assert _read(architecture, **keys).config.attention_scale() == pytest.approx(scale, rel=1e-6), architecture
    linear = _read("qwen2", **{"rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 1.5}).config
    assert (linear.attention_scale(), float(linear.frequencies()[0])) == (1.5, 0.25)
    (full, sliding) = _read("gemma3", **_WINDOW, **_YARN, **{"rope.scaling.attn_factor": 2.0}).configs.values()
    assert [full.attention_scale(), sliding.attention_scale()] == pytest.approx([usual * 2, 2.0])


def test_sections_make_halves_of_neighbours() -> None:
    assert _read("glm4").config.layout == "interleaved"
    read = _read("glm4", **{"rope.dimension_sections": [8, 12, 12, 0]})
    assert (read.config.layout, read.multimodal["all"]["sections"]) == ("half", (8, 12, 12))
    assert _read("qwen3vl", **{"rope.dimension_sections": [12, 10, 10, 0]}).multimodal["all"]["interleaved"]


@pytest.mark.parametrize(
    "scaling",
    [
        Llama3(factor=8.0, original_length=8192),
        Llama3(factor=32.0, original_length=8192, low_frequency_factor=1.0, high_frequency_factor=4.0),
        Proportional(rotary_fraction=0.25),
        Proportional(rotary_fraction=0.5, factor=8.0),
    ],
)
def test_scalings_are_recognised_by_their_factors(scaling: FrequencyScaling) -> None:
    written = write_gguf(RotaryConfig(head_dim=128, base=5e5, scaling=scaling, max_length=131072), "llama")
    config = read_gguf(written.metadata, _float32(written.tensors)).config
    assert config.scaling == scaling


def _parts(written: Any) -> tuple[Any, Any]:
    return _float32(written.metadata), _float32(written.tensors)


def test_other_factors_are_measured_and_multiply() -> None:
    factors = [1.0 + index / 7 for index in range(31)] + [1e30]
    found = _read("llama", {"rope_freqs": factors}).config
    assert isinstance(found.scaling, Measured)
    plain = [float(each) for each in RotaryConfig(head_dim=64).frequencies()]
    assert [float(each) for each in found.frequencies()] == [
        *(each / factor for each, factor in zip(plain[:31], factors, strict=False)),
        0.0,
    ]
    both = _read("llama", {"rope_freqs.weight": factors}, **{"rope.scaling.factor": 2.0}).config
    assert float(both.frequencies()[0]) == 0.5


def test_longrope_by_its_lists() -> None:
    short, long = [1.0] * 32, [4.0] * 32
    lists = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    keys = {"rope.scaling.original_context_length": 512, "rope.scaling.attn_factor": 1.25}
    expected = LongRoPE(
        short_factors=short, long_factors=long, original_length=512, target_length=4096, attention_factor=1.25
    )
    assert _read("phi3", lists, **keys).config.scaling == expected
    assert _read("minicpm", lists, **keys, **{"rope.scaling.type": "longrope"}).config.scaling == expected
    for architecture, tensors, more in (
        ("minicpm", lists, {}),  # which loads them with the type alone
        ("phi3", {"rope_factors_long.weight": long}, {}),
        ("phi3", lists, {"rope.scaling.factor": 4.0}),
        ("qwen2", {"rope_freqs.weight": long}, {}),
        ("llama", {"rope_freqs.weight": long[:3]}, {}),
        ("llama", {"rope_freqs.weight": [0.0] * 32}, {}),
    ):
        with pytest.raises(ConfigError):
            _read(architecture, tensors, **keys, **more)


_BOTH = {
    "full_attention": RotaryConfig(head_dim=64, base=1e6, scaling=Linear(factor=8.0), max_length=131072),
    "sliding_attention": RotaryConfig(head_dim=64, max_length=131072),
}


@pytest.mark.parametrize(
    ("configs", "architecture"),
    [
        (RotaryConfig(head_dim=64, base=1e6, max_length=4096), "llama"),
        (RotaryConfig(head_dim=64, scaling=YaRN(factor=4.0, original_length=512), max_length=2048), "qwen2"),
        (RotaryConfig(head_dim=64, scaling=Linear(factor=4.0, original_length=512), max_length=2048), "qwen2vl"),
        (
            RotaryConfig(head_dim=64, scaling=YaRN(factor=4.0, original_length=512, mscale=1.0, mscale_all_dim=1.0)),
            "deepseek2",
        ),
        (RotaryConfig(head_dim=64, rotary_dim=32), "glm4moe"),
        (_BOTH, "gemma3"),
    ],
)
def test_what_is_written_is_read(configs: Any, architecture: str) -> None:
    written = write_gguf(configs, architecture)
    given = configs if isinstance(configs, dict) else {"all": configs}
    wanted = {
        name: replace(each, layout=written.layout, max_length=each.max_length or each.scaling.reach)
        for name, each in given.items()
    }
    assert read_gguf(*_parts(written)).configs == wanted


def test_ntk_by_parts_and_one_base_are_written_by_what_they_equal() -> None:
    by_parts = RotaryConfig(head_dim=64, scaling=NTKByParts(factor=4.0, original_length=512))
    read = read_gguf(*_parts(write_gguf(by_parts, "qwen2"))).config
    assert (read.frequencies(), read.attention_scale()) == (by_parts.frequencies(), 1.0)
    raised = RotaryConfig(head_dim=64, scaling=NTKAware(factor=4.0))
    written = write_gguf(raised, "qwen2").metadata
    assert (written["qwen2.rope.freq_base"], written["qwen2.rope.scaling.type"]) == (
        pytest.approx(41829, rel=1e-3),
        "none",
    )


def test_sections_are_written() -> None:
    axes = {"all": {"sections": (8, 12, 12), "interleaved": False}}
    written = write_gguf(RotaryConfig(head_dim=64), "qwen2vl", multimodal=axes)
    assert read_gguf(written.metadata).multimodal == axes


@pytest.mark.parametrize(
    ("change", "architecture"),
    [
        ({"scaling": DynamicNTK(original_length=8)}, "llama"),
        ({"scaling": YaRN(factor=4.0, original_length=512, truncate=False)}, "llama"),
        ({"scaling": YaRN(factor=4.0, original_length=512, beta_fast=64.0)}, "qwen2"),
        ({"scaling": YaRN(factor=4.0, original_length=512, mscale=0.7, mscale_all_dim=1.0)}, "deepseek2"),
        ({"scaling": Llama3(factor=8.0, original_length=512)}, "qwen2"),
        ({"scaling": Linear(factor=4.0)}, "cogvlm"),
        ({"base": 5e5}, "cogvlm"),
        ({"rotary_dim": 32}, "llama"),
        ({"rotary_dim": 32}, "deepseek2"),
        ({}, "lama"),
        ({}, "bert"),
        ({}, "gemma3"),  # whose sliding attention has another base
    ],
)
def test_what_gguf_cannot_express_is_refused(change: dict[str, Any], architecture: str) -> None:
    with pytest.raises(ConfigError):
        write_gguf(replace(RotaryConfig(head_dim=64), **change), architecture)


def test_other_sliding_attention_is_refused() -> None:
    for change in ({"scaling": Linear(factor=8.0)}, {"head_dim": 128, "rotary_dim": 64}, {"rotary_dim": 32}):
        with pytest.raises(ConfigError):
            write_gguf(_BOTH | {"sliding_attention": replace(_BOTH["sliding_attention"], **change)}, "gemma3")
    with pytest.raises(ConfigError):
        write_gguf(_BOTH, "llama")
