"""Scalings of each kind that a file is given in the place of its own: complete, in part, and with contradictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zoo.cases import LENGTH

GROUPS = ("rope_parameters", "rope_scaling")
Edit = Callable[[dict[str, Any]], None]
"""What changes the entries of a file."""


def scalings(head: int) -> Iterator[tuple[str, str, Edit]]:
    """Yield the name of each change, its kind, and what makes it: complete scalings, partial and contradicting ones.

    Args:
        head: Features of a head, one number for each pair of which LongRoPE lists.
    """
    original = LENGTH // 4
    pairs = head // 2
    kinds: dict[str, dict[str, Any]] = {
        "linear": {"factor": 4.0},
        "dynamic": {"factor": 4.0},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": original},
        "llama3": {
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": original,
        },
        "longrope": {
            "factor": 4.0,
            "original_max_position_embeddings": original,
            "short_factor": [1.0 + 0.01 * each for each in range(pairs)],
            "long_factor": [1.0 + 0.5 * each for each in range(pairs)],
        },
    }
    for kind, entries in kinds.items():
        forms: dict[str, dict[str, Any]] = {"": entries}
        forms |= {f" without {name}": {key: value for key, value in entries.items() if key != name} for name in entries}
        forms |= {f" with {name} null": {**entries, name: None} for name in entries}
        forms |= {f" with text for {name}": {**entries, name: str(value)} for name, value in entries.items()}
        if kind in ("yarn", "longrope"):
            forms |= {
                " with another factor": {**entries, "factor": 8.0},
                " with attention_factor": {**entries, "attention_factor": 1.5},
                " with mscale": {**entries, "mscale": 0.7},
                " with both mscales": {**entries, "mscale": 0.7, "mscale_all_dim": 0.9},
                " with the share of a head": {**entries, "partial_rotary_factor": 0.5},
            }
        if kind == "yarn":
            forms |= {
                " without truncation": {**entries, "truncate": False},
                " with beta_fast": {**entries, "beta_fast": 8},
            }
        if kind == "longrope":
            forms[" with one pair less"] = {**entries, "short_factor": entries["short_factor"][1:]}
        for said, form in forms.items():
            for group, name in (
                ("rope_parameters", "rope_type"),
                ("rope_scaling", "type"),
                ("rope_scaling", "rope_type"),
            ):
                if said and (group, name) != ("rope_parameters", "rope_type"):
                    continue
                yield f"{group} {name} {kind}{said}", "kept", _with_scaling(group, {name: kind, **form})
    for kind in ("su", "ntk", "mrope", "none", "YARN", "Linear", "ntk-aware", "proportional"):
        yield f"rope_type {kind}", "kept", _with_scaling("rope_parameters", {"rope_type": kind, "factor": 4.0})
    both = {"rope_type": "linear", "type": "dynamic", "factor": 4.0}
    yield "rope_type linear and type dynamic", "kept", _with_scaling("rope_scaling", both)

    def yarn_apart(content: dict[str, Any]) -> None:
        _with_scaling("rope_scaling", {"rope_type": "yarn", "factor": 4.0})(content)
        content["original_max_position_embeddings"] = original

    def beside(content: dict[str, Any]) -> None:
        content.update(factor=4.0, rope_type="linear")

    yield "yarn with its original length beside the group", "kept", yarn_apart
    yield "factor and rope_type beside the group", "added", beside


def _with_scaling(group: str, entries: Mapping[str, Any]) -> Edit:
    """Write a scaling into the groups of a file that has some for types of layers, in the place of one otherwise."""

    def edit(content: dict[str, Any]) -> None:
        own = next((content.pop(name) for name in GROUPS if isinstance(content.get(name), Mapping)), {})
        kept = ("rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved", "llama_4_scaling_beta")
        if any(isinstance(each, Mapping) for each in own.values()):
            content[group] = {
                name: each and {**{key: each[key] for key in kept if key in each}, **entries}
                for name, each in own.items()
            }
        else:
            content[group] = {**{key: own[key] for key in kept if key in own}, **entries}

    return edit
