"""Files that llama.cpp refuses to load, or ends with: build b11739 was run with every one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from locant.extension import Inspection, inspect_model
from locant.extension.inspect import inspection
from locant.extension.source import Source
from locant.rotary_configs import read_gguf
from locant.rotary_configs.gguf.loading import refusals

_SIZES = {"embedding_length": 256, "attention.head_count": 2, "block_count": 4, "context_length": 2048}
_LATENT = {
    **{"rope.dimension_count": 64, "attention.key_length": 576, "attention.value_length": 512},
    **{"attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.kv_lora_rank": 512},
}
_ONE_HEAD = {**_LATENT, "attention.head_count_kv": 1}
_MIXED = {**_LATENT, "attention.head_count_kv": [1, 0, 1, 0]}
_NOPE = {
    **{"attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.head_count_kv": [0, 1, 0, 1]},
    "attention.indexer.key_length": 128,
}
_INDEXED = {
    **{"attention.indexer.key_length": 32, "attention.compress_ratios": [4] * 4},
    "rope.dimension_sections": [4, 4, 4, 0],
}
_WINDOW = {"attention.sliding_window": 8}
_COMPRESSED = {
    **{"rope.dimension_count": 64, "attention.key_length": 128, "attention.value_length": 128},
    **{"attention.compress_ratios": [0, 0, 4, 128], "attention.compress_rope_freq_base": 16e4},
    **{"attention.sliding_window": 8, "attention.indexer.key_length": 128},
}


def _metadata(architecture: str, keys: dict[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in {**_SIZES, **keys}.items() if value is not None}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": own[key] for key in own}


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [("glm5-next", {"rope.dimension_count": 0}), ("qwen4exp", {"rope.dimension_count": 32})],
)
def test_a_file_with_as_many_rotated_features_as_its_graph_takes_is_not_refused_for_them(
    architecture: str, keys: dict[str, Any]
) -> None:
    said = _refused(architecture, (_NOPE if architecture == "glm5-next" else _INDEXED) | keys)
    assert not [each for each in said if "rope.dimension_count" in each]


def _refused(architecture: str, keys: dict[str, Any], types: dict[str, str] | None = None) -> list[str]:
    found = refusals(
        _metadata(architecture, keys), {f"{architecture}.{key}": kind for key, kind in (types or {}).items()}
    )
    return [each.message for each in found if each.severity == "error"]


@pytest.mark.parametrize(
    ("architecture", "keys", "said"),
    [
        ("glm5-next", _NOPE | {"rope.dimension_count": 64}, "is 64, but the graph of 'glm5-next' rotates nothing"),
        ("glm5-next", _NOPE, "is missing, for which llama.cpp takes the 128 of a head, but the graph of"),
        ("llama", {"attention.key_length": 96}, "A key has 96 features and a value 128 (attention.value_length is"),
        ("olmo2", {"attention.value_length": 64}, "A key has 128 features and a value 64 (attention.key_length is"),
        (
            "gpt2",
            {"attention.key_length": 0, "attention.value_length": 0},
            "2 heads of 0 features (gpt2.attention.key_",
        ),
        (
            "neo-bert",
            {"attention.key_length": 96, "attention.value_length": 96},
            "2 heads of 96 features (neo-bert.attention.key_length) have 192 together, where the weights of 'neo-bert' "
            "have as many as embedding_length, 256: ",
        ),
        (
            "qwen2",
            {"attention.key_length": 64, "attention.value_length": 64},
            "2 heads of 64 features (qwen2.",
        ),
        (
            "minicpm3",
            {"rope.dimension_count": 32, "attention.head_count_kv": 1},
            "'minicpm3' has keys for each of the 2",
        ),
        (
            "t5",
            {"attention.relative_buckets_count": 8, "attention.head_count_kv": 1},
            "t5.attention.head_count_kv is 1, where 't5' has keys for each of the 2",
        ),
        (
            "hy_v4",
            {**_ONE_HEAD, "attention.key_length": None},
            "1 key head of 128 features (hy_v4.attention.key_length) have 128, where the cache holds the latent of 512 "
            "(attention.kv_lora_rank) and 64 more (rope.dimension_count): ",
        ),
        (
            "deepseek2",
            _LATENT,
            "2 key heads of 576 features (deepseek2.attention.key_length) have 1152, ",
        ),
        (
            "kimi-k3",
            {
                **_LATENT,
                "attention.head_count_kv": [1, 0, 1, 0],
                "attention.key_length": 64,
                "rope.dimension_count": None,
            },
            "kimi-k3.rope.dimension_count is missing, and counts as attention.key_length, 64: ",
        ),
        ("bert", {"attention.key_length": 96, "attention.value_length": 64}, "A key has 96 features and a value 64, "),
        ("llama", {"attention.head_count_kv": [2, 0, 2, 0]}, "llama.attention.head_count_kv is 0 in some layers"),
        ("gemma3", {"attention.head_count_kv": 0}, "gemma3.attention.head_count_kv is 0 in all layers"),
        ("bert", {"attention.head_count_kv": [0, 2, 2, 2]}, "bert.attention.head_count_kv is 0 in some layers"),
        ("bloom", {"attention.head_count_kv": 0}, "bloom.attention.head_count_kv is 0 in all layers"),
        ("gpt2", {"attention.head_count": None}, "gpt2.attention.head_count is missing, and counts as 0"),
        ("nomic-bert", {"attention.value_length": 64}, "A key has 128 features and a value 64 (attention.key_length"),
        ("gemma2", {"attention.key_length": 96}, "A key has 96 features and a value 128 (attention.value_length is"),
        ("gpt-oss", {**_WINDOW, "attention.value_length": 64}, "A key has 128 features and a value 64 (attention"),
        (
            "jamba",
            {"attention.head_count_kv": [0, 2, 0, 2], "attention.value_length": 64},
            "A key has 128 features and a value 64 (attention.key_length",
        ),
        ("falcon-h1", {"attention.value_length": 64}, "A key has 128 features and a value 64 (attention.key_length"),
        ("qwen2", {"attention.head_count": None}, "qwen2.attention.head_count is missing, and counts as 0"),
        ("llama", {"nextn_predict_layers": 4}, "llama.nextn_predict_layers is 4 of 4 layers, and none is left for"),
        ("bert", {"block_count": 0}, "bert.block_count 0 is no layer"),
        ("bert", {"context_length": None}, "bert.context_length is missing"),
        ("mpt", {"rope.scaling.type": "YARN"}, "mpt.rope.scaling.type 'YARN' is unknown"),
        (
            "deepseek2",
            {**_ONE_HEAD, "attention.key_length_mla": 64},
            "deepseek2.rope.dimension_count is 64, but a head has 64 features by attention.key_length_mla",
        ),
        ("deepseek4", {**_COMPRESSED, "attention.compress_ratios": [0, 0, 4, 64]}, "compress_ratios has 64, where"),
        ("deepseek4", {**_COMPRESSED, "attention.compress_ratios": [0, 4]}, "compress_ratios lists 2 of 4 layers"),
        ("ernie4_5", {"rope.dimension_sections": [8, 12, 12]}, "rope.dimension_sections has 3 values for 4 axes"),
    ],
)
def test_keys_with_which_llama_cpp_ends(architecture: str, keys: dict[str, Any], said: str) -> None:
    (message,) = _refused(architecture, keys)
    assert said in message
    assert "refuses to load the file" in message or message.endswith("llama.cpp ends when it loads the file.")


@pytest.mark.parametrize(
    ("architecture", "keys", "where"),
    [
        ("llama", {"attention.head_count": 4, "attention.head_count_kv": 3}, "4 is no multiple of {} 3, so"),
        ("bert", {"attention.head_count_kv": 4}, "2 is no multiple of {} 4, so"),
        ("gemma3", {"attention.head_count": [4, 4, 4, 4], "attention.head_count_kv": [4, 3, 4, 4]}, "3 in layer 1, so"),
        ("lfm2", {"attention.head_count_kv": [0, 4, 0, 2]}, "2 is no multiple of {} 4 in layer 1"),
    ],
)
def test_heads_of_queries_share_those_of_keys_evenly(architecture: str, keys: dict[str, Any], where: str) -> None:
    """ggml_mul_mat: ``GGML_ASSERT(ggml_can_mul_mat(a, b))``."""
    (message,) = _refused(architecture, keys)
    assert where.format("attention.head_count_kv") in message
    assert message.endswith("llama.cpp ends before it computes a token.")


def test_a_width_that_is_no_multiple_of_the_heads() -> None:
    """llama-model.cpp: n_embd / n_head; llm_build_qkv of Qwen 2 has weights of n_embd features."""
    odd = {"embedding_length": 250, "attention.head_count": 4, "rope.freq_base": 1e4}
    parsed = read_gguf(_metadata("qwen3", odd))
    assert parsed.config.rotary_dim == 62
    assert (
        "embedding_length 250 is no multiple of attention.head_count 4: llama.cpp rounds" in parsed.findings[0].message
    )
    assert not _refused("qwen3", odd)
    (message,) = _refused("qwen2", odd)
    assert "4 heads of 62 features (qwen2.embedding_length / attention.head_count) have 248 together" in message


def test_sliding_layers_have_a_latent_of_their_own() -> None:
    sliding = {
        **{"rope.freq_base_swa": 1e4, "attention.sliding_window": 8, "attention.kv_lora_rank_swa": 256},
        **{"attention.key_length_mla_swa": 192, "attention.value_length_mla_swa": 128},
        **{"attention.sliding_window_pattern": [1, 0, 1, 0], "attention.indexer.types": [0, 1, 0, 1]},
        "attention.indexer.key_length": 128,
    }
    types = {"attention.sliding_window_pattern": "array of uint32"}
    (message,) = _refused("dots3note", _ONE_HEAD | sliding, types)
    assert message.startswith("1 key head of 576 features (dots3note.attention.key_length_swa) have 576, where the ")
    assert not _refused("dots3note", _ONE_HEAD | sliding | {"attention.key_length_swa": 320}, types)


@pytest.mark.parametrize("architecture", ["deepseek32", "glm-dsa"])
def test_the_sizes_beside_the_latent_are_needed_where_there_is_no_other_attention(architecture: str) -> None:
    sizes = ("attention.key_length_mla", "attention.value_length_mla")
    found = _refused(architecture, {**_ONE_HEAD, **dict.fromkeys(sizes), "attention.indexer.key_length": 128})
    assert found == [f"{architecture}.{name} is missing: llama.cpp refuses to load the file." for name in sizes]


@pytest.mark.parametrize(
    ("architecture", "keys", "said"),
    [
        ("jamba", {"attention.head_count_kv": [0] * 4}, "By jamba.attention.head_count_kv no layer has attention"),
        ("lfm2", {"attention.head_count_kv": 2}, "By lfm2.attention.head_count_kv every layer has attention"),
        ("granitehybrid", {}, "By granitehybrid.attention.head_count every layer has attention"),
        ("qwen3next", {"full_attention_interval": 1}, "By qwen3next.full_attention_interval every layer has"),
        ("minimax-01", {"attention.recurrent_layers": [0] * 4}, "By minimax-01.attention.recurrent_layers every"),
    ],
)
def test_layers_of_one_kind_where_llama_cpp_has_memories_for_two(
    architecture: str, keys: dict[str, Any], said: str
) -> None:
    (message,) = _refused(architecture, keys)
    assert message.startswith(said)
    assert message.endswith("llama.cpp ends before it computes a token.")


def test_a_first_layer_without_heads_gives_none_of_the_others_any() -> None:
    """llama-model.cpp takes sizes by n_head(), that of layer 0; plamo2.cpp reads those of heads alone again."""
    keys = {"attention.head_count": [0, 2, 0, 2], "attention.head_count_kv": [0, 2, 0, 2]}
    said = (
        "attention.head_count of the first layer is 0 in the GGUF metadata of '{}': llama.cpp takes the sizes of heads"
    )
    (found,) = [each for each in read_gguf(_metadata("lfm2", keys)).findings if each.severity == "error"]
    assert found.message == f"{said.format('lfm2')} by it, and ends."
    sizes = {"attention.key_length": 128, "attention.value_length": 128}
    (found,) = [each for each in read_gguf(_metadata("plamo2", keys | sizes)).findings if each.severity == "error"]
    assert found.message.startswith(f"{said.format('plamo2')} by it, and never comes to the end of the first one")


@pytest.mark.parametrize("value", ["16", 16, True, [True], ["8", "12"]])
def test_sections_of_any_kind_are_no_error_where_nothing_reads_them(value: Any) -> None:
    parsed = read_gguf(_metadata("llama", {"rope.dimension_sections": value}))
    (found,) = parsed.findings
    assert (found.severity, parsed.multimodal) == ("note", {})
    assert found.message.startswith("rope.dimension_sections ")
    assert found.message.endswith("has no effect: llama.cpp does not read it in the architecture 'llama'.")


def test_one_section_stands_for_all_four_axes() -> None:
    """get_key_or_arr takes an int32 for every element, and no other type."""
    keys = {"rope.dimension_sections": 16}
    assert read_gguf(_metadata("qwen2vl", keys)).multimodal["all"]["sections"] == (16, 16, 16, 16)
    assert not _refused("qwen2vl", keys, {"rope.dimension_sections": "int32"})
    (message,) = _refused("qwen2vl", keys, {"rope.dimension_sections": "uint32"})
    assert message.startswith("qwen2vl.rope.dimension_sections is stored as uint32, where a list of int32 is expected")


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("llama", {"attention.key_length": 96, "attention.value_length": 96}),
        ("minicpm3", {"attention.key_length": 96, "rope.dimension_count": 32}),  # values are shorter there
        ("lfm2", {"attention.head_count_kv": [2, 0, 2, 0]}),
        ("deci", {"attention.head_count_kv": 2}),  # no memory of states
        ("modern-bert", {"attention.head_count_kv": [2, 0, 2, 0]}),  # no cache: that of the first layer counts
        ("neo-bert", {"attention.head_count_kv": [2, 0, 2, 0]}),
        ("llama-embed", {"attention.head_count_kv": [2, 0, 2, 0]}),
        ("mamba", {"attention.head_count": None}),
        ("deepseek2", {"attention.key_length": 192, "rope.dimension_count": 64, "attention.kv_lora_rank": 512}),  # old
        (
            "glm5-next",
            {
                **_LATENT,
                "attention.key_length": 512,
                "rope.dimension_count": 0,
                "attention.head_count_kv": [1, 0, 1, 0],
                "attention.indexer.key_length": 128,
            },
        ),
        ("kimi-linear", _MIXED),
        ("deepseek2", _ONE_HEAD),  # its keys are longer than its values, as those of mimo2 and step35 may be
        ("plamo3", {"attention.value_length": 64}),
        ("deepseek4", _COMPRESSED),
        ("llama", {"nextn_predict_layers": 1}),
    ],
)
def test_files_that_llama_cpp_loads(architecture: str, keys: dict[str, Any]) -> None:
    assert not _refused(architecture, keys)


@pytest.mark.parametrize(
    ("architecture", "key", "value", "kind"),
    [
        ("llama", "nextn_predict_layers", 1, "int32"),
        ("phi3", "attention.sliding_window", 8, "int32"),
        ("gemma3", "attention.sliding_window_pattern", 3, "int32"),
        ("deepseek2", "attention.key_length_mla", 192, "int32"),
        ("llama", "attention.head_count", [2, 2, 2, 2], "array of int64"),
        ("qwen2vl", "rope.dimension_sections", [8.0, 12.0, 12.0, 0.0], "array of float32"),
        ("bert", "attention.causal", 1, "uint32"),
    ],
)
def test_types_that_the_loader_does_not_take(architecture: str, key: str, value: Any, kind: str) -> None:
    keys = {key: value, **({"attention.sliding_window": 8} if architecture == "gemma3" else {})}
    keys = {**_ONE_HEAD, **keys} if architecture == "deepseek2" else keys
    (message,) = _refused(architecture, keys, {key: kind})
    assert f"{architecture}.{key} is" in message
    assert kind in message


def test_a_base_of_sliding_layers_that_is_not_read_may_have_any_type() -> None:
    """granite-swa.cpp and dflash.cpp read no rope.freq_base_swa."""
    window = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [1, 0, 1, 0], "rope.freq_base_swa": 3}
    types = {"attention.sliding_window_pattern": "array of bool", "rope.freq_base_swa": "uint32"}
    assert not _refused("granite_swa", window, types)
    assert "is stored as uint32" in _refused("gemma3", window, types)[0]


def _inspect(
    monkeypatch: pytest.MonkeyPatch,
    metadata: dict[str, Any],
    types: dict[str, str] | None = None,
    flags: str | None = None,
) -> Inspection:
    source = Source(Path("model.gguf"), "gguf", metadata, {}, types or {})
    monkeypatch.setattr(inspection, "resolve_model", lambda *_, **__: source.path)
    monkeypatch.setattr(inspection, "load_source", lambda _: source)
    return inspect_model("model.gguf", llamacpp=flags)


@pytest.mark.parametrize("architecture", ["bert", "t5", "jamba", "mpt"])
def test_files_without_rotary_positions_are_refused_as_well(monkeypatch: pytest.MonkeyPatch, architecture: str) -> None:
    found = _inspect(monkeypatch, _metadata(architecture, {"block_count": None, "attention.max_alibi_bias": 8.0}))
    assert found.has_errors
    assert f"{architecture}.block_count is missing: llama.cpp refuses to load the file." in found.findings[0].message


def test_layers_without_heads_are_those_of_queries_where_nothing_is_said_of_keys() -> None:
    """llama-model.cpp: n_head_kv_arr = n_head_arr."""
    parsed = read_gguf(_metadata("lfm2", {"attention.head_count": [2, 0, 2, 0], "attention.head_count_kv": None}))
    assert [(each.layers, each.attends) for each in parsed.layers] == [((0, 2), True), ((1, 3), False)]


def test_keys_of_sizes_that_nothing_reads_may_be_0() -> None:
    zeros = {"attention.key_length_mla": 0, "attention.key_length_swa": 0, "rope.dimension_count_swa": 0}
    assert read_gguf(_metadata("llama", zeros)).config.rotary_dim == 128
    assert read_gguf(_metadata("deepseek2-ocr", {"rope.dimension_count": 0})).config.rotary_dim == 128


def test_files_are_refused_under_flags_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a key that an override replaces, GKV::set does not look at the type."""
    metadata = _metadata("llama", {"rope.freq_base": 10000})
    types = {"llama.rope.freq_base": "uint32"}
    found = _inspect(monkeypatch, metadata, types, "--rope-scale 4").findings
    assert any("rope.freq_base is stored as uint32" in each.message for each in found)
    replaced = _inspect(monkeypatch, metadata, types, "--override-kv llama.rope.freq_base=int:5")
    assert any("is stored as uint32" in each.message for each in replaced.findings) is False


