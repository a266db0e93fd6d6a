"""Positions of models that rotate nothing: which scheme they have, and entries of a file without effect on it.

``other_positions.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/other_positions.py``):
modules and parameters of their models, with the switches by which they have them, what their code reads, and whether
anything tells them the order of a text with all switches off.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.positions.scaling.fields import in_json
from locant.rotary_configs.base import MOST_LAYERS, in_words
from locant.rotary_configs.classes.field_kinds import entries_of_nobody
from locant.rotary_configs.classes.position_tables import position_table
from locant.rotary_configs.spellings import is_count

WORD = "position_embeddings_type"
"""An entry that says by a word what positions some encoders of speech have."""

READ_BY_OTHERS = (
    "n_positions",
    "max_position_embeddings",
    "max_seq_len",
    "n_ctx",
    "alibi",
    "learned_pos_emb",
    "position_embedding_type",
    "relative_attention",
    "position_buckets",
    "max_relative_positions",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
)
"""Entries about other positions that some classes read."""

LENGTHS = ("n_positions", "max_position_embeddings", "max_seq_len", "n_ctx")
"""Entries with the longest text, or the size of a table of positions."""

_OF_TABLES = ("learned", "sinusoidal", "alibi")
_SIZES = {
    "t5": ("relative_attention_num_buckets", "relative_attention_max_distance"),
    "deberta": ("position_buckets", "max_relative_positions", "pos_att_type"),
}
_WORDS = {
    "learned": "learned ones, which are added to the embeddings",
    "sinusoidal": "sinusoidal ones, which are added to the embeddings (here: the scheme 'sinusoidal')",
    "alibi": "ALiBi (here: the scheme 'alibi')",
    "t5": "T5's biases by buckets of relative positions (here: 't5')",
    "deberta": "DeBERTa's disentangled attention to relative positions (here: 'deberta')",
    "shaw": "embeddings of relative positions in the keys (here: 'shaw')",
    "transformer-xl": "relative positions with biases of their own, as in Transformer-XL (here: 'transformer-xl')",
    "relative": "learned biases by relative positions",
    "convolution": "a convolution over neighbouring hidden states",
}
_RECURRENT = "mamba mamba2 falcon_mamba rwkv xlstm jamba zamba nemotron_h kimi_linear"
_STATES = frozenset(_RECURRENT.split())
_WINDOWS_OF_BOTH_SIDES = {
    "longformer": ("attention_window", 512, 2, "every token"),
    "led": ("attention_window", 512, 2, "every token of the encoder"),
    "longt5": ("local_radius", 127, 1, "every token of the encoder"),
}
"""Entries with windows of both sides together or of one, with their defaults."""

_OWN_CODE = {"gpt_refact": ("alibi",)}


def positions_in_words(part: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> str | None:
    """Return what a model that rotates nothing has in place of rotary positions; ``None`` where it is not known.

    Args:
        part: The text part of config.json.
        name: Its model type.
        defaults: What its class has where the file leaves an entry out.
    """
    if name in _STATES:
        return "and no others: a recurrence or attention alone tells the order of a text"
    schemes = _schemes(part, name, defaults)
    if not schemes and name in _classes():
        told = "nothing tells" if is_orderless(part, name, defaults) else "causal masks or a recurrence alone tell"
        return f"and no others: {told} the order of a text"
    if not schemes:
        return None
    in_place = _classes().get(name, {}).get("in_place", {})
    lengths = {
        scheme: "".join(_length_in_place(part, entry, *in_place[entry]) for entry in entries if entry in in_place)
        for scheme, entries in _SIZES.items()
    }
    return "but " + ", and ".join(_WORDS[each] + _sizes(part, each) + lengths.get(each, "") for each in schemes)


def is_orderless(part: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> bool:
    """Whether nothing tells a model that rotates nothing the order of a text.

    Args:
        part: The text part of config.json.
        name: Its model type.
        defaults: What its class has where the file leaves an entry out.
    """
    return bool(_classes().get(name, {}).get("orderless")) and not _schemes(part, name, defaults)


def longest_in_words(part: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on the longest text of a model that rotates nothing, where its table of positions has an end.

    Args:
        part: The text part of config.json.
        name: Its model type.
        defaults: What its class has where the file leaves an entry out.
    """
    table = position_table(part, name, defaults)
    if table is not None and {*_OF_TABLES} & {*_schemes(part, name, defaults)}:
        yield f"Its table of positions ends at {table.in_words()}: it fails with longer texts."


def switches_in_words(name: str) -> str:
    """Return the entries that give a class positions which it has by a switch: "relative_attention true"."""
    switches = dict.fromkeys(f"{key} {in_json(on)}" for key, on, _ in _classes()[name]["schemes"].values())
    return " or ".join(switches)


