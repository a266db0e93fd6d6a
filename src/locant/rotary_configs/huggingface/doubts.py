"""Doubts about a configuration: unusual numbers, names that nothing reads, missing layer types, axes, indexers."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.base import LayerType, ParsedConfig
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.families import INDEXERS, NULL_GROUP_STANDS_STILL, is_in_transformers
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.position_tables import position_table
from locant.rotary_configs.classes.unread_entries import entries_of_no_class
from locant.rotary_configs.layer_types import KNOWN_TYPES
from locant.rotary_configs.rotary_names import misplaced_names
from locant.rotary_configs.spellings import HEAD_SIZES, HEADS, LAYERS, WIDTHS
from locant.rotary_configs.usual_values import GROUPS, refuse_impossible, rotary_groups, unusual_values

_WITH_INDEXER = ("indexed_attention", "minimax_m3_sparse", "compressed_sparse_attention")
_SIZES_OF_INDEXER = ("index_head_dim", "indexer_head_dim")


def refuse_impossible_values(part: Mapping[str, Any], *, takes_small_bases: bool = False) -> None:
    """Raise ConfigError for a number of a config.json with which nothing can be computed.

    Args:
        part: The text part of config.json.
        takes_small_bases: Whether its class computes with bases from above 0 up to 1 all the same.
    """
    for where, entries in rotary_groups(part):
        refuse_impossible(entries, where, takes_small_bases=takes_small_bases)


def doubts_about(
    part: Mapping[str, Any], known: Container[str] = (), kind: ModelType | None = None, names: Sequence[str] = ()
) -> list[Finding]:
    """Return what is doubtful about the text part of a config.json: unusual numbers, misspelt names, missing groups.

    Args:
        part: The text part.
        known: Names that the model's class has entries for.
        kind: Its facts, where they are known.
        names: Types of the layers, where they are known.
    """
    usual = frozenset(_numbers_of_class(kind))
    found = [finding for where, entries in rotary_groups(part) for finding in unusual_values(entries, where, usual)]
    of_class = None if kind is None else entries_of_class(kind.name)
    own: set[str] = set() if of_class is None else {*of_class.takes, *of_class.reads}
    if kind is not None and of_class is not None:
        own |= {*kind.defaults} & {*HEADS, *HEAD_SIZES, *LAYERS, *WIDTHS}
    found += misplaced_names(part, known, own)
    unknown = () if kind is None else entries_of_no_class(part, kind)
    found += [each for each in unknown if not any(said.message.startswith(each.message.split()[0]) for said in found)]
    return [*found, *types_without_group(part, kind, names)]


def _numbers_of_class(kind: ModelType | None) -> Iterator[tuple[str, float]]:
    """Yield entries that a class has a number for by itself, beside its groups and in them."""
    if kind is not None:
        rope = kind.rope or {}
        for group in (kind.defaults, rope, *(each for each in rope.values() if isinstance(each, Mapping))):
            yield from ((name, value) for name, value in group.items() if is_number(value))


def types_without_group(part: Mapping[str, Any], kind: ModelType | None, names: Sequence[str]) -> list[Finding]:
    """Return warnings about types of layers with attention for which the groups of a file have none, or null.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers, where they are known; otherwise those that the file states.
    """
    stated = part.get("layer_types")
    types = dict.fromkeys(names or (map(str, stated) if isinstance(stated, list) else ()))
    attending = [name for name in types if _attends(name, kind)]
    return [each for name in GROUPS for each in _without_group(part.get(name), name, attending, kind)]


def _attends(name: str, kind: ModelType | None) -> bool:
    """Whether layers of a type rotate by their class, or have attention by their name."""
    if kind is not None and name in kind.behaviour and kind.name not in NULL_GROUP_STANDS_STILL:
        return kind.behaviour[name] == "rotates"
    return name.endswith("attention") and not name.startswith("linear")


def _without_group(group: Any, name: str, attending: Sequence[str], kind: ModelType | None) -> Iterator[Finding]:
    if not isinstance(group, Mapping) or not group:
        return
    groups = [value for value in group.values() if value is not None]
    are_groups = all(isinstance(value, Mapping) for value in groups)
    is_by_layer = are_groups and bool(groups or set(attending) & set(group))
    if not is_by_layer or "main" in group:  # DeepSeek-V4's groups are for layers with and without compression
        return
    for layer, value in group.items():
        is_type = layer in KNOWN_TYPES or layer in attending
        if value is None and is_type and not _stands_still(kind, layer):
            yield Finding(
                "warning",
                f"'{layer}' in {name} of config.json is null: it does not say how such layers rotate. "
                f"{_taken_for_null(layer, kind)}",
                f"State a group for '{layer}', or leave {name} out where the class's own is meant.",
            )
    fills = () if kind is None else kind.fills
    absent = [layer for layer in attending if layer not in group]
    for missing in ([layer for layer in absent if (layer in fills) is is_filled] for is_filled in (True, False)):
        if missing:
            yield Finding(
                "warning",
                f"Layers are of the type {_quoted(missing)}, for which {name} of config.json has no group; it has "
                f"{_quoted(list(group))}. {_taken_there(missing[0], kind)}",
                f"Add a group for {_quoted(missing)}.",
            )


def _taken_for_null(layer: str, kind: ModelType | None) -> str:
    """Return a sentence on what classes do with layers of a type for which a file has null."""
    if kind is None or not is_in_transformers(kind.name) or not kind.rope_by_layer:
        return "Classes of transformers fail there, or take what they have of their own."
    does = "takes its own there, as is shown" if layer in kind.null_groups else "fails there, or refuses the file"
    return f"The class of '{kind.name}' in transformers {does}."


def _taken_there(layer: str, kind: ModelType | None) -> str:
    """Return a sentence on what classes do with layers of a type without a group."""
    if kind is not None and layer in kind.fills:
        return f"The class of '{kind.name}' in transformers takes its own there, as is shown."
    return "Classes of transformers fail there, or take what they have of their own."


def _stands_still(kind: ModelType | None, layer: str) -> bool:
    """Whether layers of a type with null in the place of a group have no positions by their class."""
    if kind is None:
        return False
    by_null = kind.name in NULL_GROUP_STANDS_STILL
    return by_null or kind.behaviour.get(layer) == "still" or (kind.rope or {}).get(layer, layer) is None


def _quoted(names: list[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def with_checked_axes(
    parsed: ParsedConfig, name: str, *, splits: bool, in_vllm: bool = False, by_class: Collection[str] = ()
) -> ParsedConfig:
    """Return a reading with a warning where the axes of its positions have not as many pairs as are rotated.

    Args:
        parsed: The reading.
        name: The entry that lists the pairs of each axis.
        splits: Whether the engine splits the features by the list, which fails where the sum is another, unless the
            pairs of the axes alternate.
        in_vllm: Whether the engine is vLLM, which refuses any other sum.
        by_class: Types of layers of which the file has no such list, and the class one of its own.

    Raises:
        ConfigError: The engine cannot split the features so.
    """
    findings = []
    for layer, axes in parsed.multimodal.items():
        sections, rotated = axes["sections"], parsed.configs[layer].rotary_dim
        assert rotated is not None
        if sum(sections) == rotated // 2:
            continue
        message = (
            f"{name} {list(sections)} sums to {sum(sections)} pairs, but {rotated} rotated features are {rotated // 2} "
            "pairs."
        )
        remedy = f"Correct {name}; pairs beyond it take the positions of others."
        if layer in by_class:
            message = f"The file has no {name}, and that of its class, {message.removeprefix(f'{name} ')}"
            message = message.replace("] sums", "], sums", 1)
            remedy = f"State {name}, as the weights were trained."
        if in_vllm:
            raise ConfigError(f"{message} vLLM refuses them. Correct {name}.")
        if splits and not axes["interleaved"]:
            raise ConfigError(f"{message} transformers fails where it splits the features. Correct {name}.")
        findings.append(Finding("warning", message, remedy))
    return replace(parsed, findings=(*parsed.findings, *findings))


def longest_text_of_table(part: Fields, kind: ModelType | None) -> Iterator[Finding]:
    """Yield the note on the table of positions of a class, which ends, or which it does not make where it rotates.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    table = None if kind is None else position_table(part.values, kind.name, kind.defaults)
    if kind is None or table is None:
        return
    switch, on = kind.switch or ("", None)
    if kind.defaults.get(switch) == on:
        yield Finding(
            "note",
            f"The class of '{kind.name}' in transformers has a table of cosines and sines, which ends at "
            f"{table.in_words()}: it fails with longer texts.",
            "Cut texts to that length.",
        )
    elif table.entry in part.values:
        usual = in_json(kind.defaults.get(switch))
        yield Finding(
            "note",
            f"{table.entry} is {table.stated} in config.json, which limits no text: the class of '{kind.name}' in "
            f"transformers makes a table of positions with {switch} {usual} alone.",
            "Nothing has to be done.",
        )


