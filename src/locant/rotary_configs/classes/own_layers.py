"""Entries of models whose layers differ, in the names of transformers: windows, bases and scalings by layer.

Every function names the model and the file of its code that it speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import MOST_LAYERS, NoRotaryPositionsError
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.layer_rounds import by_number
from locant.rotary_configs.classes.own_entries import Findings, first_of, rename
from locant.rotary_configs.spellings import is_count

_FULL, _SLIDING, _INDEXED = "full_attention", "sliding_attention", "indexed_attention"

_COMPRESSED = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
"""Layer types by the entries of ``compress_ratios``."""


def smallthinker(given: dict[str, Any], findings: Findings) -> None:
    """SmallThinker (modeling_smallthinker.py): which layers rotate, and which have a window, by lists of 0 and 1."""
    del findings
    rename(given, "rope_layout", "no_rope_layers")  # 1 where a layer rotates in both
    slides = given.pop("sliding_window_layout", None)
    if isinstance(slides, list) and "layer_types" not in given:
        given["layer_types"] = ["sliding_attention" if each else "full_attention" for each in slides]


def stripedhyena(given: dict[str, Any], findings: Findings) -> None:
    """StripedHyena, Evo (modeling_hyena.py, model.py): positions divided where the file says that they are."""
    rename(given, "num_layers", "num_hidden_layers")
    rename(given, "max_seqlen", "max_position_embeddings")
    factor, is_divided = (
        given.pop("rotary_emb_scaling_factor", None),
        given.pop("use_interpolated_rotary_pos_emb", None),
    )
    if is_divided and factor not in (None, 1):
        given["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif factor not in (None, 1):
        findings.append(
            Finding(
                "warning",
                f"rotary_emb_scaling_factor is {in_json(factor)}, but use_interpolated_rotary_pos_emb is not true in "
                "config.json: the code of StripedHyena passes over it.",
                "State use_interpolated_rotary_pos_emb true, if the model was trained so.",
            )
        )


def step3p5(given: dict[str, Any], findings: Findings) -> None:
    """Step-3.5-Flash (configuration_step3p7.py): base and share of the head by layer, scaling of full attention.

    Groups for all types of layers count in the place of these; where one is missing, the class makes all anew.
    """
    stated = given.get("rope_parameters")
    if isinstance(stated, Mapping) and not given.get("auto_map"):
        names = given.get("layer_types")
        names = list(map(str, names)) if isinstance(names, list) else [_FULL]
        if all(isinstance(stated.get(name), Mapping) for name in names):
            _pass_over_beside_groups_of_step(given, findings)
            return
        lacking = next(name for name in names if not isinstance(stated.get(name), Mapping))
        del given["rope_parameters"]
        findings.append(
            Finding(
                "warning",
                f"rope_parameters of config.json has no group for '{lacking}': the class of 'step3p5' in transformers "
                "passes over it, and makes groups for all types by the entries beside it.",
                "Write a group for each layer type.",
            )
        )
    bases, shares = given.get("rope_theta"), given.get("partial_rotary_factors")
    types, scaling = given.get("layer_types"), given.get("rope_scaling")
    if (
        not isinstance(bases, list)
        and shares is None
        and not (isinstance(scaling, Mapping) and isinstance(types, list))
    ):
        return
    if not isinstance(types, list):
        types = ["full_attention"] * (len(bases) if isinstance(bases, list) else 1)
    groups: dict[str, Any] = {}
    for index, name in enumerate(types):
        if not isinstance(name, str):
            raise ConfigError(
                f"'layer_types' in config.json must be a list of the layers' types; got {in_json(types):.60}."
            )
        group: dict[str, Any] = {"rope_type": "default"}
        for key, value in (("rope_theta", bases), ("partial_rotary_factor", shares)):
            if isinstance(value, list) and index < len(value):
                group[key] = value[index]
            elif value is not None and not isinstance(value, list):
                group[key] = value
        group.setdefault("rope_theta", 10_000.0)
        if groups.setdefault(name, group) != group:
            raise ConfigError(
                f"rope_theta or partial_rotary_factors of config.json differ within the layers of type '{name}'; the "
                "class of 'step3p5' in transformers takes those of the first."
            )
    given.pop("rope_scaling", None)
    if isinstance(scaling, Mapping) and "full_attention" in groups:
        groups["full_attention"] |= scaling
    for key in ("rope_theta", "partial_rotary_factors"):
        given.pop(key, None)
    given["rope_parameters"] = groups


def _pass_over_beside_groups_of_step(given: dict[str, Any], findings: Findings) -> None:
    for name in ("rope_scaling", "rope_theta", "partial_rotary_factors"):
        value = given.pop(name, None)
        if value is not None:
            findings.append(
                Finding(
                    "warning",
                    f"{name} is {in_json(value):.60} in config.json beside groups of rope_parameters for all types of "
                    "layers: the class of 'step3p5' in transformers takes those, and passes over it.",
                    "Remove it, or correct the groups.",
                )
            )


def minimax_m3(given: dict[str, Any], findings: Findings) -> None:
    """MiniMax-M3 (configuration_minimax_m3_vl.py): layers that attend to chosen blocks, and their indexer."""
    del findings
    sparse = given.get("sparse_attention_config")
    if not isinstance(sparse, Mapping):
        return
    chosen = sparse.get("sparse_attention_freq")
    if isinstance(chosen, list) and given.get("layer_types") is None:
        given["layer_types"] = ["minimax_m3_sparse" if each else _FULL for each in chosen]
    if (size := sparse.get("sparse_index_dim")) is not None:
        given["index_head_dim"] = size


def mimo_v2(given: dict[str, Any], findings: Findings) -> None:
    """MiMo-V2-Flash (configuration_mimo_v2_flash.py): a base for sliding layers, ``hybrid_layer_pattern``.

    The code that a file names in ``auto_map`` reads these entries; the class of transformers has its own values, and
    passes over them (``convert_rope_params_to_dict``).
    """
    pattern, past = given.pop("hybrid_layer_pattern", None), given.pop("sliding_window_size", None)
    if (before := _none_unless_positive(past)) is not None:
        given["sliding_window"] = before + 1
        findings.append(
            Finding(
                "note",
                f"sliding_window_size is {before} in config.json, the tokens before each one: the class of "
                f"'mimo_v2_flash' in transformers makes a window of {before + 1} tokens of it, each token itself among "
                "them.",
                "Nothing has to be done.",
            )
        )
    given.pop("swa_head_dim", None)
    sliding = given.pop("swa_rope_theta", None)
    if not given.get("auto_map"):
        _pass_over_entries_of_mimo(given, pattern, sliding, findings)
        return
    if isinstance(pattern, list) and "layer_types" not in given:
        given["layer_types"] = [_SLIDING if each else _FULL for each in pattern]
    full, share = given.pop("rope_theta", None), given.pop("partial_rotary_factor", None)
    if given.get("rope_parameters") is None and (full is not None or sliding is not None):
        usual = {"rope_type": "default", "partial_rotary_factor": first_of(share, 0.334)}
        given["rope_parameters"] = {
            _FULL: {**usual, "rope_theta": first_of(full, 5_000_000.0)},
            _SLIDING: {**usual, "rope_theta": first_of(sliding, 10_000.0)},
        }


def _pass_over_entries_of_mimo(given: Mapping[str, Any], pattern: Any, sliding: Any, findings: Findings) -> None:
    """Add what the class of transformers does otherwise than entries say that only the publisher's code reads."""
    kind = families.model_type("mimo_v2_flash")
    assert kind is not None
    said = []
    own = (kind.rope or {}).get(_SLIDING, {}).get("rope_theta")
    if given.get("rope_parameters") is None and sliding not in (None, own):
        said.append(f"swa_rope_theta {in_json(sliding)}, in whose place it takes {own:g}")
    if isinstance(pattern, list) and given.get("layer_types") is None:
        stated = tuple(_SLIDING if each else _FULL for each in pattern)
        if stated != by_number(kind, len(pattern)):
            said.append("hybrid_layer_pattern, in whose place it has rounds of its own")
    if said:
        findings.append(
            Finding(
                "warning",
                f"The class of 'mimo_v2_flash' in transformers passes over {' and '.join(said)}; the publisher's code "
                "reads it, which the file does not name in auto_map.",
                "State rope_parameters and layer_types, by which the class goes; or name the code that reads the "
                "entries.",
            )
        )


