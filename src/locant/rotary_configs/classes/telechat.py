"""Entries of the TeleChat models, in the names of transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes.own_entries import Findings, rename

TELECHAT3_YARN: Final = "telechat3-yarn"
"""The type of YaRN with the attention scale of TeleChat3."""


def telechat(given: dict[str, Any], findings: Findings) -> None:
    """TeleChat, TeleChat2 (modeling_telechat.py): NTK by powers of two of a length, at least ``training_seqlen``."""
    trained, first = (given.pop(name, None) for name in ("training_seqlen", "base_seqlen"))
    rename(given, "seq_length", "max_position_embeddings")
    width, heads = given.get("hidden_size"), given.get("n_head", given.get("num_attention_heads"))
    sizes = [each for each in (trained, first, width, heads) if isinstance(each, int) and 0 < each < 2**40]
    if len(sizes) < 4:
        return
    size, doublings = sizes[2] // sizes[3], math.ceil(math.log2(sizes[0] / sizes[1]))
    if size > 2 and doublings > 0 and given.get("rope_theta") is None:
        given["rope_theta"] = 10_000.0 * (2.0 ** (doublings + 1) - 1) ** (size / (size - 2))
    findings.append(
        Finding(
            "warning",
            f"For texts longer than {trained} tokens the code of TeleChat raises the base by steps and scales cosine "
            "and sine, which a rotary configuration does not hold; what is shown is the rotation within that length.",
            "Measure long texts with the model's own code.",
        )
    )


def telechat3(given: dict[str, Any], findings: Findings) -> None:
    """TeleChat3: Llama's positions, and a scaling ``telechat3-yarn``, which is YaRN with a smaller attention scale."""
    for name in ("rope_scaling", "rope_parameters"):
        group = given.get(name)
        if not isinstance(group, Mapping) or group.get("rope_type", group.get("type")) != TELECHAT3_YARN:
            continue
        given[name] = taken = yarn_of_telechat3(group)
        if "attention_factor" not in taken:
            continue
        factor, scale = taken["factor"], taken["attention_factor"]
        findings.append(
            Finding(
                "warning",
                f"rope_type '{TELECHAT3_YARN}' in {name} of config.json is YaRN with the attention scale "
                f"0.07 * ln(factor) + 1, {scale:.6g} here, as TeleAI has it in vLLM; mlx-lm takes it for YaRN with the "
                f"usual {0.1 * math.log(factor) + 1:.6g}, and transformers has no such type.",
                f"State rope_type 'yarn' and attention_factor {scale:.6g}, which transformers and vLLM take; mlx-lm "
                "takes no attention_factor.",
            )
        )


def yarn_of_telechat3(rope: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group of the type ``telechat3-yarn`` as YaRN (``patch_legacy_rope_type`` in vLLM's config.py).

    A group without a usable factor gets no attention scale: what reads the type 'yarn' tells of that.
    """
    taken = {key: value for key, value in rope.items() if key != "type"} | {"rope_type": "yarn"}
    factor = taken.get("factor")
    if is_number(factor) and factor > 0:
        taken["attention_factor"] = 0.07 * math.log(factor) + 1
    return taken
