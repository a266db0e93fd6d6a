"""Facts of the classes of transformers that config.json does not state, written to ``model_types.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/facts.py``.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.extension.inspect.code_facts import layouts_in
from locant.extension.inspect.model_class.observe import ObservedLayer, observe
from locant.extension.inspect.model_class.small_model import (
    HEADS,
    build,
    model_class,
    quiet,
    reduced_entries,
)
from locant.extension.inspect.model_class.turning_axes import takes_axes
from locant.rotary_configs.classes.windows import windows_of_class
from zoo.architectures import Architecture, architecture, architectures, config_with_model, is_of_decoder
from zoo.axes import axis_facts
from zoo.cases import SWITCHED_ON, sections, usual_entries
from zoo.failures import failure_facts, refusal_facts
from zoo.groups import group_facts, null_share
from zoo.left_out import (
    aliases,
    kept_facts,
    layer_types,
    pairs_blocks,
    pattern_facts,
    takes_part_for_head,
    takes_rotary_dim,
)
from zoo.scalings import keeps_short_list, scaling_facts, with_share
from zoo.verdict import SHORT
from zoo.wholes import facts_of_whole

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "model_types.json"

_ABOUT_POSITIONS = re.compile(
    r"rope|rotary|nope|head_dim|kv_channels|theta|window|pattern|interval|period|attn_layer|position|chunk_size"
    r"|^hidden_size$|^n_embd$|^d_model$|num_attention_heads$|num_key_value_heads$|^n_heads?$|^num_heads$|num_hidden_layers$|^n_layers?$"
    r"|^num_layers$|^alibi$|^rotary$|full_attn|block_types?$|local_attention$|interleave$|^cross_attention_layers$"
)
NOT_ABOUT_THEM = re.compile(r"^(mlp|mtp|moe|v_|vision|audio|index|image|conv|mamba|relative|norm)|_noise|_loss|^gating")


def facts_of(found: Architecture) -> dict[str, Any] | None:
    """Return the facts of one architecture, ``None`` for one that rotates and reads neither text nor images."""
    facts = _facts_of_class(found)
    return (
        facts
        if facts is None or found.kind == "composite"
        else facts | refusal_facts(found, rotates=facts.get("rotates", True))
    )


def _facts_of_class(found: Architecture) -> dict[str, Any] | None:
    if found.kind == "composite":
        return facts_of_whole(found, _ABOUT_POSITIONS)
    if not mentions_rotation(found.config_class):
        return {"rotates": False}
    if found.kind == "other":
        read = str(getattr(model_class(found.config_class), "main_input_name", ""))
        return {"rotates": False, "reads": "images"} if read.startswith("pixel_values") else _by_code(found)
    if found.kind not in ("text", "part"):
        return None
    with quiet():
        config = found.config_class()
    defaults = _defaults(found, config)
    facts: dict[str, Any] = {"defaults": defaults}
    rope = getattr(config, "rope_parameters", None)
    if rope:  # in the order of the class, by which DeepSeek-V4's layers are shown
        facts["rope"] = rope
    facts |= kept_facts(found)
    facts["rotary_dim"] = takes_rotary_dim(found)
    facts["head_is_part"] = takes_part_for_head(found)
    facts["pairs_blocks"] = pairs_blocks(found)
    facts["ignored"] = sorted(found.config_class.ignore_keys_at_rope_validation)
    if others := aliases(found):
        facts["aliases"] = others
    types = layer_types(config)
    facts |= pattern_facts(found)
    facts |= group_facts(found)
    facts["windowless"] = windows_of_class(found.model_type) is None and has_no_windows(found.config_class)
    small, layers, entries = _observed(found, config, types)
    if small is None and _leaves_rotation_out(found):
        return {"rotates": False}
    if small is None:
        return facts | {"unknown": layers}
    on = next(
        (
            key
            for key in ("position_embedding_type", "use_mem_rope", "use_rotary_embedding")
            if key in defaults or hasattr(config, key)
        ),
        None,
    )
    if on and any(layer.rotation for layer in layers):
        facts["switch"] = {on: getattr(small, on)}
    facts |= _seen(small, layers)
    if facts["rotates"] and takes_axes(model_class(found.config_class) or found.config_class):
        facts["axes"] = axis_facts(found, entries, layers)
    return facts | (_changed(found, entries, layers) if facts["rotates"] else {})


def _defaults(found: Architecture, config: Any) -> dict[str, Any]:
    """Return the entries of a class about positions, with its values."""
    return {
        name: _plain(value)
        for name in dir(found.config_class)
        if _ABOUT_POSITIONS.search(name) and not NOT_ABOUT_THEM.search(name) and not name.startswith("_")
        # That list is written by the configuration, where it is not given.
        for value in [getattr(config if name == "cross_attention_layers" else found.config_class, name, None)]
        if isinstance(value, int | float | str | list | tuple) and name != "model_type"
    }


def _by_code(found: Architecture) -> dict[str, Any] | None:
    """Return the facts of a class that reads sound into a decoder of text, by its code: no text alone makes it run."""
    accepted = inspect.signature(getattr(model_class(found.config_class), "forward", print)).parameters
    with quiet():
        config = found.config_class()
    rope = getattr(config, "rope_parameters", None)
    folder = Path(sys.modules[found.config_class.__module__].__file__ or "").parent
    functions = {
        file.name: ast.Module([each for each in ast.parse(file.read_bytes()).body if _rotates_half(each)], [])
        for file in folder.glob("modeling_*.py")
    }
    layouts = {layout for layout, _ in layouts_in(functions)}
    if "decoder_input_ids" not in accepted or not rope or len(layouts) != 1:
        return None
    facts = {"defaults": _defaults(found, config), "rope": rope, "rotates": True, "layout": layouts.pop()}
    facts["null_share"] = null_share(found, rope)
    return {**facts, "windowless": not _mentions(found.config_class, "sliding|window", without_comments=True)}


def _rotates_half(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "rotate_half"


_OTHER_BASE = 12345.0


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _observed(found: Architecture, config: Any, types: list[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Return a small model's configuration, what its layers do, and its entries; otherwise why it cannot be had."""
    needed = max((types.index(each) for each in set(types)), default=0) + 1
    with quiet():
        entries = usual_entries(found.config_class)
    seen: tuple[Any, Any, dict[str, Any]] = (None, "", {})
    for switched in _variants(found, entries):
        for layers, heads in itertools.product(sorted({max(6, needed), 12}), HEADS[:3]):
            small = reduced_entries(entries | switched, layers, heads)
            try:
                seen = *_built(found, small), small
                break
            except Exception as error:  # whatever the class raises
                if seen[0] is None:
                    seen = None, f"{type(error).__name__}: {error}"[:300], {}
        if seen[0] is not None and any(layer.rotation for layer in seen[1]):
            break
    return seen


