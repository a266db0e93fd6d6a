"""Small configurations of an architecture with options drawn at random, as transformers writes them to config.json."""

from __future__ import annotations

import copy
import json
import random
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.extension.inspect.model_class.small_model import entries_of, quiet, reduced_entries
from locant.extension.inspect.model_class.turning_axes import takes_axes

LENGTH = 512  # tokens that the models are declared for
BASES = (5000.0, 10000.0, 250000.0, 1e6)
SIZES = (8, 16, 24, 32)
WINDOWS = (
    *("sliding_window", "sliding_window_size", "local_attention", "attention_window_size", "attention_chunk_size"),
    "window_size",
)
FORMS = ("saved", "old names", "defaults left out")


_NO_DROPOUT = {"dropout_rate": 0.0}  # which the whole hands on to its parts
_INDEXER = ("n_heads", "kv_heads", "head_dim", "budget", "compress_ratio")
STATED: dict[str, dict[str, Any]] = {
    "chameleon": {"vocabulary_map": {"<image>": 3}},
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e4},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
    },
    "dbrx": {"attn_config": {"rope_theta": 5e5, "kv_n_heads": 8, "clip_qkv": 8}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] * 32},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "dory": {
        "num_hidden_layers": 6,
        **dict.fromkeys(("n_input_layers", "n_recurrent_layers", "n_output_layers"), 2),
        "layer_types": ["sliding_attention", "mlp", "sliding_attention", "mlp", "full_attention", "mlp"],
    },
    "glm4v_moe_text": {"num_attention_heads": 32},
    "clvp_encoder": {"projection_dim": 64},
    "glm4v_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "glm_image_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "hunyuan_vl_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 24, 24]}},
    "qwen4_exp_text": {f"indexer_{name}": size for name, size in zip(_INDEXER, (2, 1, 256, 16, 4), strict=True)},
    "step3p5": {"sliding_window": 512},
    "t5gemma2_decoder": _NO_DROPOUT,
    "t5gemma2_text": _NO_DROPOUT,
    "qwen2_5_omni_talker": {"embedding_size": 3584, "hidden_size": 3584},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "qwen3_omni_moe_text": {"num_attention_heads": 16},
}
"""Entries that published files of a type state, and without which its class builds no model."""


_UNSCALED = ("ernie4_5_vl_moe_text",)  # refuses every scaling


@dataclass(frozen=True)
class Case:
    """One config.json.

    Attributes:
        model_type: The architecture.
        seed: What its options were drawn by.
        form: ``saved`` as transformers writes it; ``old names`` with the entries of release 4 where it has such;
            ``defaults left out`` without some entries for which the class has a default.
        content: The object in the file.
        rope_type: The scaling that was drawn.
    """

    model_type: str
    seed: int
    form: str
    content: dict[str, Any]
    rope_type: str


def draw_case(
    config_class: Any, model_type: str, seed: int, *, heads: int | None = 2, scaled: bool = True, again: int = 0
) -> Case:
    """Return a case of an architecture; the same arguments give the same.

    Args:
        config_class: Class of the configuration.
        model_type: Its name.
        seed: Seed 0 keeps the options of the class, in small.
        heads: Number of heads.
        scaled: Whether frequencies may be scaled.
        again: How often the class has refused a case of this seed.
    """
    refused: Exception | None = None
    for attempt in range(6 if seed else 1):
        rng = random.Random(f"{model_type} {seed} {attempt}{f' {again}' if again else ''}")
        try:
            content, rope_type = (
                _drawn(config_class, rng, heads, scaled=scaled and attempt < 4, switched=seed % 2 == 1 and attempt < 4)
                if seed
                else _usual(config_class, heads)
            )
            break
        except Exception as error:  # a class that has some scalings, or sizes, alone
            refused = error
    else:
        assert refused is not None
        raise refused
    form = FORMS[0] if seed < 2 else rng.choice(FORMS)
    if form == "old names":
        content = with_old_names(content)
    elif form == "defaults left out":
        content = _without_defaults(content, rng)
    return Case(model_type, seed, form, content, rope_type)


def _usual(config_class: Any, heads: int | None) -> tuple[dict[str, Any], str]:
    with quiet():
        entries = reduced_entries(usual_entries(config_class), layers=6, heads=heads)
    return _saved(config_class, entries), "default"


