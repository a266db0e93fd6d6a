"""Models whose code comes with their checkpoints: their facts, and their entries in the names of transformers.

Every entry names the model and the file of its code that it speaks of. transformers has no class that could confirm
them, so that :func:`locant.inspect` cannot ask one, and nothing of that code is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.families import ModelType

Findings = list[Finding]


def _chatglm(given: dict[str, Any], findings: Findings) -> None:
    """ChatGLM2, ChatGLM3, GLM-4-9B (modeling_chatglm.py): half of a head of ``kv_channels``, a larger base."""
    if given.get("position_encoding_2d"):
        raise ConfigError(
            "config.json has position_encoding_2d true: ChatGLM-6B turns half of a head by the position and half by "
            "the place within the answer, which a rotary configuration does not express."
        )
    _rename(given, "kv_channels", "head_dim")
    _rename(given, "seq_length", "max_position_embeddings")
    _rename(given, "num_layers", "num_hidden_layers")
    if given.get("rotary_percent") == 0.5:  # CodeGeeX2 says what the code does in any case
        given.pop("rotary_percent")
    given.setdefault("partial_rotary_factor", 0.5)
    ratio = _number(given.pop("rope_ratio", None), "rope_ratio") or 1.0
    given["rope_theta"] = (_number(given.get("rope_theta"), "rope_theta") or 10_000.0) * ratio
    given.pop("original_rope", None)
    if ratio != 1:
        findings.append(
            Finding(
                "warning",
                f"rope_ratio {ratio:g} multiplies the base, as in the code of ChatGLM3, GLM-4 and vLLM; the code of "
                "ChatGLM2-6B-32k divides positions by it.",
                "Look for rope_ratio in the modeling_chatglm.py that comes with the model.",
            )
        )


def _openelm(given: dict[str, Any], findings: Findings) -> None:
    """OpenELM (configuration_openelm.py): ``rope_freq_constant`` is the base."""
    del findings
    _rename(given, "rope_freq_constant", "rope_theta")
    _rename(given, "num_transformer_layers", "num_hidden_layers")
    _rename(given, "max_context_length", "max_position_embeddings")
    given.pop("rope_max_length", None)  # the length of a table of angles, which grows


def _nomic_bert(given: dict[str, Any], findings: Findings) -> None:
    """nomic-bert-2048, nomic-embed-text (modeling_hf_nomic_bert.py): GPT-2's names, xPos and NTK as options."""
    if given.pop("rotary_emb_scale_base", None) is not None:
        raise ConfigError("rotary_emb_scale_base stands for xPos, whose decay a rotary configuration does not hold.")
    if given.pop("rotary_emb_interleaved", False):
        raise ConfigError("rotary_emb_interleaved true: the class of 'nomic_bert' in transformers pairs halves.")
    _rename(given, "rotary_emb_base", "rope_theta")
    _rename(given, "rotary_emb_fraction", "partial_rotary_factor")
    if given.get("partial_rotary_factor") == 0:
        raise ConfigError("rotary_emb_fraction is 0: the model has no rotary positions.")
    factor = _number(given.pop("rotary_scaling_factor", None), "rotary_scaling_factor")
    trained = given.pop("max_trained_positions", None)
    if factor:
        given["rope_scaling"] = {"rope_type": "dynamic", "factor": factor}
        given["max_position_embeddings"] = trained or given.get("n_positions")


def _phi3_small(given: dict[str, Any], findings: Findings) -> None:
    """Phi-3-small (modeling_phi3_small.py): ``rope_embedding_base``, positions divided by ``rope_position_scale``."""
    del findings
    _rename(given, "rope_embedding_base", "rope_theta")
    scale = _number(given.pop("rope_position_scale", None), "rope_position_scale")
    if scale not in (None, 1):
        if given.get("rope_scaling"):
            raise ConfigError(
                f"rope_position_scale {scale:g} and rope_scaling are both given; no scaling here does both."
            )
        given["rope_scaling"] = {"rope_type": "linear", "factor": scale}