def deepseek_v4(given: dict[str, Any], findings: Findings) -> None:
    """DeepSeek-V4 as published (configuration_deepseek_v4.py of transformers): YaRN for compressed layers alone."""
    ratios = given.pop("compress_ratios", None)
    if isinstance(ratios, list) and given.get("layer_types") is None:
        unknown = [ratio for ratio in ratios if not is_number(ratio) or ratio not in _COMPRESSED]
        if unknown:
            raise ConfigError(f"compress_ratios in config.json must hold 0, 4 and 128; got {in_json(unknown[0]):.20}.")
        count = given.get("num_hidden_layers")
        given["layer_types"] = [
            _COMPRESSED[int(ratio)] for ratio in ratios[: count if isinstance(count, int) else None]
        ]
    compressed = given.pop("compress_rope_theta", None)
    own = families.model_type("deepseek_v4")
    assert own is not None
    # Files as published state the part that is rotated by its size instead.
    share = given.get("partial_rotary_factor")
    if share is None and "qk_rope_head_dim" not in given:
        share = own.defaults["default_partial_rotary_factor"]
    base = first_of(given.get("rope_theta"), own.defaults["rope_theta"])
    for name in ("rope_parameters", "rope_scaling"):
        group = given.get(name)
        if not isinstance(group, Mapping) or not group:
            continue
        stated = [label for label in ("main", "compress") if isinstance(group.get(label), Mapping)]
        if len(stated) == 2:
            continue
        if stated:
            findings.append(
                Finding(
                    "warning",
                    f"{name} of config.json has a group for '{stated[0]}' alone, and the class of 'deepseek_v4' in "
                    "transformers passes over it: it takes groups for 'main' and 'compress' together.",
                    f"State both groups in {name}.",
                )
            )
        scaling = {
            key: each
            for key, each in group.items()
            if key not in ("rope_theta", "partial_rotary_factor", "main", "compress")
        }
        if scaling.get("rope_type", scaling.get("type")) == "yarn":
            scaling.setdefault("attention_factor", 1.0)
        rotated = {} if share is None else {"partial_rotary_factor": share}
        given.pop("rope_theta", None)
        given[name] = {
            "main": {"rope_type": "default", "rope_theta": base, **rotated},
            "compress": scaling | {"rope_theta": first_of(compressed, own.defaults["compress_rope_theta"]), **rotated},
        }


