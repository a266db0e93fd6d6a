"""Entries of config.json about layers and their bases that few classes of transformers read.

Most classes pass over what is no entry of theirs. Which ones read an entry is known from the sources of transformers
5.24; a test looks for the names in those that are installed.
"""

from __future__ import annotations

from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.families import ModelType

_READERS = {
    "no_rope_layers": "llama4_text mistral_large4_text smollm3",
    "no_rope_layer_interval": "llama4_text mistral_large4_text smollm3",
    "layer_rope_theta": "granite_swa granitemoe_swa muse_glimmer_text muse_spark_text",
    "sliding_window_pattern": "cohere2 cohere2_moe cohere_compass_text embedding_gemma2_text exaone4 exaone4_5 "
    "exaone4_5_text exaone_moe gemma3_text t5gemma2_decoder t5gemma2_text",
    "max_window_layers": "dots1 got_ocr2 pp_chart2table qwen2 qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text "
    "qwen2_moe qwen2_vl_text qwen3 qwen3_omni_moe_talker_code_predictor",
    "rope_scaling_layers": "molmo2_text",
    "hybrid_override_pattern": "nemo_speechlm nemotron_h",
    "linear_attn_config": "glm5_next_text kimi_linear",
    "attn_layer_indices": "bamba",
    "full_attn_idxs": "lfm2",
    "attn_layer_period": "jamba zamba",
    "full_attention_interval": "qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp_text",
    "global_attn_every_n_layers": "afmoe modernbert modernbert-decoder",
    "rope_local_base_freq": "gemma3_text gemma3n_text t5gemma2_decoder t5gemma2_text",
    "local_rope_theta": "modernbert modernbert-decoder",
    "global_rope_theta": "modernbert modernbert-decoder",
}
READERS = {entry: frozenset(names.split()) for entry, names in _READERS.items()}
"""The model types of text whose classes read an entry."""

PASSES_OVER_GROUPS = frozenset(["clvp_encoder", "codegen", "cohere2_moe", "gptj", "roformer"])
"""Model types whose classes read neither a group of rotary parameters nor a share beside it."""

_SILENT = frozenset(["max_window_layers"])  # stands in many files beside a window that is switched off


def without_unread(given: dict[str, Any], kind: ModelType, findings: list[Finding]) -> None:
    """Remove the entries about layers that a class of transformers does not read, with a warning where they say more.

    Args:
        given: The entries of a text part, which are changed.
        kind: The facts of its class.
        findings: Where findings go.
    """
    unread = {entry: readers for entry, readers in READERS.items() if entry in given and kind.name not in readers}
    if kind.name in PASSES_OVER_GROUPS:
        _without_groups(given, kind, findings)
    for entry in unread:
        value = given.pop(entry)
        says_nothing = not value or (isinstance(value, list) and all(each == 1 for each in value))
        if entry in _SILENT and given.get("use_sliding_window") is not True:
            continue
        if not says_nothing:
            findings.append(
                Finding(
                    "warning",
                    f"{entry} is {in_json(value)} in config.json, which the class of '{kind.name}' in transformers "
                    "passes over.",
                    "Say it by layer_types or rope_parameters, as far as that class reads these, or name the code that "
                    "reads the entry.",
                )
            )


def _without_groups(given: dict[str, Any], kind: ModelType, findings: list[Finding]) -> None:
    """Remove the groups of rotary parameters and the share, of a class that has one plain rotation in any case."""
    plain = ("default", given.get("rope_theta"), kind.defaults.get("rope_theta"), None)
    for entry in ("rope_parameters", "rope_scaling", "partial_rotary_factor"):
        value = given.pop(entry, None)
        says = list(value.values()) if isinstance(value, dict) else [value]
        if any(each not in plain for each in says):
            findings.append(
                Finding(
                    "warning",
                    f"{entry} is {in_json(value)} in config.json, which the class of '{kind.name}' in transformers "
                    "passes over: it has one rotation without scaling.",
                    "Name a model type whose class reads it, if the weights were trained so.",
                )
            )