def turns_backwards(name: str) -> Finding:
    """Return the finding about a class that turns pairs by minus the angle.

    Args:
        name: Its model type.
    """
    return Finding(
        "warning",
        f"The class of '{name}' in transformers turns pairs backwards, by minus the angle. What is shown turns them "
        "forwards, which is the same where the two features of every pair are exchanged.",
        "In an engine that turns forwards, exchange them in the projections of queries and keys, or negate the sines.",
        "turns backwards",
    )


def learns_frequencies(name: str) -> Finding:
    """Return the finding about a class whose frequencies are learned, and queries scaled by what is learned.

    Args:
        name: Its model type.
    """
    return Finding(
        "warning",
        f"The class of '{name}' in transformers multiplies the frequency of every pair by exp(alpha), and queries by "
        "scale * ln(position + 1) + bias, all learned with the weights: what is shown is what alpha 0 makes of the "
        "file, not the frequencies of the trained model.",
        "Multiply what is shown by exp(alpha), which the weights hold as rotary_emb.alpha.",
    )


def turns_values(part: Fields) -> list[Finding]:
    """Return the finding about a class that is told to turn values as well, as RoFormer's may be, if it is.

    Args:
        part: The text part of config.json.
    """
    if part.flag("rotary_value") is not True:
        return []
    return [
        Finding(
            "warning",
            "rotary_value is true in config.json: the attention turns values as well as queries and keys.",
            "Turn the values too, in code of your own; no rotary scheme does.",
        )
    ]