def dots3_note(given: dict[str, Any], findings: Findings) -> None:
    """dots3.note (configuration_dots3_note.py): ``sliding_window_size``, 512 where the file has neither name.

    Files as published call layers of sparse attention ``full_attention``; where ``use_dsa`` is false they are that,
    with the same rotation.
    """
    size = given.pop("sliding_window_size", None)
    if given.get("sliding_window") is None:
        given["sliding_window"] = first_of(size, 512)
    uses_indexer = given.pop("use_dsa", None if "per_layer_config" in given else True)
    types = given.get("layer_types")
    if isinstance(types, list) and uses_indexer is not None:
        given["layer_types"] = [_INDEXED if each == _FULL else each for each in types]
    if uses_indexer is False:
        given["use_dsa"] = False
        findings.append(
            Finding(
                "note",
                f"use_dsa is false: layers that are called '{_INDEXED}' here have full attention and no indexer.",
                "Nothing, the rotation of queries and keys is the same.",
            )
        )


def linear_attention(given: dict[str, Any], findings: Findings) -> None:
    """Models of flash-linear-attention (fla/models, fla/layers/attn.py): a group ``attn`` of layers with attention."""
    del findings
    group, count = given.pop("attn", None), given.get("num_hidden_layers")
    listed = group.get("layers") if isinstance(group, Mapping) else None
    if group is None or listed == []:
        raise NoRotaryPositionsError(
            "config.json names no layers with attention, in a group attn: none rotates. The model has no rotary "
            "positions, and no others: a recurrence alone tells the order of a text."
        )
    if not isinstance(group, Mapping) or not isinstance(listed, list):
        raise ConfigError("config.json names no layers with attention, in a group attn: none rotates.")
    if not isinstance(count, int) or not 0 < count <= MOST_LAYERS:
        raise ConfigError(f"'num_hidden_layers' in config.json must be a number of layers; got {in_json(count):.40}.")
    for name in ("head_dim", "num_heads", "rope_theta"):
        given.pop(name, None)  # of the layers without attention
    window = _none_unless_positive(group.get("window_size"))
    attention = "full_attention" if window is None else "sliding_attention"
    given["layer_types"] = [attention if index in listed else "linear_attention" for index in range(count)]
    given |= {"num_attention_heads": group.get("num_heads"), "sliding_window": window}
    given["rope_theta"] = first_of(group.get("rope_theta"), 10_000.0)