def without_effect(part: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about entries that the class of a model which rotates nothing passes over.

    Args:
        part: The text part of config.json.
        name: Its model type.
        defaults: What its class has where the file leaves an entry out.
    """
    stored = _classes().get(name)
    if stored is None:
        return
    group = part.get("attn_config")
    entries = {**part, **(group if isinstance(group, Mapping) else {})}
    schemes = _schemes(part, name, defaults)
    is_told_elsewhere = {*stored["reads"], *entries_of_nobody(name)}  # what nobody may set makes the class fail
    for key in (key for key in READ_BY_OTHERS if key in entries and key not in is_told_elsewhere):
        value = entries[key]
        is_told = value not in (None, False, -1, "absolute") or (value is False and key in schemes)
        if is_told and not (key == "alibi" and value is True and "alibi" in schemes):
            what = "limits nothing" if key in LENGTHS else "has no effect"
            yield f"{key} {in_json(value)} {what} there: the class does not read it."
    for scheme, switch in stored["schemes"].items():
        if switch is not None and switch[0] == WORD and scheme not in schemes:
            turns = part.get(WORD) == "rotary" and stored.get("turns_by_word")
            what = "a part of the class beside its text turns hidden states before it projects queries and keys of them"
            otherwise = f"the class has {_WORDS[scheme]} with {in_json(switch[1])} alone"
            yield f"{WORD} is {in_json(part.get(WORD))} in config.json: {what if turns else otherwise}."
        stated = [key for key in _SIZES.get(scheme, ()) if part.get(key) not in (None, -1, "", [])]
        if switch is not None and scheme not in schemes and stated:
            said = " and ".join(f"{key} {in_json(part[key])}" for key in stated)
            on = f"{switch[0]} {in_json(switch[1])}"
            yield f"{said} {'has' if len(stated) == 1 else 'have'} no effect there: the class reads that with {on}."


def windows_in_words(part: Mapping[str, Any], name: str) -> str | None:
    """Return how far the layers of a class with windows look, ``None`` for other classes.

    Args:
        part: The text part of config.json.
        name: Its model type.
    """
    if name in _WINDOWS_OF_BOTH_SIDES:
        entry, usual, halves, whose = _WINDOWS_OF_BOTH_SIDES[name]
        stated = part.get(entry, usual)
        sides = sorted(
            {each // halves for each in (stated if isinstance(stated, list) else [stated]) if is_count(each)}
        )
        if not sides:
            return None
        said = str(sides[0]) if len(sides) == 1 else f"{sides[0]} to {sides[-1]}"
        return f"By {entry}, {whose} sees {said} tokens on each side, besides those with global attention."
    types, entry, usual = _types_of_layers(part, name)
    local = [index for index, each in enumerate(types) if each in ("local", "hybrid_sliding")]
    window = part.get(entry, usual)
    if not local or not is_count(window):
        return None
    said = in_words(local)
    return f"{said[:1].upper()}{said[1:]} of {len(types)} {'has' if len(local) == 1 else 'have'} a window of {window}."


def _types_of_layers(part: Mapping[str, Any], name: str) -> tuple[Sequence[Any], str, int]:
    """Return the types of the layers of a class without rotation, and the entry of their window with its default."""
    if name == "gpt_neo":
        return _expanded(part.get("attention_types", [[["global", "local"], 12]])), "window_size", 256
    stated, chosen, count = (part.get(each) for each in ("layer_types", "local_layer_ids", "num_hidden_layers"))
    if name != "inkling_text" or not (isinstance(stated, list) or is_count(count)):
        return (), "", 0
    if not isinstance(stated, list):  # configuration_inkling.py: all but every sixth
        local = chosen if isinstance(chosen, list) else [index for index in range(count or 0) if (index + 1) % 6]
        stated = ["hybrid_sliding" if index in local else "hybrid" for index in range(count or 0)]
    return stated, "sliding_window_size", 512


def _expanded(attention_types: Any) -> list[str]:
    """Return the type of every layer, as ``GPTNeoConfig.expand_attention_types_params`` does."""
    found: list[str] = []
    for each in attention_types if isinstance(attention_types, list) else ():
        is_pair = isinstance(each, list) and len(each) == 2 and isinstance(each[0], list) and isinstance(each[1], int)
        found += [*map(str, each[0])] * each[1] if is_pair and each[1] <= MOST_LAYERS else []
    return found


def _schemes(part: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> Sequence[str]:
    """Return the schemes of a class, of those with a switch the ones that the file or the class switches on."""
    stored = _classes().get(name)
    if stored is None:
        return _OWN_CODE.get(name, ())

    def is_on(switch: list[Any] | None) -> bool:
        if switch is None:
            return True
        key, value, usual = switch
        stated = part[key] if key in part else defaults.get(key, usual)
        return bool(stated) is value if isinstance(value, bool) else bool(stated == value)

    return [scheme for scheme, switch in stored["schemes"].items() if is_on(switch)]


def _length_in_place(part: Mapping[str, Any], entry: str, other: str, length: int) -> str:
    """Return which length a class takes in the place of one below 1; nothing where the file states one.

    Args:
        part: The text part of config.json.
        entry: The length.
        other: The entry with the other one.
        length: What its class has for that.
    """
    if is_count(part.get(entry)):
        return ""
    said = f"{entry} {in_json(part[entry])}" if entry in part else f"{entry}, which is left out,"
    return f" ({said} stands for {other}, {in_json(part.get(other, length))})"


def _sizes(part: Mapping[str, Any], scheme: str) -> str:
    stated = [f"{key} {in_json(part[key])}" for key in _SIZES.get(scheme, ()) if part.get(key) is not None]
    return f" with {', '.join(stated)}" if stated else ""


@functools.cache
def _classes() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "other_positions.json").read_text(encoding="utf-8"))
    return stored