def _drawn(
    config_class: Any, rng: random.Random, heads: int | None, *, scaled: bool, switched: bool
) -> tuple[dict[str, Any], str]:
    with quiet():
        entries = usual_entries(config_class)
    _draw_sizes(entries, rng)
    rope = entries.get("rope_parameters")
    if rope and "rope_type" in rope and takes_axes(config_class, stated=True):
        scaled = scaled and config_class.model_type not in _UNSCALED
        rope["mrope_section"] = [] if scaled else sections(entries, rope, 3)[::-1]
    rope_type = _draw_rope(entries, rng) if scaled else "default"
    _draw_windows(entries, rng)
    entries = reduced_entries(entries, layers=6, heads=heads)
    _draw_layers(entries, rng)
    _flip_switches(entries, rng)
    for switches in SWITCHED_ON if switched else ():
        entries |= copy.deepcopy(switches) if switches.keys() <= entries.keys() else {}
    return _saved(config_class, entries), rope_type


SWITCHED_ON: tuple[dict[str, Any], ...] = (
    {"position_embedding_type": "rotary"},
    {"position_embedding_type": "rope", "layer_types": ["full_attention", "linear_attention"] * 3},
    {"use_mem_rope": True},
    {"use_mem_rope": True, "layers_block_type": ["linear_attention", "hybrid"] * 3},
    {"use_mem_rope": True, "layer_types": ["linear_attention", "hybrid"] * 3},
    {"attn_layer_indices": [1, 3]},
)
"""Entries with which classes rotate that do not by their defaults, by what they have."""


def usual_entries(config_class: Any) -> dict[str, Any]:
    """Return the entries of a class as published files have them."""
    given = copy.deepcopy(STATED.get(config_class.model_type, {}))
    return {**entries_of(config_class(**copy.deepcopy(given))), **given}


def _saved(config_class: Any, entries: dict[str, Any]) -> dict[str, Any]:
    with quiet(), tempfile.TemporaryDirectory() as folder:
        config_class(**copy.deepcopy(entries)).save_pretrained(folder)
        content: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    return content


def _draw_sizes(entries: dict[str, Any], rng: random.Random) -> None:
    size = rng.choice(SIZES)
    sums = _heads_of_two_parts(entries)
    heads = next((entries[name] for name in ("num_attention_heads", "n_head", "num_heads") if entries.get(name)), None)
    if isinstance(heads, int) and entries.get("hidden_size") == heads * (entries.get("head_dim") or 0):
        entries["hidden_size"] = heads * size
    if isinstance(entries.get("rotary_dim"), int):
        entries["rotary_dim"] = size // 2
    if entries.get("qk_rope_head_dim") and isinstance(entries["qk_rope_head_dim"], int):
        if entries.get("head_dim") == entries["qk_rope_head_dim"]:
            entries["head_dim"] = size
        whole = entries["qk_rope_head_dim"] + (entries.get("qk_nope_head_dim") or 0)
        for name in ("head_dim", "qk_head_dim"):
            if entries.get(name) == whole:
                entries[name] = whole - entries["qk_rope_head_dim"] + size
        entries["qk_rope_head_dim"] = size
        if "partial_rotary_factor" in (entries.get("rope_parameters") or {}):
            entries["qk_nope_head_dim"] = size  # the factor stays a half
    elif entries.get("head_dim") and isinstance(entries["head_dim"], int):
        entries["head_dim"] = size
    for layer in sums:
        own = {**entries, **layer}
        layer["head_dim"] = own["qk_nope_head_dim"] + own["qk_rope_head_dim"]
    for name in ("hidden_size", "n_embd", "d_model"):
        if isinstance(entries.get(name), int) and isinstance(heads, int) and "head_dim" not in entries:
            entries[name] = size * heads
    if "flow_head_config" in entries:
        entries["flow_head_config"] = {**entries["flow_head_config"], "condition_dim": entries["hidden_size"]}
    for name in ("max_position_embeddings", "n_positions", "model_max_length"):
        if isinstance(entries.get(name), int):
            entries[name] = LENGTH