def _none_unless_positive(window: Any) -> int | None:
    """Return a window of tokens; by null, 0 and -1 code of people's own says that there is none."""
    return window if is_count(window) else None


def plamo3(given: dict[str, Any], findings: Findings) -> None:
    """PLaMo 3 (as vLLM's plamo3.py and llama.cpp's converter read it): a base of its own for layers with a window.

    ``rope_scaling_factor`` is YaRN's for full attention; ``sliding_window`` may be a list with a number, or null, for
    every layer.
    """
    del findings
    rename(given, "rope_local_theta", "rope_local_base_freq")
    factor, original = given.pop("rope_scaling_factor", 1), given.pop("initial_context_length", None)
    if factor not in (None, 1) and not given.get("rope_scaling") and not given.get("rope_parameters"):
        yarn = {"rope_type": "yarn", "factor": factor, "truncate": False}
        given["rope_scaling"] = yarn | ({} if original is None else {"original_max_position_embeddings": original})
    windows, period, count = (
        given.get(name) for name in ("sliding_window", "sliding_window_pattern", "num_hidden_layers")
    )
    slides: list[Any] = []
    if isinstance(windows, list):
        slides = windows
        given["sliding_window"] = next((each for each in windows if each), None)
    elif isinstance(period, int) and period > 0 and isinstance(count, int) and 0 < count < 10_000 and windows:
        slides = [(index + 1) % period for index in range(count)]
    if slides and given.get("layer_types") is None:
        given["layer_types"] = [_SLIDING if each else _FULL for each in slides]


def ultrabert(given: dict[str, Any], findings: Findings) -> None:
    """UltraBERT (configuration_ultrabert.py of transformers): windows and bases layer by layer."""
    windows, bases = given.pop("attention_windows", None), given.get("rope_theta")
    if isinstance(windows, list):
        sizes = [*dict.fromkeys(each for each in windows if each)]
        if sizes:
            given["sliding_window"] = sizes[0]
        if len(sizes) > 1:
            findings.append(
                Finding(
                    "warning",
                    f"attention_windows of config.json has windows of {' and '.join(map(in_json, sizes))} tokens; the "
                    f"class of 'ultrabert' in transformers takes the first, {in_json(sizes[0])}, for all layers with a "
                    "window.",
                    f"State {in_json(sizes[0])} for each of them, if the class is what runs the model.",
                )
            )
        if given.get("layer_types") is None:
            given["layer_types"] = [_SLIDING if each else _FULL for each in windows]
    if bases is None:
        return
    del given["rope_theta"]
    types = given.get("layer_types")
    if given.get("rope_parameters") is not None:
        return
    if not isinstance(bases, list):
        raise ConfigError(
            f"'rope_theta' in config.json must be a list with the base of every layer, as the class of 'ultrabert' in "
            f"transformers reads it; got {in_json(bases)}."
        )
    if not isinstance(types, list):
        types = by_number(families.model_type("ultrabert"), len(bases))
    groups: dict[str, dict[str, Any]] = {}
    for name, base in zip(map(str, types), bases, strict=False):
        group = {"rope_type": "default", "rope_theta": base}
        if groups.get(name, group) != group:
            findings.append(
                Finding(
                    "warning",
                    f"rope_theta of config.json gives layers of the type '{name}' different bases; the class of "
                    "'ultrabert' in transformers takes the last for all of them.",
                    "State one base for each type of layers, in rope_parameters.",
                )
            )
        groups[name] = group
    given["rope_parameters"] = groups


def mistral_large4(given: dict[str, Any], findings: Findings) -> None:
    """Mistral Large 4 (configuration_mistral_large4.py of transformers): every fourth layer has no positions."""
    del findings
    if given.get("no_rope_layers") is None and given.get("no_rope_layer_interval") is None:
        given["no_rope_layer_interval"] = 4
