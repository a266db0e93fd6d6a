"""What llama.cpp's ``load_arch_hparams`` and graphs do with windows, sizes and layers, by small metadata.

The expected layers stand in ``src/models`` of llama.cpp, as llama-cpp-python 0.3.36 brings it; each test names the
lines.
"""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Linear, Unscaled
from locant.rotary_configs import ParsedConfig, read_gguf, write_gguf
from locant.rotary_configs.gguf_loading import refusals

_WINDOW, _PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"


def _metadata(architecture: str, **keys: Any) -> dict[str, Any]:
    usual = {"attention.key_length": 64, "context_length": 4096, "embedding_length": 512, "block_count": 8}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": v for key, v in (usual | keys).items()}


def _read(architecture: str, **keys: Any) -> ParsedConfig:
    return read_gguf(_metadata(architecture, **keys))


def _windows(parsed: ParsedConfig) -> list[int]:
    return sorted(index for kind in parsed.layers if kind.window for index in kind.layers)


def _rotating(parsed: ParsedConfig) -> list[int]:
    return sorted(index for kind in parsed.layers if kind.config for index in kind.layers)


def _warnings(parsed: ParsedConfig) -> str:
    return " ".join(finding.message for finding in parsed.findings if finding.severity == "warning")


@pytest.mark.parametrize(
    ("architecture", "keys", "windows", "size"),
    [
        ("gemma2", {}, [0, 2, 4, 6], 4096),  # hparams.n_swa = 4096
        ("gemma2", {_WINDOW: 512}, [0, 2, 4, 6], 512),
        ("afmoe", {_WINDOW: 512}, [0, 1, 2, 4, 5, 6], 512),
        ("afmoe", {}, [], None),
        ("llama4", {_PATTERN: 2}, [0, 2, 4, 6], 8192),  # load_swa_pattern reads the key
        ("smallthinker", {_WINDOW: 9, _PATTERN: 2}, [1, 3, 5, 7], 4096),
        ("lfm2", {_WINDOW: 512}, list(range(8)), 512),  # every layer that is not recurrent
        ("llama", {_WINDOW: 512, _PATTERN: [True, False] * 4}, [], None),
        ("phi3", {_WINDOW: 512, _PATTERN: [True, False] * 4}, [], None),  # "Phi SWA is currently disabled"
        ("exaone4", {_WINDOW: 512, _PATTERN: [True, False] * 4}, [], None),  # windows with 64 layers alone
        ("olmo2", {_WINDOW: 512, _PATTERN: [True, False, True]}, [0, 2], 512),  # the rest stays 0
        ("gemma3", {_WINDOW: 512, "nextn_predict_layers": 2}, [0, 1, 2, 3, 4], 512),
    ],
)
def test_which_layers_have_a_window(
    architecture: str, keys: dict[str, Any], windows: list[int], size: int | None
) -> None:
    parsed = _read(architecture, **keys)
    assert _windows(parsed) == windows
    assert {kind.window for kind in parsed.layers if kind.window} == ({size} if size else set())


@pytest.mark.parametrize(
    ("architecture", "keys", "rotating"),
    [
        ("llama4", {_WINDOW: 0}, [0, 1, 2, 3, 4, 5, 6]),  # n_no_rope_layer_step is the number of layers
        ("llama4", {_PATTERN: 2}, [0, 1, 2, 4, 5, 6]),  # by n_no_rope_layer_step, not by the windows
        ("afmoe", {_WINDOW: 512, _PATTERN: 2}, [0, 1, 2, 4, 5, 6]),
        ("smallthinker", {_WINDOW: 512, _PATTERN: 2}, [1, 2, 3, 5, 6, 7]),
        ("exaone4", {_WINDOW: 512, _PATTERN: [True, False] * 4}, list(range(8))),
        ("exaone-moe", {_WINDOW: 512, "nextn_predict_layers": 1}, [0, 1, 2, 4, 5, 6]),
        ("qwen3next", {"attention.recurrent_layers": [False, True] * 4}, [0, 2, 4, 6]),
        ("qwen3next", {"nextn_predict_layers": 1}, [3]),
    ],
)
def test_which_layers_rotate(architecture: str, keys: dict[str, Any], rotating: list[int]) -> None:
    assert _rotating(_read(architecture, **keys)) == rotating