def _variants(found: Architecture, entries: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield changes with which a class may rotate, or can be built at all; at first none."""
    yield {}
    yield from (
        each for each in (*SWITCHED_ON, {"attn_config": {"rope_theta": 10000.0}}) if each.keys() <= entries.keys()
    )
    rope = entries.get("rope_parameters")
    if rope and "rope_type" in rope:
        yield {"rope_parameters": {**rope, "partial_rotary_factor": 0.5}}
        if takes_axes(found.config_class):
            yield {"rope_parameters": {**rope, "mrope_section": sections(entries, rope, 3)}}
    if entries.get("layer_types", ()) is None:
        yield {"layer_types": ["conv", "full_attention"] * 3}
    if entries.get("sliding_window", 1) is None:
        yield {"sliding_window": 64}


def _built(found: Architecture, entries: dict[str, Any]) -> tuple[Any, list[ObservedLayer]]:
    with quiet():
        config = found.config_class(**copy.deepcopy(entries))
        layers = observe(build(config_with_model(found, copy.deepcopy(entries))), SHORT)
        return config, [each for each in layers if found.kind != "part" or is_of_decoder(each.name)]


def _leaves_rotation_out(found: Architecture) -> bool:
    """Whether a class that can be built, though not observed, leaves the place of the rotation empty."""
    try:
        with quiet():
            model = build(found.config_class(**reduced_entries(usual_entries(found.config_class))))
    except Exception:  # whatever the class raises
        return False
    places = [module.rotary_emb for module in model.modules() if hasattr(module, "rotary_emb")]
    return bool(places) and not any(place is not None for place in places)


def _changed(found: Architecture, entries: dict[str, Any], usual: list[ObservedLayer]) -> dict[str, Any]:
    """Return what the class makes of options that many classes pass over."""
    facts: dict[str, Any] = {}
    rotating = [layer for layer in usual if layer.rotation]

    def with_entries(**changes: Any) -> list[ObservedLayer] | None:
        try:
            return _built(found, entries | changes)[1]
        except Exception:  # a class that cannot compute it
            return None

    if not entries.get("rope_parameters") and (layers := with_entries(rope_theta=_OTHER_BASE)):
        facts["keeps_base"] = _frequencies(layers) == _frequencies(usual)
    rope = entries.get("rope_parameters")
    if rope and "rope_type" in rope and _mentions(found.config_class, r"""rope_theta["'\]),\s]+is (not )?None"""):
        layers = with_entries(rope_parameters={**rope, "rope_theta": None})
        facts["null_base"] = bool(layers) and not any(layer.rotation for layer in layers or ())
    if rope:
        layers = with_share(rope, entries, 0.25, with_entries)
        before = rotating[0].rotation
        after = next((layer.rotation for layer in layers or () if layer.name == rotating[0].name), None)
        if after is not None and before is not None and after.rotary_dim != before.rotary_dim:
            facts["partly"] = True
        facts |= scaling_facts(rope, usual, with_entries)
    if before := next((layer.rotation for layer in rotating if layer.rotation is not None), None):
        facts |= failure_facts(found, entries, before.rotary_dim, with_entries)
        facts["keeps_short_list"] = keeps_short_list(found.config_class, entries, before.rotary_dim // 2)
    if entries.get("rope_interleave") is not None:
        layers = with_entries(rope_interleave=not entries["rope_interleave"])
        facts["rope_interleave"] = bool(layers) and {each.layout for each in layers} != {each.layout for each in usual}
    if entries.get("sliding_window") is not None and len(set(entries.get("layer_types") or ())) > 1:
        # Sliding layers cannot do without their window: layers of the other type are asked.
        with _masks_without_windows(found):
            layers = with_entries(sliding_window=None, layer_types=["full_attention"] * len(entries["layer_types"]))
        still = any(each.rotation is None for each in usual)
        if layers and still and all(each.rotation for each in layers):
            facts["without_window"] = "rotates"
    return facts


@contextlib.contextmanager
def _masks_without_windows(found: Architecture) -> Iterator[None]:
    """Give layers the mask of the whole text: classes fail that make one with a window, whatever their layers are."""
    made = model_class(found.config_class)
    module = None if made is None else sys.modules[made.__module__]
    if (whole := getattr(module, "create_causal_mask", None)) is None:
        yield
        return
    with mock.patch.object(module, "create_sliding_window_causal_mask", whole, create=True):
        yield


def _frequencies(layers: list[ObservedLayer]) -> list[tuple[float, ...]]:
    return [layer.rotation.frequencies for layer in layers if layer.rotation is not None]


def _seen(small: Any, layers: list[ObservedLayer]) -> dict[str, Any]:
    # What moves otherwise than by turning pairs has relative positions of another kind.
    rotating = [layer for layer in layers if layer.rotation is not None and layer.rotation.layout is not None]
    types = layer_types(small)
    facts: dict[str, Any] = {"rotates": bool(rotating)}
    if rotating:
        layouts = {layer.layout for layer in rotating}
        facts["layout"] = next(iter(layouts - {None}), None)
        features = {}
        for layer in rotating:
            assert layer.rotation is not None
            measured = [layer.rotation.first, layer.rotation.rotary_dim, layer.rotation.head_dim]
            kind = types[layer.layer] if layer.layer is not None and layer.layer < len(types) else "all"
            features.setdefault(kind, measured)
        facts["features"] = features
    by_type: dict[str, set[str]] = {}
    attention = {layer.layer: layer for layer in layers}
    for index, name in enumerate(types):
        layer = attention.get(index)
        seen = "none" if layer is None else "still" if layer.rotation is None else "rotates"
        by_type.setdefault(name, set()).add(seen)
    if by_type:
        facts["types"] = {name: "/".join(sorted(seen)) for name, seen in by_type.items()}
    elif layers and len({layer.layer for layer in layers}) < (getattr(small, "num_hidden_layers", 0) or 0):
        facts["attends"] = sorted({layer.layer for layer in layers if layer.layer is not None})
    still = sorted({layer.layer for layer in layers if layer.rotation is None and layer.layer is not None})
    if rotating and still and not by_type:
        facts["still"] = still
    return facts


def mentions_rotation(config_class: Any) -> bool:
    """Whether the modules of a class, which stand on their own, speak of rotary positions at all."""
    return _mentions(config_class, r"(?<![A-Za-z])rope|RoPE|Rope|[rR]otary")


def has_no_windows(config_class: Any) -> bool:
    """Whether neither an entry of a class nor the code of its attention is about windows; towers may have some."""
    fields = getattr(config_class, "__dataclass_fields__", {})
    if any("window" in name or name == "local_attention" for name in fields):
        return False
    return not _mentions(
        config_class, r"sliding|local_attention|attention_(window|chunk)|\.window_size", without_comments=True
    )


def _mentions(config_class: Any, pattern: str, *, without_comments: bool = False) -> bool:
    folder = Path(sys.modules[config_class.__module__].__file__ or "").parent
    sources = list(folder.glob("modeling_*.py"))
    if not sources and (found := model_class(config_class)) is not None:  # it has the model of another folder
        sources = [Path(sys.modules[found.__module__].__file__ or "")]
    # A model that the library names nowhere leaves its entries alone to go by.
    sources = sources or list(folder.glob("*.py"))
    texts = [source.read_text(encoding="utf-8") for source in sources]
    texts = [re.sub(r"#.*", "", text) for text in texts] if without_comments else texts
    return any(re.search(pattern, text) for text in texts)


def compact(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts as ``model_types.json`` holds them: what a reader of config.json needs, and no more."""
    if "text_part" in facts:
        return {key: value for key, value in facts.items() if value}
    if "defaults" not in facts:
        return facts
    if "unknown" in facts:
        return {}
    if not facts["rotates"]:
        return {"rotates": False, **{name: facts[name] for name in _OF_CONFIGURATION if name in facts}}
    kept = {name: value for name, value in facts["defaults"].items() if not _TECHNICAL.search(name)}
    found = {
        "layout": facts["layout"],
        "rope_interleave": facts.get("rope_interleave", False),
        "defaults": kept,
        "rope": facts.get("rope"),
        "keeps_base": facts.get("keeps_base", False),
        "partly": facts.get("partly", False)
        or "partial_rotary_factor" in json.dumps(facts.get("rope"))
        or any(first == 0 and part < whole for first, part, whole in facts.get("features", {}).values()),
        "keeps_share": facts.get("keeps_share"),
        "null_base": facts.get("null_base", False),
        "rotary_dim": facts.get("rotary_dim", False),
        "head_is_part": facts.get("head_is_part", False),
        "ignored": facts.get("ignored"),
        "aliases": facts.get("aliases"),
        "first_type": facts.get("first_type"),
        "layer_types": facts.get("layer_types"),
        "from_back": facts.get("from_back", False),
        "last_type": facts.get("last_type"),
        "forces_last": facts.get("forces_last", False),
        "period": facts.get("period"),
        "by_list": facts.get("by_list"),
        "pairs_blocks": facts.get("pairs_blocks", False),
        "behaviour": {
            name: _behaviour(name, does)
            for name, does in facts.get("types", {}).items()
            if does != "none" or "attention" not in name or name == "linear_attention"
        },
        "without_window": facts.get("without_window"),
        "windowless": facts.get("windowless", False),
        "switch": next(([key, value] for key, value in facts.get("switch", {}).items()), None),
        "features": facts.get("features"),
        "axes": facts.get("axes"),
        **{name: facts.get(name) for name in _AS_FOUND},
    }
    return {name: value for name, value in found.items() if value}


_OF_CONFIGURATION = ("choices", "refuses_scalings")
_AS_FOUND = (
    *(
        "bases",
        "fills",
        "fills_share",
        "share_beside",
        "unscaled_share",
        "groups_for_all",
        "one_group",
        "null_groups",
        "null_share",
        "without_switch",
        "needed_types",
        "beside_scaling",
        "heads_of",
        "computes_head",
        "refuses",
    ),
    *("fails_with", "odd_share", "needs_sections", "fails_headless", "needs_head", "floors_head"),
    "fails_with_share",
    *("fails_with_groups", "fails_with_null", "fails_with_zero", "needs", "keeps_short_list"),
    *_OF_CONFIGURATION,
)


def _behaviour(name: str, seen: str) -> str:
    if "rotates" in seen:
        return "rotates"
    # Linear attention is a state space, whatever its code looks like.
    return "none" if name == "linear_attention" else seen


_TECHNICAL = re.compile(r"^default_rope_type$|feed_forward|^chunk_size|vocab|patch|audio|image|video")


def main(names: list[str]) -> None:
    """Write the facts of all architectures, or show those of some."""
    chosen = [architecture(name) for name in names] if names else architectures()
    every = {found.model_type: facts_of(found) for found in chosen}
    if names:
        sys.stdout.write("".join(f"{json.dumps({name: facts})}\n" for name, facts in every.items() if facts))
        return
    kept = {name: compact(facts) for name, facts in sorted(every.items()) if facts}
    written = ",\n".join(f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in kept.items() if facts)
    PATH.write_text(f"{{\n{written}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # some classes make their groups from sets of types
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    main(sys.argv[1:])
