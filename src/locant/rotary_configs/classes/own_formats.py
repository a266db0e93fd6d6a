"""Files of models' own code that have no model type: known by their entries, and put in the names of transformers.

Every function names the file of the code that it speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes.own_entries import Findings, first_of, number, rename


def is_gpt_oss(part: Mapping[str, Any]) -> bool:
    """Whether entries are those of gpt-oss's own code, whose files have no model type."""
    return "rope_ntk_alpha" in part and "initial_context_length" in part


def gpt_oss(given: dict[str, Any], findings: Findings) -> None:
    """gpt-oss by its own code (gpt_oss/torch/model.py): YaRN without rounded corners, where the factor is above 1."""
    del findings
    if not is_gpt_oss(given):
        return
    alpha, beta = (number(given.pop(name, None), name) for name in ("rope_ntk_alpha", "rope_ntk_beta"))
    factor = number(given.pop("rope_scaling_factor", None), "rope_scaling_factor")
    length = given.pop("initial_context_length")
    given["rope_parameters"] = {"rope_type": "default", "rope_theta": given.get("rope_theta", 150_000.0)}
    if factor is None or factor > 1:
        given["rope_parameters"] |= {
            "rope_type": "yarn",
            "factor": 32.0 if factor is None else factor,
            "beta_slow": 1.0 if alpha is None else alpha,
            "beta_fast": 32.0 if beta is None else beta,
            "original_max_position_embeddings": length,
            "truncate": False,
        }


PARAMS_JSON = "params.json"
"""The model type, here, of files of Meta's and Mistral's own code, which have none."""


def is_params_json(part: Mapping[str, Any]) -> bool:
    """Whether entries are those of params.json, by the names that its sizes have, beside no other names."""
    has_sizes = all(part.get(name) is not None for name in ("dim", "n_layers", "n_heads"))
    of_the_family = any(part.get(name) is not None for name in ("norm_eps", "multiple_of"))
    return has_sizes and of_the_family and part.get("hidden_size") is None


def params_json(given: dict[str, Any], findings: Findings) -> None:
    """Llama (llama/model.py), Mistral (mistral_inference/args.py) and ExecuTorch (model_args.py): their own names."""
    if given.pop("use_scaled_rope", False):
        factor = number(given.pop("rope_scaling_factor", given.pop("rope_scale_factor", None)), "rope_scaling_factor")
        given["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": 8.0 if factor is None else factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": first_of(given.pop("high_freq_factor", None), 4.0),
            "original_max_position_embeddings": 8192,
        }
    yarn = given.pop("yarn", None)
    if isinstance(yarn, Mapping):
        group = dict(yarn)
        rename(group, "beta", "beta_fast")
        rename(group, "alpha", "beta_slow")
        if group.pop("apply_scale", True) is False:
            group["attention_factor"] = 1.0
        given["rope_scaling"] = {"rope_type": "yarn", **group}
    lists = {name: given.pop(f"rope_scaling_{name}", None) for name in ("short_factor", "long_factor")}
    if all(isinstance(each, list) for each in lists.values()):
        given["rope_scaling"] = {"rope_type": "longrope", **lists}
    patches = [name for name in given if name.endswith("patch_size")]
    if patches:
        findings.append(
            Finding(
                "warning",
                f"{patches[0]} says that the model reads images in the same layers: its code may rotate a part of "
                "each head by their rows and columns, which is not known here. What is shown is Llama's rotation.",
                "Compare with the code that runs the model.",
            )
        )
    if "rope_theta" not in given:
        findings.append(
            Finding(
                "warning",
                "The file has no rope_theta: Llama 1 and 2 have 10000 then, which is taken; some code has 1000000.",
                "Compare with the code that runs the model.",
            )
        )


DEEPSEEK_ARGS = "deepseek-ai inference"
"""The model type, here, of files of the code that DeepSeek publishes beside its checkpoints, which have none."""


def is_deepseek_args(part: Mapping[str, Any]) -> bool:
    """Whether entries are those of that code: latent attention beside ``dim`` and ``inter_dim``."""
    return all(part.get(name) is not None for name in ("dim", "inter_dim", "n_heads", "qk_rope_head_dim"))


