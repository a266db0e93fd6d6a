"""What positions the classes of transformers have that rotate nothing, written to ``other_positions.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/other_positions.py``. The models are
built without weights, and with each of their switches about positions turned.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import nn

import locant
from locant.extension.inspect.model_class.small_model import build, model_class, quiet, reduced_entries
from locant.rotary_configs.classes.families import known_model_types, model_type
from locant.rotary_configs.classes.other_positions import LENGTHS, READ_BY_OTHERS, WORD
from zoo.cases import usual_entries

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "other_positions.json"

_OTHER = 37
_SWITCHES = ("relative_attention", "position_biased_input", "has_relative_attention_bias", "has_spatial_attention_bias")
ORDERLESS = {"orderless": True}

_POSITIONS = re.compile(r"^(?!gru_|linear_).*?(^|_)(position|positions|pos|wpe)(_|$)")
_PARAMETERS = {
    "transformer-xl": re.compile(r"(^|\.)(r_r_bias|r_w_bias|pos_bias_[uv]|bias_[uv])$"),
    "learned": re.compile(
        r"(^|[._])(position|pos)_(embeddings?|embeds?)$|absolute_pos_embed$|(^|\.)positional_embedding$"
    ),
    "relative": re.compile(r"rel_pos(_[hw])?$|relative_position_bias_table$"),
    "t5": re.compile(r"relative_attention_bias$"),
    "shaw": re.compile(r"(^|\.)emb_rel_k$"),
}
_SOURCES = {
    "alibi": re.compile(r"alibi"),
    "sinusoidal": re.compile(r"def (sinusoidal_)?positional_encoding|[Ss]inusoid"),
}


def schemes_of(config_class: Any) -> dict[str, list[Any] | None] | None:
    """Return the schemes of a class, each with the entry and its value by which it is there, and the
    value of the class; ``None`` if they are not known.
    """
    usual = _built(config_class, {})
    if usual is None:
        return None
    found: dict[str, list[Any] | None] = dict.fromkeys(
        scheme for each in (usual, *_around(usual)) for scheme in _seen(each)
    )
    for switch, off in switches_off(config_class).items():
        own = getattr(usual.config, switch, None)
        other = None if not isinstance(off, str) else _built(config_class, {switch: off})
        if other is not None:
            found |= {scheme: [switch, own, own] for scheme in {*_seen(usual)} - {*_seen(other)}}
    own = getattr(usual.config, WORD, None)
    has_words = isinstance(own, str) and WORD not in switches_off(config_class)
    if has_words and (other := _built(config_class, {WORD: "none"})) is not None:
        found |= {scheme: [WORD, own, own] for scheme in {*_seen(usual)} - {*_seen(other)}}
    for switch in _SWITCHES:
        own = getattr(usual.config, switch, None)
        other = None if not isinstance(own, bool) else _built(config_class, {switch: not own})
        if other is not None:
            found |= {scheme: [switch, own, own] for scheme in {*_seen(usual)} - {*_seen(other)}}
            found |= {scheme: [switch, not own, own] for scheme in {*_seen(other)} - {*_seen(usual)}}
    if not found and "input_ids" in inspect.signature(usual.forward).parameters:
        source = inspect.getsource(sys.modules[type(usual).__module__])
        found = {scheme: None for scheme, pattern in _SOURCES.items() if pattern.search(source)}
    return dict(sorted(found.items()))


def _around(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the models of tasks around one that takes modules of theirs: their layers before it may know positions."""
    if not {"encoder", "decoder"} & {*inspect.signature(type(model).__init__).parameters}:
        return
    for name, each in vars(sys.modules[type(model).__module__]).items():
        if "For" in name and inspect.isclass(each) and issubclass(each, type(model).__mro__[1]):
            try:
                with quiet(), torch.device("meta"):
                    yield each(copy.deepcopy(model.config))
            except Exception:  # a task that wants other entries
                continue


def switches_off(config_class: Any) -> dict[str, Any]:
    """Return the entries by which a class rotates or has another scheme, with values by which it has none of them."""
    known = model_type(config_class.model_type)
    rotates = known.switch if known is not None else None
    found = {name: False for name in _SWITCHES if isinstance(getattr(config_class, name, None), bool)}
    return found if rotates is None else {**found, rotates[0]: "none" if isinstance(rotates[1], str) else False}


def knows_no_order(config_class: Any, off: dict[str, Any]) -> bool:
    """Whether a model computes the same of a token whatever the order of those before it, with its switches off."""
    texts = torch.tensor([[5, 6, 7, 8, 9, 10], [6, 5, 7, 8, 9, 10]])
    entries = {**reduced_entries(usual_entries(config_class), 4), **off, "pad_token_id": 0}
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(config_class(**copy.deepcopy(entries))).eval()
        with torch.no_grad():
            states = model(input_ids=texts, **({"use_cache": False} if hasattr(model.config, "use_cache") else {}))[0]
    return torch.allclose(states[0, -1], states[1, -1], rtol=0, atol=1e-5)