def _stablelm_epoch(given: dict[str, Any], findings: Findings) -> None:
    """StableLM 3B, Zephyr 3B (modeling_stablelm_epoch.py): ``rope_pct``."""
    del findings
    _rename(given, "rope_pct", "partial_rotary_factor")


def _internlm(given: dict[str, Any], findings: Findings) -> None:
    """InternLM-7B-8k (modeling_internlm.py): a group ``rotary`` of base and type, dynamic with factor 1."""
    del findings
    group = given.pop("rotary", None)
    if not isinstance(group, Mapping):
        return
    base, kind = group.get("base"), group.get("type", "origin")
    if base is not None:
        given["rope_theta"] = base
    if kind == "dynamic":
        given["rope_scaling"] = {"rope_type": "dynamic", "factor": group.get("scaling_factor", 1.0)}
    elif kind != "origin":
        raise ConfigError(f"Unknown type {kind!r} in the group 'rotary' of config.json. Known: origin, dynamic.")


def _baichuan(given: dict[str, Any], findings: Findings) -> None:
    """Baichuan, Baichuan2 (modeling_baichuan.py): 7B rotates, 13B, which is wider, has ALiBi."""
    del findings
    _rename(given, "model_max_length", "max_position_embeddings")
    if given.get("hidden_size") == 5120:
        raise ConfigError("Baichuan of 13 billion parameters (hidden_size 5120) has ALiBi and no rotary positions.")


def _qwen(given: dict[str, Any], findings: Findings) -> None:
    """Qwen-7B to 72B of 2023 (modeling_qwen.py): ``kv_channels``, NTK by length and log-scaled queries as options."""
    _rename(given, "kv_channels", "head_dim")
    length = given.pop("seq_length", None)
    if length is not None:
        given["max_position_embeddings"] = length
    _rename(given, "rotary_emb_base", "rope_theta")
    _rename(given, "rotary_pct", "partial_rotary_factor")
    if given.pop("use_dynamic_ntk", False):
        findings.append(
            Finding(
                "warning",
                f"use_dynamic_ntk: texts longer than {length} tokens raise the base by steps, which a rotary "
                "configuration does not hold; what is shown is the rotation within that length.",
                "Measure long texts with the model's own code.",
            )
        )
    if given.pop("use_logn_attn", False):
        findings.append(
            Finding(
                "note",
                f"use_logn_attn multiplies queries beyond {length} tokens by log(position) / log({length}).",
                "Scale the queries in the attention.",
            )
        )


def _kimi_linear(given: dict[str, Any], findings: Findings) -> None:
    """Kimi-Linear (modeling_kimi.py): ``mla_use_nope`` leaves its attention without positions."""
    del findings
    if given.pop("mla_use_nope", False):
        raise ConfigError("config.json has mla_use_nope true: the model has no rotary positions.")