def deepseek_args(given: dict[str, Any], findings: Findings) -> None:
    """DeepSeek-V3, V3.2 (inference/model.py): YaRN by the defaults of its ModelArgs, for texts above the length."""
    del findings
    usual = {"rope_factor": 40.0, "original_seq_len": 4096, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0}
    taken = {name: first_of(given.pop(name, None), value) for name, value in usual.items()}
    longest = first_of(given.get("max_seq_len"), 16384)
    if is_number(longest) and is_number(taken["original_seq_len"]) and longest > taken["original_seq_len"]:
        group = {"rope_type": "yarn", "factor": taken["rope_factor"], "mscale_all_dim": taken["mscale"]}
        group |= {"original_max_position_embeddings": taken["original_seq_len"]}
        given["rope_scaling"] = group | {name: taken[name] for name in ("beta_fast", "beta_slow", "mscale")}


FROM_SCRATCH = "LLMs-from-scratch"
"""The model type, here, of files of code after the book Build a Large Language Model (From Scratch)."""


def is_from_scratch(part: Mapping[str, Any]) -> bool:
    """Whether entries are those of that code, which turns halves: GPT's, without a base, does not rotate."""
    return all(part.get(name) is not None for name in ("emb_dim", "n_heads", "n_layers", "rope_base"))


def from_scratch(given: dict[str, Any], findings: Findings) -> None:
    """Llama, Qwen3 and Gemma 3 after the book (compute_rope_params): a base for sliding layers, Llama 3.1's scaling."""
    del findings
    for theirs, ours in (
        ("emb_dim", "hidden_size"),
        ("context_length", "max_position_embeddings"),
        ("rope_base", "rope_theta"),
        ("rope_local_base", "rope_local_base_freq"),
    ):
        rename(given, theirs, ours)
    scaling = given.pop("rope_freq", None)
    if isinstance(scaling, Mapping):
        group = {"rope_type": "llama3", **scaling}
        rename(group, "original_context_length", "original_max_position_embeddings")
        given["rope_scaling"] = group


TENCENT_PRETRAIN = "TencentPretrain"
"""The model type, here, of files of TencentPretrain and UER, which have none."""


def is_tencent_pretrain(part: Mapping[str, Any]) -> bool:
    """Whether entries are those of that code and switch rotary positions on."""
    has_sizes = all(part.get(name) is not None for name in ("emb_size", "heads_num", "layers_num"))
    return has_sizes and part.get("rotary_position_embedding") is True


def tencent_pretrain(given: dict[str, Any], findings: Findings) -> None:
    """TencentPretrain (layers/transformer.py, utils/rope.py): neighbours, which are turned as complex numbers."""
    del findings
    if "emb_size" in given:
        given.setdefault("hidden_size", given["emb_size"])
    for theirs, ours in (("heads_num", "num_attention_heads"), ("layers_num", "num_hidden_layers")):
        rename(given, theirs, ours)
    rename(given, "max_seq_length", "max_position_embeddings")


FLA_TRANSFORMER = "transformer of flash-linear-attention"
"""The model type, here, of flash-linear-attention's Transformer, which others call ``transformer`` as well."""


def is_fla_transformer(part: Mapping[str, Any]) -> bool:
    """Whether entries are those of fla/models/transformer: by its kernels, which no other code has."""
    return part.get("model_type") == "transformer" and any(name.startswith("fuse_") for name in part)


def own_format(part: Mapping[str, Any]) -> str | None:
    """Return the model type, here, of a file without one whose entries are those of some code."""
    found = {
        "gpt_oss": is_gpt_oss,
        DEEPSEEK_ARGS: is_deepseek_args,
        PARAMS_JSON: is_params_json,
        FROM_SCRATCH: is_from_scratch,
        TENCENT_PRETRAIN: is_tencent_pretrain,
    }
    return next((name for name, has_its_entries in found.items() if has_its_entries(part)), None)