def test_layers_that_predict_further_tokens_are_not_counted() -> None:
    """llama_hparams::n_layer: n_layer_all - n_layer_nextn."""
    parsed = _read("glm4moe", nextn_predict_layers=1)
    assert sum(len(kind.layers) for kind in parsed.layers) == 7


def test_step_3_5_rotates_half_of_the_features_in_full_attention() -> None:
    """llama_model_step35: n_rot_full = n_rot_full / 2, after n_rot_swa was set."""
    keys = {_WINDOW: 512, _PATTERN: [False, True, True, True] * 2, "rope.freq_base": 5e6}
    for sizes in ({"rope.dimension_count": 64}, {}):
        configs = _read("step35", **keys, **sizes).configs
        assert (configs["full_attention"].rotary_dim, configs["full_attention"].base) == (32, 5e6)
        assert (configs["sliding_attention"].rotary_dim, configs["sliding_attention"].base) == (64, 10000.0)
    factors = [1.0] * 8 + [8.0] * 24
    found = read_gguf(_metadata("step35", **keys), {"rope_freqs.weight": factors}).configs
    listed = found["full_attention"].scaling
    assert [float(f) for f in listed.frequencies(32, 5e6)] == pytest.approx(
        [float(f) / by for f, by in zip(Unscaled().frequencies(32, 5e6), factors[:16], strict=True)]
    )
    assert found["sliding_attention"].scaling == Unscaled()


def test_step_3_5_is_not_written_as_if_all_its_layers_rotated_alike() -> None:
    with pytest.raises(ConfigError, match=r"GGUF cannot express rotary positions of one size for .* 'step35'"):
        write_gguf(RotaryConfig(head_dim=64), "step35")


@pytest.mark.parametrize("architecture", ["cohere2", "exaone-moe"])
def test_a_base_that_the_graph_does_not_take_is_told(architecture: str) -> None:
    """cohere2.cpp: freq_base for every layer, get_rope_freq_base stands in a comment."""
    parsed = _read(architecture, **{_WINDOW: 512, "rope.freq_base": 50000.0, "rope.freq_base_swa": 7000.0})
    assert {config.base for config in parsed.configs.values()} == {50000.0}
    assert "passes over rope.freq_base_swa 7000" in _warnings(parsed)


@pytest.mark.parametrize("architecture", ["gemma3", "gpt-oss", "modern-bert", "olmo2", "plamo3"])
def test_what_no_layer_has_is_not_read(architecture: str) -> None:
    """Without a window no layer slides, so that none has the base of sliding attention."""
    keys = {"rope.freq_base": 50000.0, "rope.freq_base_swa": 7000.0}
    parsed = _read(architecture, **keys, **({_PATTERN: 1, _WINDOW: 512} if architecture == "gpt-oss" else {}))
    assert {config.base for config in parsed.configs.values()} == {50000.0}
    assert "passes over rope.freq_base_swa 7000" in _warnings(parsed)


def test_sizes_of_sliding_attention_are_not_read_where_the_graph_has_one_size() -> None:
    """llama_hparams::n_rot and n_embd_head_k: the sizes of layer 0, but in gemma4.cpp and step35.cpp."""
    parsed = _read("llama", **{"rope.dimension_count_swa": 32})
    assert parsed.config.rotary_dim == 64
    assert "passes over rope.dimension_count_swa 32" in _warnings(parsed)
    with pytest.raises(ConfigError, match=r"key_length_swa in .* is 128, but the graph of 'gpt-oss' has one"):
        _read("gpt-oss", **{_WINDOW: 128, "attention.key_length_swa": 128})
    own = {_WINDOW: 512, _PATTERN: [True] * 7 + [False], "attention.key_length_swa": 32, "rope.dimension_count_swa": 32}
    assert _read("gemma4", **own).configs["sliding_attention"].rotary_dim == 32