def _built(config_class: Any, entries: dict[str, Any]) -> Any:
    """Return a model without weights, small where the class can be made small; ``None`` where it cannot be built."""
    found = model_class(config_class)
    for make in (lambda: reduced_entries(usual_entries(config_class)), dict):
        try:
            with quiet(), torch.device("meta"):
                return None if found is None else found(config_class(**{**copy.deepcopy(make()), **entries}))
        except Exception:  # whatever the class raises
            continue
    return None


def _seen(model: nn.Module) -> Iterator[str]:
    """Yield the schemes of which a model has a module or a parameter."""
    for path, module in model.named_modules():
        name, kind = path.rpartition(".")[2], type(module).__name__
        if re.search(r"[Ss]inusoid", kind):
            yield "sinusoidal"
        elif name in ("relative_attention_bias", "rel_attn_embed", "rel_pos_bias", "relative_bias"):
            yield "t5"
        elif name == "rel_embeddings":
            yield "deberta"
        elif name in ("distance_embedding", "pe_k"):
            yield "shaw"
        elif "pos_conv_embed" in name:
            yield "convolution"
        elif re.search(r"Relative(Position(al)?(Bias|Embedd)|Logits)", kind):
            yield "relative"
        elif _POSITIONS.search(name) and (hasattr(module, "weight") or hasattr(module, "weights")):
            yield "learned"
    for name, _ in model.named_parameters():
        yield from (scheme for scheme, pattern in _PARAMETERS.items() if pattern.search(name))


def lengths_in_place_of(config_class: Any) -> dict[str, tuple[str, Any]]:
    """Return the lengths in the place of which a class takes another one where they are -1, with its value for that."""
    found = {}
    fields = getattr(config_class, "__dataclass_fields__", {})
    lengths = [name for name in ("max_position_embeddings", "n_positions") if name in fields]
    on = {name: True for name in _SWITCHES if name in fields}
    for entry in ("max_relative_positions",):
        for name in lengths:
            model = _built(config_class, {**on, entry: -1, name: _OTHER})
            if any(getattr(module, entry, None) == _OTHER for module in (model.modules() if model else ())):
                found[entry] = (name, getattr(config_class, name))
    return found


def reads_of(config_class: Any) -> list[str]:
    """Return which of the entries that some classes read about other positions the code of a class reads."""
    model = model_class(config_class)
    if model is None:
        return [*READ_BY_OTHERS]
    code = inspect.getsource(sys.modules[model.__module__])
    own = inspect.getsource(sys.modules[config_class.__module__])
    named = {**config_class.attribute_map, **{value: key for key, value in config_class.attribute_map.items()}}
    return [
        name
        for name in READ_BY_OTHERS
        if any(
            re.search(rf"""config\.{each}\b|config, ["']{each}["']""", code) for each in (name, named.get(name, name))
        )
        or re.search(rf"self\.{name}\b", own)
        or (name in LENGTHS and _sizes_tables(config_class, name))
    ]


def _sizes_tables(config_class: Any, name: str) -> bool:
    """Whether a model has other tables with another length, which a module of another file may make."""
    if name not in getattr(config_class, "__dataclass_fields__", {}):
        return False
    usual, other = (_built(config_class, entries) for entries in ({}, {name: _OTHER}))
    if usual is None or other is None:
        return False
    shapes = [{path: each.shape for path, each in model.named_parameters()} for model in (usual, other)]
    return shapes[0] != shapes[1]


def _turns_by_word(config_class: Any) -> bool:
    """Whether a class that has other positions makes a module for rotary ones where an entry says so."""
    if not isinstance(getattr(config_class, WORD, None), str) or WORD in switches_off(config_class):
        return False
    model = _built(config_class, {WORD: "rotary"})
    return model is not None and any("Rotary" in type(module).__name__ for module in model.modules())


def positions_of(config_class: Any) -> dict[str, Any] | None:
    """Return what is stored of a class that does not rotate, or not always; ``None`` where nothing is known of it.

    ``turns_by_word`` is there where a part of it beside the text rotates by ``position_embeddings_type``, ``orderless``
    where nothing tells it the order of a text once all its switches are off.
    """
    known, schemes = model_type(config_class.model_type), schemes_of(config_class)
    if not schemes and (known is None or known.switch is None):
        return None
    found: dict[str, Any] = {"schemes": schemes or {}, "reads": reads_of(config_class)}
    if lengths := lengths_in_place_of(config_class):
        found["in_place"] = {entry: list(of) for entry, of in lengths.items()}
    if _turns_by_word(config_class):
        found["turns_by_word"] = True
    is_told = None in found["schemes"].values()
    return found | ({} if is_told or not knows_no_order(config_class, switches_off(config_class)) else ORDERLESS)


def schemes_of_all() -> dict[str, Any]:
    """Return the schemes of all classes that do not rotate, or not always, and which entries about them they read."""
    from transformers import CONFIG_MAPPING

    found = {}
    for name in sorted(CONFIG_MAPPING.keys()):
        known = model_type(name)
        if name not in known_model_types() or known is None or known.text_part or (known.rotates and not known.switch):
            continue
        positions = positions_of(CONFIG_MAPPING[name])
        if positions is not None:
            found[name] = positions
    return found


def main() -> None:
    """Write the schemes of all classes."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(schemes)}" for name, schemes in schemes_of_all().items())
    PATH.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