def test_an_override_of_what_may_be_a_list_needs_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """get_key_or_arr: kid < 0 returns before any override is asked for."""
    flags = "--override-kv llama.attention.head_count_kv=int:0"
    without = _inspect(monkeypatch, _metadata("llama", {}), {}, flags).findings
    assert any(
        "llama.cpp looks for 'llama.attention.head_count_kv' in the file first" in each.message for each in without
    )
    stated = _inspect(monkeypatch, _metadata("llama", {"attention.head_count_kv": 2}), {}, flags).findings
    assert any("llama.attention.head_count_kv is 0 in all layers" in each.message for each in stated)


@pytest.mark.parametrize(
    ("architecture", "keys", "remedy"),
    [
        ("deepseek2", {}, "State attention.head_count_kv 1."),
        ("kimi-linear", {"attention.head_count_kv": [0, 2, 0, 2]}, "State 1 in place of 2 in the list attention."),
        ("deepseek2", {"attention.head_count_kv": 1, "attention.key_length": 64}, "State attention.key_length 576."),
    ],
)
def test_what_makes_the_keys_of_a_latent_one_head(architecture: str, keys: dict[str, Any], remedy: str) -> None:
    """The list of heads says which layers have attention: one number in its place would give all of them some."""
    found = refusals(_metadata(architecture, {**_LATENT, **keys}), {})
    assert next(each.remedy for each in found if "where the cache holds" in each.message).startswith(remedy)
