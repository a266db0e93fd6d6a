"""Entries of models whose code comes with their checkpoints, in the names of transformers: one rotation for all layers.

Every function names the model and the file of its code that it speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes import families
from locant.rotary_configs.spellings import is_count

Findings = list[Finding]


def chatglm(given: dict[str, Any], findings: Findings) -> None:
    """ChatGLM2, ChatGLM3, GLM-4-9B (modeling_chatglm.py): half of a head of ``kv_channels``, a larger base."""
    if given.get("position_encoding_2d"):
        raise ConfigError(
            "config.json has position_encoding_2d true: ChatGLM-6B turns half of a head by the position and half by "
            "the place within the answer, which a rotary configuration does not express."
        )
    rename(given, "kv_channels", "head_dim")
    rename(given, "seq_length", "max_position_embeddings")
    rename(given, "num_layers", "num_hidden_layers")
    leave_out(given, "rotary_percent", 0.5)  # which the code does not read: CodeGeeX2 says what it does in any case
    given.setdefault("partial_rotary_factor", 0.5)
    ratio = number(given.pop("rope_ratio", None), "rope_ratio") or 1.0
    given["rope_theta"] = (number(given.get("rope_theta"), "rope_theta") or 10_000.0) * ratio
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


def openelm(given: dict[str, Any], findings: Findings) -> None:
    """OpenELM (configuration_openelm.py): ``rope_freq_constant`` is the base."""
    del findings
    rename(given, "rope_freq_constant", "rope_theta")
    rename(given, "num_transformer_layers", "num_hidden_layers")
    rename(given, "max_context_length", "max_position_embeddings")
    given.pop("rope_max_length", None)  # the length of a table of angles, which grows


def nomic_bert(given: dict[str, Any], findings: Findings) -> None:
    """nomic-bert-2048, nomic-embed-text (modeling_hf_nomic_bert.py): xPos and NTK as options.

    vLLM takes the same names for base and share; the class of transformers passes over them, before they get here.
    """
    del findings
    if given.pop("rotary_emb_scale_base", None) is not None:
        raise ConfigError("rotary_emb_scale_base stands for xPos, whose decay a rotary configuration does not hold.")
    rename(given, "rotary_emb_base", "rope_theta")
    rename(given, "rotary_emb_fraction", "partial_rotary_factor")
    if given.get("partial_rotary_factor") == 0:
        raise NoRotaryPositionsError("rotary_emb_fraction is 0: the model has no rotary positions.")
    factor = number(given.pop("rotary_scaling_factor", None), "rotary_scaling_factor")
    trained = given.pop("max_trained_positions", None)
    if factor:
        given["rope_scaling"] = {"rope_type": "dynamic", "factor": factor}
        given["max_position_embeddings"] = trained or given.get("n_positions")


def phi3_small(given: dict[str, Any], findings: Findings) -> None:
    """Phi-3-small (modeling_phi3_small.py): ``rope_embedding_base``, positions divided by ``rope_position_scale``.

    Layers that are not dense attend to the blocks nearby and to every so many-th block (BlockSparseAttentionLayer).
    """
    every = given.get("dense_attention_every_n_layers")
    size, near, stride = (
        given.get(f"blocksparse_{name}", 0) for name in ("block_size", "num_local_blocks", "vert_stride")
    )
    if is_count(size) and is_count(near) and is_count(stride):
        layers = f"Layers whose number, counted from 1, is no multiple of {every}" if is_count(every) else "All layers"
        findings.append(
            Finding(
                "note",
                f"{layers} attend block-sparsely in the model's own code: a token sees its own block of {size} tokens, "
                f"the {near - 1} blocks before it and, further back, every {stride}th. No window is shown for it.",
                "Use the masks of the model's code.",
            )
        )
    rename(given, "rope_embedding_base", "rope_theta")
    scale = number(given.pop("rope_position_scale", None), "rope_position_scale")
    if scale not in (None, 1):
        if given.get("rope_scaling"):
            raise ConfigError(
                f"rope_position_scale {scale:g} and rope_scaling are both given; no scaling here does both."
            )
        given["rope_scaling"] = {"rope_type": "linear", "factor": scale}


def stablelm_epoch(given: dict[str, Any], findings: Findings) -> None:
    """StableLM 3B, Zephyr 3B (modeling_stablelm_epoch.py): ``rope_pct``."""
    del findings
    rename(given, "rope_pct", "partial_rotary_factor")


def internlm(given: dict[str, Any], findings: Findings) -> None:
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
        raise ConfigError(f"Unknown type {in_json(kind)} in the group 'rotary' of config.json. Known: origin, dynamic.")


def baichuan(given: dict[str, Any], findings: Findings) -> None:
    """Baichuan, Baichuan2 (modeling_baichuan.py): 7B rotates, 13B, which is wider, has ALiBi.

    The configuration of 13B calls the length ``model_max_length`` and has no ``max_position_embeddings``.
    """
    del findings
    is_of_13b = "model_max_length" in given and "max_position_embeddings" not in given
    if is_of_13b and given.get("hidden_size") not in (None, 4096, 5120):
        raise NoRotaryPositionsError(
            "The file has model_max_length and no max_position_embeddings, as the code of Baichuan of 13 billion "
            "parameters has it: that has ALiBi and no rotary positions. The code beside the weights decides."
        )
    rename(given, "model_max_length", "max_position_embeddings")
    if given.get("hidden_size") == 5120:
        raise NoRotaryPositionsError(
            "Baichuan of 13 billion parameters (hidden_size 5120) has ALiBi and no rotary positions."
        )


def qwen(given: dict[str, Any], findings: Findings) -> None:
    """Qwen-7B to 72B of 2023 (modeling_qwen.py): ``kv_channels``, NTK by length and log-scaled queries as options."""
    rename(given, "kv_channels", "head_dim")
    length = given.pop("seq_length", None)
    if length is not None:
        given["max_position_embeddings"] = length
    rename(given, "rotary_emb_base", "rope_theta")
    rename(given, "rotary_pct", "partial_rotary_factor")
    trained = "seq_length" if length is None else in_json(length)
    if given.pop("use_dynamic_ntk", False):
        findings.append(
            Finding(
                "warning",
                f"use_dynamic_ntk: texts longer than {trained} tokens raise the base by steps, which a rotary "
                "configuration does not hold; what is shown is the rotation within that length.",
                "Measure long texts with the model's own code.",
            )
        )
    if given.pop("use_logn_attn", False):
        findings.append(
            Finding(
                "note",
                f"use_logn_attn multiplies queries beyond {trained} tokens by log(position) / log({trained}).",
                "Scale the queries in the attention.",
            )
        )


def kimi_linear(given: dict[str, Any], findings: Findings) -> None:
    """Kimi-Linear (modeling_kimi.py): ``mla_use_nope`` leaves its attention without positions."""
    del findings
    if given.pop("mla_use_nope", False):
        raise NoRotaryPositionsError("config.json has mla_use_nope true: the model has no rotary positions.")


def dbrx(given: dict[str, Any], findings: Findings) -> None:
    """DBRX (modeling_dbrx.py): base in the group ``attn_config``, which the class of transformers 5 passes over."""
    group = given.get("attn_config")
    if not isinstance(group, Mapping) or group.get("rope_theta") is None:
        return
    written = given.get("rope_parameters")
    beside = given.get("rope_theta") or 10_000
    taken = written.get("rope_theta", beside) if isinstance(written, Mapping) else beside
    if not is_number(taken):
        return  # which the group itself is refused for
    if group["rope_theta"] != taken:
        findings.append(
            Finding(
                "warning",
                f"rope_theta {group['rope_theta']!r:.20} stands in attn_config, where the model's own code and vLLM "
                f"look for it. The class of 'dbrx' in transformers 5 passes over it and takes {taken:.10g}, as is "
                "shown.",
                f"State rope_theta {group['rope_theta']!r:.20} in config.json itself as well, for the class.",
            )
        )
        given.setdefault("rope_theta", taken)  # of which that is told


def olmo(given: dict[str, Any], findings: Findings) -> None:
    """OLMo as first published, LLaDA (modeling_olmo.py, modeling_llada.py): ``max_sequence_length``, switches."""
    del findings
    rename(given, "max_sequence_length", "max_position_embeddings")
    given.pop("rope_full_precision", None)  # angles are float32 in any case


def mpt(given: dict[str, Any], findings: Findings) -> None:
    """MPT (modeling_mpt.py of llm-foundry): ``rope`` in the group ``attn_config``, which its own code alone reads."""
    group = given.get("attn_config")
    if not isinstance(group, Mapping) or group.get("rope") is not True:
        return
    whose = "the class of 'mpt' in transformers has ALiBi, whatever the file says"
    if not given.get("auto_map"):
        raise ConfigError(f"attn_config of config.json has rope true: the code of llm-foundry rotates, but {whose}.")
    by = "rope_hf_config" if group.get("rope_impl") == "hf" else "rope_dail_config"
    options = group.get(by)
    options = dict(options) if isinstance(options, Mapping) else {}
    kind = options.pop("type", "no_scaling")
    if kind == "xpos":
        raise ConfigError(f"{by} of config.json has the type 'xpos', whose decay a rotary configuration does not hold.")
    given["rope_theta"] = first_of(number(group.get("rope_theta"), "rope_theta"), 10_000.0)
    if by == "rope_hf_config" and kind != "no_scaling":
        given["rope_scaling"] = {"rope_type": kind, **options}
    findings.append(
        Finding(
            "warning",
            f"attn_config has rope true: the code that the file names in auto_map rotates, as is shown here; {whose}.",
            "Load the model with its own code.",
        )
    )


def deepseek(given: dict[str, Any], findings: Findings) -> None:
    """DeepSeek-MoE, and the text parts of DeepSeek-OCR and DeepSeek-VL2 without latent attention."""
    del findings
    for name in ("qk_rope_head_dim", "qk_nope_head_dim"):
        if not given.get(name):
            given.pop(name, None)


def clvp_encoder(given: dict[str, Any], findings: Findings) -> None:
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


def ernie_vl(given: dict[str, Any], findings: Findings) -> None:
    """ERNIE 4.5 VL as first published (configuration_ernie4_5_vl.py): axes, as its class in transformers has them."""
    del findings
    if given.pop("rope_3d", True) is False:
        raise ConfigError("rope_3d false: the class of 'ernie4_5_vl_moe' in transformers has axes of images always.")


_LONG_OF_ZAMBA2 = 16_384


def zamba2(given: dict[str, Any], findings: Findings) -> None:
    """Zamba2 (configuration_zamba2.py): heads of twice the width, and a length of its own by ``use_long_context``."""
    if given.pop("use_long_context", False):
        findings.append(
            Finding(
                "warning",
                "use_long_context is true in config.json, by which the class of 'zamba2' sets max_position_embeddings "
                f"to {_LONG_OF_ZAMBA2} and nothing else: the base that it announces to rescale stays as it is.",
                "State the rope_theta that the weights were trained with for long texts.",
            )
        )
        given["max_position_embeddings"] = _LONG_OF_ZAMBA2
    width, heads = given.get("hidden_size", 2560), given.get("num_attention_heads", 32)
    if not (isinstance(width, int) and isinstance(heads, int) and heads > 0):
        return
    size = 2 * width // heads
    for name in ("head_dim", "attention_head_dim"):
        stated = given.pop(name, None)
        if stated not in (None, size):
            findings.append(
                Finding(
                    "warning",
                    f"{name} is {stated!r:.20} in config.json, which the class of 'zamba2' passes over: its heads have "
                    f"2 * hidden_size / num_attention_heads features, {size}.",
                    "Remove the entry.",
                )
            )
    given["head_dim"] = size  # kv_channels, which stands beside, is half of it


def gte_new(given: dict[str, Any], findings: Findings) -> None:
    """gte-base-en-v1.5, gte-multilingual-base (modeling.py of new-impl): NTK that is fixed, as factors of every pair.

    Frequencies ``(base * s)^(-2i / d)`` are divided by ``s^(2 / d)``, or by ``exp(a * (i + 1)^b)`` with ``mixed_b``.
    """
    del findings
    group, length = given.get("rope_scaling"), given.get("max_position_embeddings")
    if not isinstance(group, Mapping) or group.get("type") != "ntk":
        return
    width, heads = given.get("hidden_size"), given.get("num_attention_heads")
    factor, mixed = number(group.get("factor"), "factor"), number(group.get("mixed_b"), "mixed_b")
    if not (isinstance(width, int) and isinstance(heads, int) and heads > 0) or not is_number(length):
        raise ConfigError("rope_scaling of type 'ntk' needs hidden_size, num_attention_heads, max_position_embeddings.")
    if factor is None or not 1 <= factor <= 1e6 or (mixed is not None and not 0 < mixed <= 10):
        raise ConfigError(f"rope_scaling of type 'ntk' needs a factor from 1 on; got {group.get('factor')!r:.40}.")
    pairs = width // heads // 2
    if mixed is None:
        factors = [factor ** ((index + 1) / pairs) for index in range(pairs)]
    else:
        factors = [factor ** (((index + 1) / pairs) ** mixed) for index in range(pairs)]
    lists = {"short_factor": factors, "long_factor": factors, "original_max_position_embeddings": length}
    given["rope_scaling"] = {"rope_type": "longrope", "factor": 1.0, "attention_factor": 1.0, **lists}


def moonshine(given: dict[str, Any], findings: Findings) -> None:
    """Moonshine (modeling_moonshine.py of transformers): heads of the encoder and of the decoder, which are alike."""
    del findings
    heads, layers = "num_attention_heads", "num_hidden_layers"
    kind = families.model_type("moonshine")
    assert kind is not None
    for name in (f"encoder_{heads}", f"decoder_{heads}", f"decoder_{layers}"):
        given.setdefault(name, kind.defaults[name])
    if given[f"encoder_{heads}"] != given[f"decoder_{heads}"]:
        raise ConfigError(
            f"encoder_{heads} and decoder_{heads} of config.json differ, so heads do; one configuration cannot be both."
        )
    for name in (heads, layers):
        rename(given, f"decoder_{name}", name)
        given.pop(f"encoder_{name}", None)
    given.pop("pad_head_dim_to_multiple_of", None)  # for a kernel, after the rotation


def conformer(given: dict[str, Any], findings: Findings) -> None:
    """Wav2Vec2-Conformer, Wav2Vec2-BERT (modeling_wav2vec2_conformer.py of transformers), with ``rotary``."""
    del given
    findings.append(
        Finding(
            "warning",
            "The class turns the parts of hidden states, as wide as heads, before queries and keys are projected from "
            "them: an engine that rotates queries and keys runs another model.",
            "Turn the hidden states, in code of your own; no rotary scheme does.",
        )
    )


def neobert(given: dict[str, Any], findings: Findings) -> None:
    """NeoBERT (model.py): ``max_length``; it saves ``dim_head``, which it computes from the width and the heads."""
    del findings
    rename(given, "max_length", "max_position_embeddings")
    given.pop("dim_head", None)


def mixformer(given: dict[str, Any], findings: Findings) -> None:
    """Phi-1.5 and Phi-2 as first published (modeling_mixformer_sequential.py, modeling_phi.py)."""
    del findings
    given.pop("flash_rotary", None)  # by which kernel


def number(value: Any, name: str) -> float | None:
    """Return a value that must be a number where there is one."""
    if value is not None and not is_number(value):
        raise ConfigError(f"'{name}' in config.json must be a number; got {in_json(value)}.")
    return value


def first_of(stated: Any, usual: float) -> Any:
    """Return a value, or the usual one where there is none."""
    return usual if stated is None else stated


def leave_out(given: dict[str, Any], name: str, value: Any) -> None:
    """Remove an entry that the model's code does not read, where it says what that code does in any case."""
    if (name, value) in given.items():
        del given[name]


def rename(given: dict[str, Any], theirs: str, ours: str) -> None:
    """Move a value to another name, which it replaces where it is not null."""
    value = given.pop(theirs, None)
    if value is not None:
        given[ours] = value