def is_scaled_by_class(
    part: Mapping[str, Any], kind: ModelType | None, configs: Mapping[str, RotaryConfig]
) -> list[Finding]:
    """Return the finding about null in the place of a scaling that the class has itself, if the file has that.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        configs: What its layers do.
    """
    own = None if kind is None else entries_of_class(kind.name)
    kept = ("rope_parameters",) if own is not None and own.loses_groups else GROUPS
    nulls = [name for name in kept if name in part and not part[name]]
    scaled = next((each for each in configs.values() if not isinstance(each.scaling, Unscaled)), None)
    if kind is None or not nulls or scaled is None or any(part.get(name) for name in GROUPS):
        return []
    return [
        Finding(
            "warning",
            f"{nulls[0]} is {in_json(part[nulls[0]])} in config.json, which does not switch off what the class of "
            f"'{kind.name}' in transformers has itself: {scaled.describe()}.",
            'For no scaling, state {"rope_type": "default"} with the base for rope_parameters.',
        )
    ]


def is_of_indexer(name: str) -> bool:
    """Whether an entry is about the indexer of sparse attention, whose queries and keys are its own."""
    return name.startswith("index")


def notes_on_indexers(
    part: Fields,
    kind: ModelType | None,
    names: Collection[str],
    configs: Mapping[str, RotaryConfig],
    layers: Collection[LayerType] = (),
) -> list[Finding]:
    """Return a note on the indexer of sparse attention, which rotates queries and keys of its own.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers.
        configs: What their attention does.
        layers: The types with the names of their configurations, where these are others.
    """
    sparse = next((name for name in _WITH_INDEXER if name in names), None)
    if kind is None or kind.name not in INDEXERS or sparse is None or part.flag("use_dsa") is False:
        return []
    of_type = next((each.config for each in layers if each.name == sparse and each.config), sparse)
    config = configs[of_type] if of_type in configs else next(iter(configs.values()))
    layout, place = INDEXERS[kind.name]
    stated = part.flag("indexer_rope_interleave")
    if stated is not None and stated is not (layout == "interleaved"):
        return [
            Finding(
                "warning",
                f"indexer_rope_interleave is {str(stated).lower()}, which the class of '{kind.name}' in transformers "
                f"passes over: its indexer has the layout '{layout}'.",
                "Compare with the code that trained the model.",
            )
        ]
    size = next((size for name in _SIZES_OF_INDEXER if (size := part.whole(name)) is not None), None)
    assert config.rotary_dim is not None
    if size is not None and size < config.rotary_dim:
        return [
            Finding(
                "warning",
                f"The indexer of the sparse attention has {size} features, fewer than the {config.rotary_dim} that the "
                f"attention rotates: the class of '{kind.name}' in transformers fails there, or turns the two features "
                "of a pair by different angles.",
                "Compare with the shapes of the indexer's weights.",
            )
        ]
    of = "its features" if size is None else f"its {size} features"
    other = "as the attention does" if layout == config.layout else f"unlike the attention, which has '{config.layout}'"
    value = str(stated).lower()
    also = "" if stated is None else f" indexer_rope_interleave {value} says the same, and the class does not read it."
    return [
        Finding(
            "note",
            f"The indexer of the sparse attention rotates the {place} {config.rotary_dim} of {of} by the same "
            f"frequencies, in the layout '{layout}', {other}.{also}",
            "Rotate the queries and keys of the indexer so, too.",
        )
    ]