def _heads_of_two_parts(entries: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the layers with entries of their own whose heads are a rotated part and another, and state the sum."""
    found = []
    for layer in (entries.get("per_layer_config") or {}).values():
        own = {**entries, **layer}
        parts = [own.get("qk_nope_head_dim"), own.get("qk_rope_head_dim")]
        if all(isinstance(part, int) for part in parts) and own.get("head_dim") == sum(parts):
            found.append(layer)
    return found


def _draw_windows(entries: dict[str, Any], rng: random.Random) -> None:
    for name in WINDOWS:
        if isinstance(entries.get(name), int):
            entries[name] = rng.choice([4, 6, 8])
    if entries.get("sliding_window", 0) is None:
        entries["sliding_window"] = rng.choice([None, 6])
    if isinstance(entries.get("use_sliding_window"), bool):
        entries["use_sliding_window"] = rng.random() < 0.5
        entries["layer_types"] = None  # the class takes them from these
    if isinstance(entries.get("max_window_layers"), int):
        entries["max_window_layers"] = rng.randint(0, 6)


def _draw_rope(entries: dict[str, Any], rng: random.Random) -> str:
    rope = entries.get("rope_parameters")
    if not isinstance(rope, dict) or not rope:
        return "default"
    if not all(isinstance(value, dict) or value is None for value in rope.values()):
        entries["rope_parameters"] = _drawn_group(rope, entries, rng)
        return entries["rope_parameters"]["rope_type"]
    groups = {name: group and _drawn_group(group, entries, rng) for name, group in rope.items()}
    entries["rope_parameters"] = groups
    return "+".join(sorted({group["rope_type"] for group in groups.values() if group}))


def _drawn_group(group: dict[str, Any], entries: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    kept = {key: value for key, value in group.items() if key.startswith(("mrope", "partial", "llama_4", "max_pos"))}
    if "mrope_section" in kept:
        kept["mrope_section"] = sections(entries, kept, len(kept["mrope_section"]) or 3)
    is_tied = "partial_rotary_factor" in entries or entries.get("qk_rope_head_dim")
    if kept.get("partial_rotary_factor") is not None and "mrope_section" not in kept and not is_tied:
        kept["partial_rotary_factor"] = rng.choice([0.25, 0.5, 0.75])
    kept["rope_theta"] = rng.choice(BASES)
    kind = group.get("rope_type", "default")
    if kind == "proportional":
        return kept | {"rope_type": "proportional", "factor": rng.choice([1.0, 8.0])}
    kind = rng.choice(["default", "default", "linear", "dynamic", "yarn", "llama3", "longrope"])
    if "mrope_section" in kept:
        kind = rng.choice(["default", "linear", "yarn"])
    original = LENGTH // 4
    drawn: dict[str, dict[str, Any]] = {
        "default": {},
        "linear": {"factor": rng.choice([2.0, 4.0])},
        "dynamic": {"factor": 2.0},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": original} | _yarn_options(rng),
        "llama3": {
            "factor": 4.0,
            "low_freq_factor": rng.choice([0.5, 1.0]),
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": original,
        },
        "longrope": {"factor": 4.0, "original_max_position_embeddings": original} | _lists(kept, entries, rng),
    }
    return kept | {"rope_type": kind} | drawn[kind]


def _yarn_options(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        [
            {},
            {"beta_fast": 24.0},
            {"attention_factor": 1.125},
            {"mscale": 1.0, "mscale_all_dim": 0.5},
            {"truncate": False},
        ]
    )


def sections(entries: dict[str, Any], group: dict[str, Any], axes: int) -> list[int]:
    """Return sections of several axes that sum to the pairs of a head."""
    pairs = _pairs(group, entries)
    return [pairs - (axes - 1) * (pairs // 4), *([pairs // 4] * (axes - 1))]


def _pairs(group: dict[str, Any], entries: dict[str, Any]) -> int:
    head = entries.get("qk_rope_head_dim") or entries.get("head_dim")
    if not isinstance(head, int):
        head = entries.get("hidden_size", 64) // (entries.get("num_attention_heads") or 1)
    return int(head * group.get("partial_rotary_factor", 1.0)) // 2


def _lists(group: dict[str, Any], entries: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    pairs = _pairs(group, entries)
    return {
        "short_factor": [round(rng.uniform(1, 1.5), 3) for _ in range(pairs)],
        "long_factor": [round(rng.uniform(1, 4), 3) for _ in range(pairs)],
    }


def _draw_layers(entries: dict[str, Any], rng: random.Random) -> None:
    types = entries.get("layer_types")
    if isinstance(types, list) and types and "per_layer_config" not in entries:
        known = sorted({*types} - {"mlp"})
        drawn = [*(rng.choice(known) for _ in types[1:]), types[-1]]
        entries["layer_types"] = ["mlp" if kind == "mlp" else each for kind, each in zip(types, drawn, strict=True)]
    if entries.get("rope_scaling_layers"):
        entries["rope_scaling_layers"] = sorted(rng.sample(range(6), rng.randint(0, 6)))
    if isinstance(entries.get("no_rope_layers"), list):
        entries["no_rope_layers"] = [rng.randint(0, 1) for _ in entries["no_rope_layers"]]


def _flip_switches(entries: dict[str, Any], rng: random.Random) -> None:
    for name, value in entries.items():
        if isinstance(value, bool) and re.search(r"rope|rotary|nope", name):
            entries[name] = rng.random() < 0.5
    if "position_embedding_type" in entries:
        entries["position_embedding_type"] = rng.choice(["rope", "rotary", "absolute", None])


_NEOX_NAMES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}
_OLD_NAMES = {"gpt_neox": _NEOX_NAMES, "gpt_neox_japanese": _NEOX_NAMES}


def with_old_names(content: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json with the entries of transformers 4: base and scaling apart, at the top."""
    rope = content.get("rope_parameters")
    if not isinstance(rope, dict) or "rope_theta" not in rope:
        return content
    old = {key: value for key, value in content.items() if key != "rope_parameters"}
    names = _OLD_NAMES.get(content["model_type"], {})
    old[names.get("rope_theta", "rope_theta")] = rope["rope_theta"]
    scaling = {key: value for key, value in rope.items() if key not in ("rope_theta", "partial_rotary_factor")}
    if "partial_rotary_factor" in rope:
        old[names.get("partial_rotary_factor", "partial_rotary_factor")] = rope["partial_rotary_factor"]
    old["rope_scaling"] = None if scaling == {"rope_type": "default"} else scaling
    return old


_ABOUT_POSITIONS = re.compile(r"rope|rotary|head_dim|layer_types|max_position|sliding_window|interval|pattern")


def _without_defaults(content: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Leave out some entries about positions, for which the class then takes what it has."""
    names = [name for name in content if _ABOUT_POSITIONS.search(name) and name != "per_layer_config"]
    left_out = set(rng.sample(names, min(len(names), rng.randint(1, 2))))
    return {key: value for key, value in content.items() if key not in left_out}


@dataclass(frozen=True)
class _Same:
    """What stands for the value of an entry of the text part.

    Attributes:
        name: The entry.
    """

    name: str


_WIDTH = _Same("hidden_size")
_CODES = 16
_BESIDE_THE_TEXT: dict[str, dict[str, Any]] = {
    "apertus1p5": {
        **{part: {"codebook_size": _CODES} for part in ("vision_config", "audio_config")},
        "image_token_offset": 32 - _CODES,
        "audio_token_offset": 32,
    },
    "dots3_note": {"vision_config": {"adapter_out_dim": _WIDTH}, "audio_config": {"adapter_out_dim": _WIDTH}},
    "granite_docling": {"vision_config": {"out_hidden_size": _WIDTH}},
    "inkling2": {"vision_config": {"text_hidden_size": _WIDTH}},
    "inkling2_loop": {"vision_config": {"text_hidden_size": _WIDTH}},
    "muse_spark": {"audio_config": {"out_hidden_size": _WIDTH}},
    "t5gemma2": {
        "encoder": {"text_config": {name: _Same(name) for name in ("hidden_size", "num_attention_heads", "vocab_size")}}
    },
}
"""Entries beside the text part that a class wants to go with its width, or with its vocabulary."""


def _filled(stated: Any, text: dict[str, Any]) -> Any:
    """Return entries with those of the text part in the place of what stands for them."""
    if isinstance(stated, dict):
        return {name: _filled(each, text) for name, each in stated.items()}
    return text.get(stated.name) if isinstance(stated, _Same) else stated


def nested_case(case: Case, model_type: str, part: tuple[str, ...]) -> Case:
    """Return a case of a multimodal model: a text model's configuration within that of the whole."""
    content = case.content
    for name in reversed(part):
        content = {name: content}
    width = case.content.get("hidden_size")
    content |= {name: _filled(each, case.content) for name, each in _BESIDE_THE_TEXT.get(model_type, {}).items()}
    if model_type == "fun_asr_nano" and width:
        content["adaptor_config"] = {"hidden_size": width, "intermediate_size": width // 4}
    return Case(model_type, case.seed, case.form, {"model_type": model_type, **content}, case.rope_type)
