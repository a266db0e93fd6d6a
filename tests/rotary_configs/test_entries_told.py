"""Entries without the effect that they seem to have, and those with one that the table cannot show, are told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.extension import inspect_model
from locant.positions.scaling import LongRoPE
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.classes import families

_SCALED_BY_CLASS = [
    name
    for name in families.known_model_types()
    if (kind := families.model_type(name)) is not None
    and not kind.rope_by_layer
    and (kind.rope or {}).get("rope_type", "default") != "default"
]


@pytest.mark.parametrize("entry", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("name", _SCALED_BY_CLASS)
def test_null_does_not_switch_off_the_scaling_of_a_class(name: str, entry: str) -> None:
    parsed = read_huggingface({"model_type": name, entry: None})
    scaling = next(iter(parsed.configs.values())).scaling
    assert scaling.name != "none"
    said = " ".join(each.message for each in parsed.findings)
    assert f"{entry} is null in config.json, which does not switch off" in said
    assert f"scaling {scaling.name}" in said


def test_null_is_no_scaling_where_the_class_has_none() -> None:
    for name in ("llama", "gemma3_text", "qwen3"):
        parsed = read_huggingface({"model_type": name, "num_hidden_layers": 6, "rope_scaling": None})
        assert not any("switch off" in each.message for each in parsed.findings)
    stated = {"rope_type": "default", "rope_theta": 12e6}
    parsed = read_huggingface({"model_type": "apertus", "rope_scaling": None, "rope_parameters": stated})
    assert parsed.config.scaling.name == "none"
    assert not any("switch off" in each.message for each in parsed.findings)


_LATENT = {
    **{"hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 2, "qk_rope_head_dim": 32},
    **{"qk_nope_head_dim": 96, "v_head_dim": 128, "kv_lora_rank": 256, "q_lora_rank": 256},
}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deepseek_v2", "head_dim is 128 in config.json, the whole head, which the class of 'deepseek_v2'"),
        ("deepseek_v32", "passes over: it sets head_dim to qk_rope_head_dim, 32"),
        ("glm_moe_dsa", "passes over: it sets head_dim to qk_rope_head_dim, 32"),
        ("minicpm3", "passes over: it sets head_dim to qk_rope_head_dim, 32"),
        ("deepseek_v3", "has angles for the first, and fails"),
        ("axk1", "has angles for the first, and fails"),
    ],
)
def test_the_size_of_the_whole_head_has_no_effect_beside_that_of_its_rotated_part(name: str, said: str) -> None:
    parsed = read_huggingface({"model_type": name, **_LATENT, "head_dim": 128})
    assert parsed.config.rotary_dim == 32
    assert said in " ".join(each.message for each in parsed.findings)
    plain = read_huggingface({"model_type": name, **_LATENT, "head_dim": 32})
    assert not any("head_dim" in each.message for each in plain.findings)


def test_the_class_has_that_size_for_its_rotated_part() -> None:
    known = pytest.importorskip("transformers").CONFIG_MAPPING
    assert known["deepseek_v2"](**_LATENT, head_dim=128).head_dim == 32
    assert known["deepseek_v3"](**_LATENT, head_dim=128).head_dim == 128


@pytest.mark.parametrize("name", ["qwen2", "qwen2_moe", "qwen2_5_vl_text", "qwen3", "qwen3_moe"])
def test_a_window_without_its_switch_is_told(name: str) -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2}
    file = {"model_type": name, **sizes, "sliding_window": 32768}
    left_out = read_huggingface(file)
    assert "sliding_window is 32768 in config.json, without effect" in " ".join(e.message for e in left_out.findings)
    assert {each.window for each in left_out.layers} <= {None}
    stated = read_huggingface({**file, "use_sliding_window": False})
    assert not any("sliding_window" in each.message for each in stated.findings)


def test_values_that_turn_as_well_are_told() -> None:
    file = {"model_type": "roformer", "hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 2}
    on, off = (read_huggingface({**file, "rotary_value": value}) for value in (True, False))
    assert any("rotary_value is true" in each.message and "turns values" in each.message for each in on.findings)
    assert not any("rotary_value" in each.message for each in off.findings)


def test_what_hunyuans_alpha_makes_is_told_with_the_entries_without_effect() -> None:
    file = {"model_type": "hunyuan_v1_dense", "hidden_size": 2048, "num_attention_heads": 16, "head_dim": 128}
    group = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "mscale": 1.0}
    said = " ".join(e.message for e in read_huggingface({**file, "rope_theta": 1e4, "rope_scaling": group}).findings)
    assert "alpha 1000 in rope_scaling raises the base from 10000 to 11158839.93" in said
    assert "Beside it factor, beta_fast, mscale have no effect." in said
    without = {"model_type": "hunyuan_v1_moe", "num_hidden_layers": 2, "attention_head_dim": 128, "rope_scaling": group}
    said = " ".join(each.message for each in read_huggingface(without).findings)
    assert "head_dim is left out of config.json, and null then" in said
    assert "attention_head_dim is 128 in config.json" in said
    for alpha, size, wrong in ((-2.0, 128, "alpha in rope_scaling of config.json must be"), (9.0, 2, "head_dim of")):
        with pytest.raises(ConfigError, match=wrong):
            read_huggingface({**file, "head_dim": size, "rope_scaling": {"type": "dynamic", "alpha": alpha}})


def _said(name: str, **entries: Any) -> str:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 4}
    return " ".join(each.message for each in read_huggingface({"model_type": name, **sizes, **entries}).findings)


def test_a_window_that_no_layer_has_is_told() -> None:
    assert "gives a window to none of these layers" in _said("dots1", sliding_window=333)
    sliding = ["sliding_attention", "full_attention"] * 2
    assert "sliding_window" not in _said("dots1", sliding_window=333, layer_types=sliding)
    assert "sliding_window" not in _said("mistral", sliding_window=333)
    assert "use_sliding_window is true in config.json, but the masks" in _said("llama", use_sliding_window=True)


@pytest.mark.parametrize(
    ("name", "value", "is_told"),
    [
        ("llama", True, True),
        ("llama", False, False),
        ("deepseek_v2", False, True),
        ("deepseek_v2", True, False),
        ("deepseek_v3", False, False),  # whose class reads it
        ("cohere", False, True),
    ],
)
def test_a_pairing_that_the_class_has_not_is_told(name: str, value: bool, is_told: bool) -> None:
    for entry in ("rope_interleave",) if name == "deepseek_v3" else ("rope_interleave", "rope_interleaved"):
        assert (f"{entry} {str(value).lower()}, but the class" in _said(name, **{entry: value})) is is_told


def test_an_original_length_without_a_scaling_is_told() -> None:
    lengths = {"max_position_embeddings": 4096, "original_max_position_embeddings": 1024}
    assert "original_max_position_embeddings is 1024 in config.json, without effect" in _said("llama", **lengths)
    linear = {"rope_type": "linear", "factor": 4.0}
    assert "without effect" not in _said("llama", **lengths, rope_scaling=linear)
    assert "without effect" not in _said("llama", **{**lengths, "original_max_position_embeddings": 4096})


@pytest.mark.parametrize("name", ["wav2vec2-bert", "wav2vec2-conformer"])
def test_a_base_of_another_class_is_not_that_of_a_class_with_a_name_of_its_own(name: str) -> None:
    """modeling_wav2vec2_bert.py and modeling_wav2vec2_conformer.py read rotary_embedding_base."""
    file = {"model_type": name, "hidden_size": 256, "num_attention_heads": 8, "position_embeddings_type": "rotary"}
    parsed = read_huggingface({**file, "rope_theta": 500000.0})
    assert parsed.config.base == 10000
    said = " ".join(each.message for each in parsed.findings)
    assert "rope_theta is 500000 in config.json, which the class of" in said
    assert "it takes rotary_embedding_base, 10000 here" in said
    both = read_huggingface({**file, "rope_theta": 500000.0, "rotary_embedding_base": 777})
    assert both.config.base == 777
    said = " ".join(each.message for each in both.findings)
    assert "rope_theta is 500000 in config.json, which the class of" in said
    assert "it takes rotary_embedding_base, 777 here" in said
    alone = read_huggingface({**file, "rotary_embedding_base": 777})
    assert not [each for each in alone.findings if "rope_theta" in each.message]


def test_a_longest_text_under_a_name_that_the_class_passes_over() -> None:
    """NomicBertConfig has max_position_embeddings alone; CodeGenConfig takes it for n_positions."""
    file = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 6}

    def told(**entries: object) -> list[str]:
        return [
            each.message
            for each in read_huggingface({**file, **entries}).findings
            if "the length shown" in each.message
        ]

    said = told(model_type="nomic_bert", n_positions=8192)
    assert len(said) == 1
    assert "'n_positions' in config.json is 8192, which the class of 'nomic_bert'" in said[0]
    assert "it takes 2048 for max_position_embeddings" in said[0]
    assert not told(model_type="nomic_bert", n_positions=8192, max_position_embeddings=8192)
    assert not told(model_type="nomic_bert", n_positions=2048)
    assert not told(model_type="codegen", max_position_embeddings=4096)
    assert not told(model_type="bailing_hybrid", model_max_length=4096)


def test_a_scaling_beside_a_length_that_the_class_passes_over_is_computed_by_that_of_the_class() -> None:
    """LlamaConfig keeps n_positions as an entry that nothing reads, and has max_position_embeddings 2048."""
    file = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    factors = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32, "original_max_position_embeddings": 1024}
    dynamic = read_huggingface({**file, "n_positions": 8192, "rope_scaling": {"type": "dynamic", "factor": 4.0}})
    assert dynamic.config.scaling.original_length == 2048
    longrope = read_huggingface({**file, "max_seq_len": 8192, "rope_scaling": {"type": "longrope", **factors}})
    assert isinstance(longrope.config.scaling, LongRoPE)
    assert longrope.config.scaling.factor == 2
    for parsed, name in ((dynamic, "n_positions"), (longrope, "max_seq_len")):
        said = [each.message for each in parsed.findings if "passes over" in each.message]
        assert len(said) == 1
        assert f"'{name}' in config.json is 8192" in said[0]
        assert "takes 2048 for max_position_embeddings, and the scaling is computed by that" in said[0]
    both = {"max_position_embeddings": 4096, "n_positions": 8192}
    dynamic = read_huggingface({**file, **both, "rope_scaling": {"type": "dynamic", "factor": 4.0}})
    assert dynamic.config.scaling.original_length == 4096
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    assert read_huggingface({**file, "n_positions": 8192, "rope_scaling": yarn}).config.max_length == 8192


def test_a_base_that_a_class_passes_over_is_not_told_to_be_null() -> None:
    """BeamConfig has null of its own for full attention, which does not rotate; the file has a base."""
    findings = read_huggingface({"model_type": "beam", "rope_theta": 50_000.0}).findings
    said = [each.message for each in findings if "rope_theta" in each.message]
    assert len(said) == 1
    assert "passes over: it takes its own groups" in said[0]


def test_names_of_nomics_own_code_are_told_where_the_class_of_transformers_reads_the_file() -> None:
    file = {"model_type": "nomic_bert", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 6}
    named = {"rotary_emb_base": 500, "rotary_emb_fraction": 0.5}
    parsed = read_huggingface({**file, **named})
    assert (parsed.config.base, parsed.config.rotary_dim) == (1000, 64)
    said = " ".join(each.message for each in parsed.findings)
    assert "rotary_emb_base is 500 in config.json, which the class of 'nomic_bert'" in said
    assert "rotary_emb_fraction is 0.5 in config.json, which the class of 'nomic_bert'" in said
    assert "rope_theta in config.json is 500" not in said
    own = read_huggingface({**file, **named, "auto_map": {"AutoModel": "modeling_hf_nomic_bert.NomicBertModel"}})
    assert (own.config.base, own.config.rotary_dim) == (1000, 64)  # what is shown is what the class does
    said = " ".join(each.message for each in own.findings)
    assert "rotary_emb_base is 500 in config.json, which the class of 'nomic_bert'" in said
    assert "passes over: it takes rope_theta, 1000 here" in said


def test_a_longer_context_of_zamba_2_changes_no_base() -> None:
    """configuration_zamba2.py sets max_position_embeddings by use_long_context, and modeling_zamba2.py warns alone."""
    file = {"model_type": "zamba2", "use_mem_rope": True, "use_long_context": True, "max_position_embeddings": 4096}
    parsed = read_huggingface(file)
    assert (parsed.config.max_length, parsed.config.base) == (16384, 10000)
    assert "use_long_context is true" in " ".join(each.message for each in parsed.findings)


_ENTRIES: dict[str, Any] = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "rope_theta": 10000.0}


def _notes(**entries: Any) -> list[str]:
    return [each.message for each in read_huggingface({**_ENTRIES, **entries}).findings if each.severity == "note"]


def test_a_number_of_heads_in_the_place_of_which_the_class_multiplies_others_is_told() -> None:
    """JetMoeConfig sets num_attention_heads to num_key_value_heads times num_experts_per_tok."""
    file = {"model_type": "jetmoe", "num_key_value_heads": 8, "num_experts_per_tok": 2, "kv_channels": 64}
    for heads, is_told in ((32, True), (16, False)):
        found = read_huggingface({**file, "num_attention_heads": heads}).findings
        said = [each.message for each in found if "num_attention_heads" in each.message]
        assert bool(said) is is_told
        assert all("it has 16 heads, num_experts_per_tok 2 times num_key_value_heads 8" in each for each in said)


def test_whether_queries_grow_with_their_position_is_told() -> None:
    group = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e6}
    for beta, said in (
        (0.0, "is 0 in rope_parameters of config.json: queries do not grow"),
        (0.1, "makes queries grow"),
    ):
        notes = _notes(model_type="ministral3", rope_parameters={**group, "llama_4_scaling_beta": beta})
        assert [each for each in notes if "llama_4_scaling_beta" in each and said in each]
    assert not [each for each in _notes(model_type="ministral3", rope_parameters=group) if "queries" in each]


def test_a_whole_number_for_the_attention_factor_of_yarn_is_told() -> None:
    """_validate_yarn of transformers logs a warning for it, and _compute_yarn_parameters takes it."""
    group = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    for factor, is_told in ((1, True), (1.0, False), (None, False)):
        rope = {"rope_scaling": {**group, "attention_factor": factor}, "max_position_embeddings": 2048}
        said = [each for each in _notes(model_type="granite", **rope) if "a whole number" in each]
        assert bool(said) is is_told


def test_an_entry_that_says_what_the_class_does_anyway_is_no_finding_of_the_reading() -> None:
    for entries in ({"rotary_pct": 1.0}, {"position_embedding_type": "rope_gptj"}):
        assert not any("passes over" in each for each in _notes(model_type="cohere2", **entries, sliding_window=64))


def test_an_old_type_of_another_kind_is_shown_as_the_file_has_it() -> None:
    content = {**_ENTRIES, "model_type": "gemma3_text", "rope_scaling": {"type": {"a": True}, "factor": 2.0}}
    assert any("has type {'a': true} and no" in each.message for each in read_huggingface(content).findings)


@pytest.mark.parametrize(("name", "share"), [("gpt_neox", "0.25"), ("gpt_neox_japanese", "1")])
def test_a_share_that_the_class_fills_in_is_told(name: str, share: str, tmp_path: Path) -> None:
    def said(**entries: Any) -> bool:
        content = {**_ENTRIES, "model_type": name, "rotary_emb_base": 10000, **entries}
        (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
        found = inspect_model(tmp_path, ask_class=False).findings
        return any(re.search(rf"Left out .*rotary_pct {share}[.;]", each.message) for each in found)

    assert said()
    assert not said(rotary_pct=0.5)


@pytest.mark.parametrize(
    ("name", "entries", "remedy"),
    [
        ("hy_v3", {"rotary_base": 5e5}, "State it by 'rope_theta', if that is meant"),
        ("hy_v3", {"rotary_base": 5e5, "rope_theta": 1e4}, "Remove it"),
        ("granitemoe_swa", {"rope_theta_per_layer": [1e4] * 4}, "State it by 'layer_rope_theta', if that is meant"),
        ("minimax", {"rotary_dim": 32, "head_dim": 64}, "Name a model type whose class rotates a part of the head"),
        ("glm4", {"rotary_dim": 16, "head_dim": 64}, "State partial_rotary_factor, or name a model type whose"),
    ],
)
def test_the_remedy_names_what_the_class_takes(name: str, entries: dict[str, Any], remedy: str) -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 4}
    found = read_huggingface({"model_type": name, **sizes, **entries}).findings
    assert next(each.remedy for each in found if next(iter(entries)) in each.message).startswith(remedy)


def test_an_original_length_that_dynamic_does_not_read_is_told() -> None:
    group = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 2048}
    assert "original_max_position_embeddings 2048 has no effect" in _said("doge", rope_scaling=group)