def _hunyuan(given: dict[str, Any], findings: Findings) -> None:
    """Hunyuan (modeling_hunyuan_v1_dense.py): ``alpha`` raises the base to base * alpha^(d / (d - 2))."""
    del findings
    for name in ("rope_scaling", "rope_parameters"):
        group = given.get(name)
        alpha = _number(group.get("alpha"), "alpha") if isinstance(group, Mapping) else None
        if not isinstance(group, Mapping) or alpha is None:
            continue
        width, heads = given.get("hidden_size"), given.get("num_attention_heads")
        size = (
            given.get("head_dim")
            or given.get("attention_head_dim")
            or (width // heads if isinstance(width, int) and isinstance(heads, int) and heads else None)
        )
        if not isinstance(size, int) or size < 3 or alpha <= 0:
            raise ConfigError(
                f"alpha {alpha:g} in {name} of config.json needs a head_dim above 2, and must be above 0."
            )
        base = _number(group.get("rope_theta", given.get("rope_theta")), "rope_theta") or 10_000.0
        given["rope_theta"] = base * alpha ** (size / (size - 2))
        given[name] = None


def _dbrx(given: dict[str, Any], findings: Findings) -> None:
    """DBRX (modeling_dbrx.py): base in the group ``attn_config``, which the class of transformers 5 passes over."""
    group = given.get("attn_config")
    if not isinstance(group, Mapping) or group.get("rope_theta") is None:
        return
    written = given.get("rope_parameters")
    taken = written.get("rope_theta", 10_000) if isinstance(written, Mapping) else 10_000
    if not written:
        given.setdefault("rope_theta", group["rope_theta"])
    if group["rope_theta"] != taken:
        findings.append(
            Finding(
                "warning",
                f"rope_theta {group['rope_theta']!r:.20} stands in attn_config, where the model's own code and vLLM "
                f"look for it. The class of 'dbrx' in transformers 5 passes over it and takes {taken:g}.",
                "Set the same rope_theta in rope_parameters.",
            )
        )


def _olmo(given: dict[str, Any], findings: Findings) -> None:
    """OLMo as first published, LLaDA (modeling_olmo.py, modeling_llada.py): ``max_sequence_length``, switches."""
    del findings
    _rename(given, "max_sequence_length", "max_position_embeddings")
    given.pop("rope_full_precision", None)  # angles are float32 in any case


def _mpt(given: dict[str, Any], findings: Findings) -> None:
    """MPT (modeling_mpt.py of llm-foundry): ``rope`` in the group ``attn_config``."""
    del findings
    group = given.get("attn_config")
    if isinstance(group, Mapping) and group.get("rope") is True:
        raise ConfigError(
            "attn_config of config.json has rope true: the code of llm-foundry rotates, but the class of 'mpt' in "
            "transformers has ALiBi, whatever the file says."
        )


def _deepseek(given: dict[str, Any], findings: Findings) -> None:
    """DeepSeek-MoE, and the text parts of DeepSeek-OCR and DeepSeek-VL2 without latent attention."""
    del findings
    for name in ("qk_rope_head_dim", "qk_nope_head_dim"):
        if not given.get(name):
            given.pop(name, None)


def _smallthinker(given: dict[str, Any], findings: Findings) -> None:
    """SmallThinker (modeling_smallthinker.py): which layers rotate, and which have a window, by lists of 0 and 1."""
    del findings
    _rename(given, "rope_layout", "no_rope_layers")  # 1 where a layer rotates in both
    slides = given.pop("sliding_window_layout", None)
    if isinstance(slides, list) and "layer_types" not in given:
        given["layer_types"] = ["sliding_attention" if each else "full_attention" for each in slides]


def _step3p5(given: dict[str, Any], findings: Findings) -> None:
    """Step-3.5-Flash (configuration_step3p7.py): base and share of the head by layer, scaling of full attention."""
    del findings
    bases, shares = given.get("rope_theta"), given.get("partial_rotary_factors")
    types = given.get("layer_types")
    if not isinstance(bases, list) and shares is None:
        return
    if not isinstance(types, list):
        types = ["full_attention"] * (len(bases) if isinstance(bases, list) else 1)
    groups: dict[str, Any] = {}
    for index, name in enumerate(types):
        if not isinstance(name, str):
            raise ConfigError(f"'layer_types' in config.json must be a list of the layers' types; got {types!r:.60}.")
        group = {"rope_type": "default"}
        for key, value in (("rope_theta", bases), ("partial_rotary_factor", shares)):
            if isinstance(value, list) and index < len(value):
                group[key] = value[index]
            elif value is not None and not isinstance(value, list):
                group[key] = value
        if groups.setdefault(name, group) != group:
            raise ConfigError(
                f"rope_theta or partial_rotary_factors of config.json differ within the layers of type '{name}'; the "
                "class of 'step3p5' in transformers takes those of the first."
            )
    scaling = given.pop("rope_scaling", None)
    if isinstance(scaling, Mapping) and "full_attention" in groups:
        groups["full_attention"] |= scaling
    for key in ("rope_theta", "partial_rotary_factors"):
        given.pop(key, None)
    given["rope_parameters"] = groups


def _mimo_v2(given: dict[str, Any], findings: Findings) -> None:
    """MiMo-V2-Flash (configuration_mimo_v2_flash.py): a base for sliding layers, ``hybrid_layer_pattern``."""
    del findings
    pattern, past = given.pop("hybrid_layer_pattern", None), given.pop("sliding_window_size", None)
    if isinstance(pattern, list) and "layer_types" not in given:
        given["layer_types"] = ["sliding_attention" if each else "full_attention" for each in pattern]
    if isinstance(past, int) and not isinstance(past, bool):
        given["sliding_window"] = past + 1  # tokens before the token itself
    given.pop("swa_head_dim", None)
    full, sliding = given.pop("rope_theta", None), given.pop("swa_rope_theta", None)
    share = given.pop("partial_rotary_factor", None)
    if given.get("rope_parameters") is None and (full is not None or sliding is not None):
        usual = {"rope_type": "default", "partial_rotary_factor": 0.334 if share is None else share}
        given["rope_parameters"] = {
            "full_attention": {**usual, "rope_theta": 5_000_000.0 if full is None else full},
            "sliding_attention": {**usual, "rope_theta": 10_000.0 if sliding is None else sliding},
        }


def _deepseek_v4(given: dict[str, Any], findings: Findings) -> None:
    """DeepSeek-V4 as published (configuration_deepseek_v4.py of transformers): YaRN for compressed layers alone."""
    del findings
    ratios = given.pop("compress_ratios", None)
    if isinstance(ratios, list) and given.get("layer_types") is None:
        unknown = [ratio for ratio in ratios if not is_number(ratio) or ratio not in _COMPRESSED]
        if unknown:
            raise ConfigError(f"compress_ratios in config.json must hold 0, 4 and 128; got {unknown[0]!r:.20}.")
        given["layer_types"] = [_COMPRESSED[int(ratio)] for ratio in ratios]
    compressed = given.pop("compress_rope_theta", None)
    for name in ("rope_parameters", "rope_scaling"):
        group = given.get(name)
        if not isinstance(group, Mapping) or not group or isinstance(group.get("main"), Mapping):
            continue
        scaling = {key: each for key, each in group.items() if key not in ("rope_theta", "partial_rotary_factor")}
        if scaling.get("rope_type", scaling.get("type")) == "yarn":
            scaling.setdefault("attention_factor", 1.0)
        given[name] = {
            "main": {"rope_type": "default", "rope_theta": _first_of(given.get("rope_theta"), 10_000.0)},
            "compress": scaling | {"rope_theta": _first_of(compressed, 160_000.0)},
        }
        given.pop("rope_theta", None)


def _first_of(stated: Any, usual: float) -> Any:
    return usual if stated is None else stated


_COMPRESSED = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
"""Layer types by the entries of ``compress_ratios``."""


def _clvp_encoder(given: dict[str, Any], findings: Findings) -> None:
    """CLVP (modeling_clvp.py): as many features as ``projection_dim`` says, in values too."""
    width, heads = given.get("projection_dim", 768), given.get("num_attention_heads", 12)
    if isinstance(width, int) and isinstance(heads, int) and heads > 0:
        given["rotary_dim"] = max(width // (2 * heads), 32)
    findings.append(
        Finding(
            "warning",
            "The class of 'clvp_encoder' turns values as well as queries and keys.",
            "Turn the values too, in code of your own; no rotary scheme does.",
        )
    )


def _ernie_vl(given: dict[str, Any], findings: Findings) -> None:
    """ERNIE 4.5 VL as first published (configuration_ernie4_5_vl.py): axes, as its class in transformers has them."""
    del findings
    if given.pop("rope_3d", True) is False:
        raise ConfigError("rope_3d false: the class of 'ernie4_5_vl_moe' in transformers has axes of images always.")


def _dots3_note(given: dict[str, Any], findings: Findings) -> None:
    """dots3.note (configuration_dots3_note.py): ``sliding_window_size``, 512 where the file has neither name."""
    del findings
    size = given.pop("sliding_window_size", None)
    if given.get("sliding_window") is None:
        given["sliding_window"] = _first_of(size, 512)


def _neobert(given: dict[str, Any], findings: Findings) -> None:
    """NeoBERT (model.py): ``max_length``."""
    del findings
    _rename(given, "max_length", "max_position_embeddings")


def _linear_attention(given: dict[str, Any], findings: Findings) -> None:
    """Models of flash-linear-attention (fla/models, fla/layers/attn.py): a group ``attn`` of layers with attention."""
    del findings
    group, count = given.pop("attn", None), given.get("num_hidden_layers")
    listed = group.get("layers") if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or not isinstance(listed, list) or not listed:
        raise ConfigError("config.json names no layers with attention, in a group attn: none rotates.")
    if not isinstance(count, int) or not 0 < count <= 10_000:
        raise ConfigError(f"'num_hidden_layers' in config.json must be a number of layers; got {count!r:.40}.")
    for name in ("head_dim", "num_heads", "rope_theta"):
        given.pop(name, None)  # of the layers without attention
    window = group.get("window_size")
    attention = "full_attention" if window is None else "sliding_attention"
    given["layer_types"] = [attention if index in listed else "linear_attention" for index in range(count)]
    given |= {"num_attention_heads": group.get("num_heads"), "sliding_window": window}
    given["rope_theta"] = _first_of(group.get("rope_theta"), 10_000.0)


def _mixformer(given: dict[str, Any], findings: Findings) -> None:
    """Phi-1.5 and Phi-2 as first published (modeling_mixformer_sequential.py, modeling_phi.py)."""
    del findings
    given.pop("flash_rotary", None)  # by which kernel


def _number(value: Any, name: str) -> float | None:
    if value is not None and not is_number(value):
        raise ConfigError(f"'{name}' in config.json must be a number; got {value!r}.")
    return value


def _rename(given: dict[str, Any], theirs: str, ours: str) -> None:
    value = given.pop(theirs, None)
    if value is not None:
        given[ours] = value


_LINEAR = """
comba delta_net gated_deltanet gated_deltaproduct gla gsa hgrn hgrn2 kda lightnet linear_attn mesa_net mom
precond_gated_deltanet precond_kda samba
"""
_LINEAR_ATTENTION = tuple(_LINEAR.split())
"""Model types of flash-linear-attention whose layers rotate nothing, but for those of the group ``attn``."""

_Translation = Callable[[dict[str, Any], Findings], None]
_TRANSLATIONS: dict[str, _Translation] = {
    "chatglm": _chatglm,
    "openelm": _openelm,
    "nomic_bert": _nomic_bert,
    "phi3small": _phi3_small,
    "stablelm_epoch": _stablelm_epoch,
    "internlm": _internlm,
    "baichuan": _baichuan,
    "qwen": _qwen,
    "kimi_linear": _kimi_linear,
    "dbrx": _dbrx,
    "hf_olmo": _olmo,
    "llada": _olmo,
    "mpt": _mpt,
    "deepseek": _deepseek,
    "smallthinker": _smallthinker,
    "step3p5": _step3p5,
    "mimo_v2_flash": _mimo_v2,
    "deepseek_v4": _deepseek_v4,
    "clvp_encoder": _clvp_encoder,
    "dots3_note_text": _dots3_note,
    "neobert": _neobert,
    "mixformer-sequential": _mixformer,
    "phi-msft": _mixformer,
    "ernie4_5_vl_moe_text": _ernie_vl,
    "hunyuan": _hunyuan,
    "hunyuan_v1_dense": _hunyuan,
    "hunyuan_v1_moe": _hunyuan,
    "hunyuan_vl_text": _hunyuan,
    **dict.fromkeys(_LINEAR_ATTENTION, _linear_attention),
}


def in_usual_names(content: Mapping[str, Any], findings: Findings) -> Mapping[str, Any]:
    """Return the entries of a config.json under the names that transformers has for them.

    Args:
        content: The text part of config.json.
        findings: Where findings go.

    Raises:
        ConfigError: An entry stands for something that no rotary configuration expresses, or is wrong.
    """
    translate = _TRANSLATIONS.get(str(content.get("model_type")))
    if translate is None:
        return content
    given = dict(content)
    translate(given, findings)
    return given


def _half(**defaults: Any) -> dict[str, Any]:
    return {"defaults": defaults, "rotates_partly": True}


OWN_CODE: dict[str, ModelType] = {
    name: ModelType(name, **facts)
    for name, facts in {
        "chatglm": {"layout": "interleaved", **_half(num_attention_heads=32, hidden_size=4096)},
        "openelm": _half(head_dim=128),
        "phi3small": _half(rope_theta=1e6, hidden_size=4096, num_attention_heads=32),
        "stablelm_epoch": _half(rope_theta=10000.0, partial_rotary_factor=0.25),
        "internlm": _half(rope_theta=10000.0),
        "internlm2": _half(rope_theta=10000.0),
        "baichuan": _half(rope_theta=10000.0),
        "qwen": _half(rope_theta=10000.0),
        "dbrx": _half(rope_theta=10000.0, d_model=2048, n_heads=16, n_layers=24),
        "kimi_k2": {"layout": "interleaved", "can_turn_to_halves": True, **_half(rope_theta=50000.0)},
        "hunyuan": _half(rope_theta=10000.0),
        "xverse": _half(rope_theta=10000.0),
        "orion": _half(rope_theta=10000.0),
        "deepseek": _half(rope_theta=10000.0),
        "minicpm": _half(rope_theta=10000.0),
        "minicpm3": _half(rope_theta=10000.0),
        "exaone": _half(rope_theta=10000.0),
        "internlm3": _half(rope_theta=10000.0, head_dim=128),
        "hf_olmo": _half(rope_theta=10000.0, n_layers=32, n_heads=32),
        "llada": _half(rope_theta=10000.0),
        "smallthinker": _half(rope_theta=10000.0),
        "minimax_text_01": _half(rope_theta=10_000_000.0),
        "minimax_m1": _half(rope_theta=10_000_000.0),
        "neobert": {"layout": "interleaved", **_half(rope_theta=10000.0)},
        "bailing_moe": _half(rope_theta=10000.0),  # Ling-lite, Ling-plus (modeling_bailing_moe.py)
        "sundial": _half(rope_theta=10000.0),  # (modeling_sundial.py)
        "time_moe": _half(rope_theta=10000.0),  # (modeling_time_moe.py)
        **{name: _half(rope_theta=10000.0) for name in _LINEAR_ATTENTION},
        "mimo": _half(rope_theta=10000.0),  # (modeling_mimo.py, whose base is Qwen2's)
        "minicpmv": _half(rope_theta=10000.0),  # MiniCPM-V 2 to 2.6, with the entries of the language model
        "molmo": _half(rope_theta=10000.0),  # (modeling_molmo.py)
        "PanguEmbedded": _half(rope_theta=10000.0),  # openPangu-Embedded (modeling_openpangu_dense.py)
        "RefinedWeb": _half(rope_theta=10000.0),  # Falcon-40B as first published (modelling_RW.py)
        "RefinedWebModel": _half(rope_theta=10000.0),  # Falcon-7B
        "mixformer-sequential": _half(rope_theta=10000.0, rotary_dim=32),
        "phi-msft": _half(rope_theta=10000.0, rotary_dim=32),
        "codet5p_module": {"layout": "interleaved", **_half(rope_theta=10000.0)},  # CodeT5+ of 2B to 16B, as CodeGen
        "deepseek_vl_v2": {"text_part": ("language_config",), "text_type": "deepseek_v2"},
        "ernie4_5_moe_vl": {"text_type": "ernie4_5_vl_moe_text"},
        # without rotary positions
        "gpt_refact": {"rotates": False},
        **{name: {"rotates": False} for name in ("phi4flash", "rwkv5", "rwkv6", "rwkv7")},
    }.items()
}
"""Facts of model types that transformers has no class for."""