def test_an_attention_factor_that_sliding_layers_have_too_is_told() -> None:
    """gemma3.cpp gives attn_factor to every layer; freq_scale is 1 in those that slide."""
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    plain = _read("gemma3", **{_WINDOW: 512, **yarn})
    assert "scales the attention of sliding layers" not in _warnings(plain)
    scaled = _read("gemma3", **{_WINDOW: 512, **yarn, "rope.scaling.attn_factor": 1.25})
    assert "rope.scaling.attn_factor 1.25 scales the attention of sliding layers" in _warnings(scaled)


def test_axes_need_two_sections() -> None:
    """llama_hparams::use_mrope: rope_sections[0] > 0 && rope_sections[1] > 0."""
    parsed = _read("glm4", **{"rope.dimension_sections": [32, 0, 0, 0]})
    assert (parsed.config.layout, parsed.multimodal) == ("interleaved", {})
    assert "passes over rope.dimension_sections [32] in the architecture 'glm4'" in _warnings(parsed)


def test_the_old_name_of_the_factor_is_read_where_the_new_one_is_missing() -> None:
    """llama-model.cpp: get_key of ROPE_SCALING_FACTOR, and of ROPE_SCALE_LINEAR only where that is not found."""
    old = {"rope.scaling.type": "linear", "rope.scale_linear": 4.0}
    assert _read("llama", **old).config.scaling == Linear(factor=4.0)
    both = _read("llama", **old, **{"rope.scaling.factor": 0.0})
    assert both.config.scaling == Unscaled()
    assert "rope.scaling.factor is 0" in _warnings(both)


@pytest.mark.parametrize(
    ("architecture", "keys", "said"),
    [
        ("gpt-oss", {}, "attention.sliding_window is missing"),
        ("gemma4", {_WINDOW: 512, "attention.key_length_swa": 32}, "does not list for every layer"),
        ("mimo2", {_WINDOW: 512, _PATTERN: 6}, "does not list for every layer"),
        ("gemma2", {_WINDOW: 0}, "attention.sliding_window is 0"),
        ("paddleocr", {}, "rope.dimension_sections is missing"),
        ("qwen3next", {"attention.recurrent_layers": [True, False]}, "has 2 values for 8 layers"),
    ],
)
def test_what_no_file_may_leave_out(architecture: str, keys: dict[str, Any], said: str) -> None:
    (error,) = refusals(_metadata(architecture, **keys), {})
    assert error.severity == "error"
    assert said in error.message


def test_files_with_all_of_it_are_not_refused() -> None:
    listed = _metadata("mimo2", **{_WINDOW: 512, _PATTERN: [True] * 8})
    assert not [*refusals(listed, {f"mimo2.{_PATTERN}": "array"})]
    for architecture in ("afmoe", "gemma3", "olmo2"):
        assert not [*refusals(_metadata(architecture, **{_WINDOW: 0}), {})]


@pytest.mark.parametrize("architecture", ["llama", "qwen3next"])
def test_text_in_the_place_of_heads_is_no_list_of_them(architecture: str) -> None:
    """GKV::get_kv refuses a key of another type."""
    metadata = _metadata(architecture, **{"attention.head_count_kv": "longrope"})
    assert sum(len(kind.layers) for kind in read_gguf(metadata).layers) == 8
    (error,) = refusals(metadata, {f"{architecture}.attention.head_count_kv": "string"})
    assert "attention.head_count_kv is stored as string, where uint32 is expected, or a list" in error.message
