"""What llama.cpp's ``load_arch_hparams`` and graphs do with windows, sizes and layers, by small metadata.

The expected layers stand in ``src/models`` of llama.cpp, as llama-cpp-python 0.3.36 brings it; each test names the
lines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, Llama3, Unscaled, YaRN
from locant.rotary_configs import ParsedConfig, read_gguf, write_gguf
from locant.rotary_configs.gguf.loading import refusals

_WINDOW, _PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"


def _metadata(architecture: str, **keys: Any) -> dict[str, Any]:
    usual = {"attention.key_length": 64, "context_length": 4096, "embedding_length": 512, "block_count": 8}
    usual["attention.head_count"] = 8
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
    with pytest.raises(
        ConfigError, match=r"GGUF cannot express rotary positions of all for .* 'step35': .* step35 have"
    ):
        write_gguf(RotaryConfig(head_dim=64), "step35")


@pytest.mark.parametrize("scaling", [Unscaled(), Llama3(factor=4.0, original_length=1024), Linear(factor=4.0)])
def test_step_3_5_is_written_as_its_graph_rotates(scaling: FrequencyScaling) -> None:
    """llama_model_step35 halves n_rot_full, and gives rope_freqs to layers of full attention alone."""
    full = RotaryConfig(head_dim=64, base=5e6, rotary_dim=32, scaling=scaling, max_length=4096)
    both = {"full_attention": full, "sliding_attention": RotaryConfig(head_dim=64, max_length=4096)}
    written = write_gguf(both, "step35")
    assert written.metadata["step35.rope.dimension_count"] == 64
    assert {len(values) for values in written.tensors.values()} <= {32}  # {n_rot_max/2}, else the file is refused
    assert read_gguf(written.metadata, written.tensors).configs == both
    uneven = {**both, "sliding_attention": RotaryConfig(head_dim=96, rotary_dim=48, max_length=4096)}
    written = write_gguf(uneven, "step35")
    assert {len(values) for values in written.tensors.values()} <= {24}
    assert read_gguf(written.metadata, written.tensors).configs == uneven
    with pytest.raises(ConfigError, match=r"llama\.cpp computes it with no scaling"):
        write_gguf({**both, "sliding_attention": replace(full, scaling=Linear(factor=2.0))}, "step35")


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
    assert "llama.cpp scales the attention of sliding layers by 1.25" in _warnings(scaled)


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
        (
            "gemma4",
            {_WINDOW: 512, "attention.key_length_swa": 32, "attention.value_length_swa": 32},
            "does not list for every layer",
        ),
        ("mimo2", {_WINDOW: 512, _PATTERN: 6}, "does not list for every layer"),
        ("gemma2", {_WINDOW: 0}, "attention.sliding_window is 0"),
        ("t5", {}, "t5.attention.relative_buckets_count is missing: llama.cpp refuses to load the file"),
        ("t5encoder", {}, "t5encoder.attention.relative_buckets_count is missing"),
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


@pytest.mark.parametrize(("architecture", "window"), [("modern-bert", 5), ("gemma-embedding", 5), ("gemma2", 8)])
def test_windows_of_encoders_are_half_behind_and_half_ahead(architecture: str, window: int) -> None:
    """LLAMA_SWA_TYPE_SYMMETRIC in llama-hparams.h: half = n_swa / 2 on both sides."""
    parsed = _read(architecture, **{_WINDOW: 8})
    assert {kind.window for kind in parsed.layers} == {None, window}


def test_the_type_none_leaves_sliding_layers_the_factor() -> None:
    """llama_context resets the scale of the context alone, not rope_freq_scale_train_swa."""
    keys = {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}
    parsed = _read("gpt-oss", **{_WINDOW: 512, **keys})
    assert parsed.configs["full_attention"].scaling == Unscaled()
    assert parsed.configs["sliding_attention"].scaling == Linear(factor=4.0)
    assert "'none' holds for layers of full attention alone" in _warnings(parsed)
    assert _read("llama", **keys).config.scaling == Unscaled()
    assert {each.scaling for each in _read("dots3note", **{_WINDOW: 512, **keys, **_DOTS}).configs.values()} == {
        Unscaled()
    }


_DOTS = {"rope.dimension_count": 64, "rope.freq_base_swa": 5000.0, _PATTERN: [True, False] * 4}


def test_heads_that_are_listed_by_layer_have_the_size_of_the_first() -> None:
    """load_hparams: n_embd / n_head(), which is that of layer 0; without heads there n_rot is 0."""
    keys = {"attention.key_length": None, "attention.head_count_kv": [2, 0] * 4}
    listed = {key: value for key, value in _metadata("plamo2", **keys).items() if value is not None}
    parsed = read_gguf(listed | {"plamo2.attention.head_count": [8, 0] * 4})
    assert (parsed.config.head_dim, _rotating(parsed)) == (64, [0, 2, 4, 6])
    parsed = read_gguf(listed | {"plamo2.attention.head_count": [0, 8] * 4})
    assert [each.severity for each in parsed.findings if "of the first layer is 0" in each.message] == ["error"]


@pytest.mark.parametrize(("layers", "said"), [(40, "has ALiBi"), (28, "does not rotate: those of 32")])
def test_baichuan_rotates_with_32_layers(layers: int, said: str) -> None:
    """llama_model_baichuan: LLM_TYPE_7B by n_layer, and no rotation for an unknown type."""
    with pytest.raises(ConfigError, match=said):
        _read("baichuan", block_count=layers)
    assert len(_rotating(_read("baichuan", block_count=32))) == 32


def test_sections_of_zeros_are_as_good_as_none() -> None:
    """std::fill of rope_sections with 0."""
    for architecture in ("llama", "glm4"):
        parsed = _read(architecture, **{"rope.dimension_sections": [0, 0, 0, 0]})
        assert (parsed.multimodal, parsed.findings) == ({}, ())
    with pytest.raises(ConfigError, match="must list the number of pairs of each axis"):
        _read("qwen2vl", **{"rope.dimension_sections": [0, 0, 0, 0]})


def test_all_layers_rotate_as_many_features_as_the_first() -> None:
    """llama_hparams::n_rot without a layer is that of layer 0, which has dimension_count_swa where it slides."""
    sizes = {_WINDOW: 8, "rope.dimension_count_swa": 32}
    sliding_first = _read("plamo3", **sizes)
    assert {each.rotary_dim for each in sliding_first.configs.values()} == {32}
    assert "passes over rope.dimension_count 64" in _warnings(sliding_first)
    full_first = _read("modern-bert", **sizes)
    assert {each.rotary_dim for each in full_first.configs.values()} == {64}
    assert "passes over rope.dimension_count_swa 32" in _warnings(full_first)
    assert _read("laguna", **sizes).configs["sliding_attention"].rotary_dim == 32


@pytest.mark.parametrize("slides", [True, False])
def test_full_attention_of_laguna_rotates_as_many_features_as_the_first_layer(slides: bool) -> None:
    """laguna.cpp: n_rot_l = is_swa_il ? hparams.n_rot_swa : n_rot, which is that of layer 0; b11739 computes so."""
    pattern = [slides, True, False] * 2
    parsed = _read("laguna", block_count=6, **{_WINDOW: 8, _PATTERN: pattern, "rope.dimension_count_swa": 48})
    rotated = {name: each.rotary_dim for name, each in parsed.configs.items()}
    assert rotated == {"full_attention": 48 if slides else 64, "sliding_attention": 48}
    assert ("passes over rope.dimension_count 64" in _warnings(parsed)) == slides
    by_layer = _read("spark2_5", block_count=6, **{_WINDOW: 8, _PATTERN: pattern, "rope.dimension_count_swa": 48})
    assert by_layer.configs["full_attention"].rotary_dim == 64


@pytest.mark.parametrize("architecture", ["falcon-h1", "llada", "pangu-embedded"])
def test_factors_that_are_loaded_in_vain_are_told(architecture: str) -> None:
    """The graphs give ggml_rope_ext no tensor of factors."""
    parsed = read_gguf(_metadata(architecture), {"rope_freqs.weight": [2.0] * 32})
    assert parsed.config.scaling == Unscaled()
    assert "rope_freqs.weight have no effect" in _warnings(parsed)


@pytest.mark.parametrize("architecture", ["cogvlm", "deepseek2-ocr"])
def test_graphs_without_scaling_pass_over_it(architecture: str) -> None:
    parsed = _read(architecture, **{"rope.scaling.type": "linear", "rope.scaling.factor": 4.0})
    assert parsed.config.scaling == Unscaled()
    assert "passes over the scaling 'linear'" in _warnings(parsed)
    parsed = _read(architecture, **{"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0})
    assert parsed.config.scaling == Unscaled()
    (warning,) = [each.message for each in parsed.findings if each.severity == "warning"]
    assert warning.startswith("llama.cpp passes over the scaling 'yarn' in")  # and no word about its original length


def test_a_window_that_no_layer_has_ends_the_program() -> None:
    """llama_model::create_memory: GGML_ASSERT(hparams.is_swa_any())."""
    for pattern in (1, [False] * 8):
        (error,) = refusals(_metadata("gemma3", **{_WINDOW: 512, _PATTERN: pattern}), {})
        assert "gives no layer a window" in error.message
    assert not [*refusals(_metadata("exaone4", **{_WINDOW: 0, _PATTERN: 1}), {})]  # windows with 64 layers alone


def test_compressed_attention_has_a_base_and_the_scaling() -> None:
    """llama_model_deepseek4: dsv4_compress_rope_base where compress_ratios is not 0; attention is not scaled."""
    keys = {
        "rope.dimension_count": 32,
        "attention.compress_rope_freq_base": 160000.0,
        "attention.compress_ratios": [0, 0, 4, 128, 4, 128, 4, 0],
        _WINDOW: 128,
    }
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    parsed = _read("deepseek4", **keys, **yarn)
    assert [(kind.name, kind.layers, kind.config) for kind in parsed.layers] == [
        ("sliding_attention", (0, 1, 7), "main"),
        ("compressed_sparse_attention", (2, 4, 6), "compress"),
        ("heavily_compressed_attention", (3, 5), "compress"),
    ]
    main, compressed = parsed.configs["main"], parsed.configs["compress"]
    assert (main.base, main.scaling, compressed.base) == (10000.0, Unscaled(), 160000.0)
    assert (compressed.scaling.name, compressed.attention_scale()) == ("yarn", 1.0)


def test_grok_has_a_ramp_of_its_own() -> None:
    """llama_model_grok: yarn_beta_fast = 8."""
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    assert _read("grok", **yarn).config.scaling == YaRN(factor=4.0, original_length=1024, beta_fast=8.0)
    stated = {"rope.scaling.yarn_beta_fast": 16.0}
    assert _read("grok", **yarn, **stated).config.scaling == YaRN(factor=4.0, original_length=1024, beta_fast=16.0)


def test_a_pattern_of_rotation_is_heeded() -> None:
    """llama_model_granite_swa: rope_pattern, which is 1 where it is left out."""
    keys = {_WINDOW: 8, _PATTERN: [True, False] * 4}
    assert _rotating(_read("granite_swa", **keys)) == list(range(8))
    assert _rotating(_read("granite_swa", **keys, **{"attention.rope_pattern": [1, 0] * 4})) == [0, 2, 4, 6]


@pytest.mark.parametrize("key", ["yarn_log_multiplier", "yarn_beta_fast"])
def test_keys_of_yarn_beside_another_scaling_are_told(key: str) -> None:
    """Without yarn_ext_factor, llama_context takes none of them."""
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    for architecture in ("qwen2", "mistral3"):
        parsed = _read(architecture, **linear, **{f"rope.scaling.{key}": 2.0})
        assert parsed.config.scaling == Linear(factor=4.0)
        assert f"rope.scaling.{key} 2" in _warnings(parsed)
