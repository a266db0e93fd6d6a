"""Entries about positions that a config.json leaves out, in one note with the values that its class has.

Numbers are tried: the file is read again with the class's own value and with others. What layers do as a whole, their
bases and shares and types, is taken from the reading, where nothing in the file states it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from locant.extension.inspect.trials import Path, Read, is_same, other_values, read_or_none, states, with_value
from locant.positions.scaling import Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import ALL_LAYERS, ParsedConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import LISTS_OF_TYPES, entries_of_class
from locant.rotary_configs.classes.hunyuan import RAISED_BASE
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.reads import is_of_positions, read_by_class
from locant.rotary_configs.huggingface.groups_by_layer_type import FAILS_WITH_GROUPS, PASSES_OVER_GROUPS
from locant.rotary_configs.huggingface.text_parts import name_of, steps_to_text, text_part, text_part_names
from locant.rotary_configs.layer_patterns import layers_in_words, pattern_in_words
from locant.rotary_configs.spellings import ROTARY, head_size, words_of
from locant.rotary_configs.usual_values import GROUPS
from locant.rotary_configs.wording import words_of_findings

_BASES = frozenset(["theta", "thetas", "base", "bases"])
_OTHER_BASE = 1.25  # times
_OF_A_SHARE = re.compile(r"rotary|partial|rope_pct|rope_head|rope_dim")
_ROUNDS = frozenset(["pattern", "interval", "period", "every", "idxs", "indices", "types", "type", "offset"])
_LENGTH = "max_position_embeddings"


def values_left_out(
    content: Mapping[str, Any], parsed: ParsedConfig, read: Read, kind: ModelType, said: Sequence[Finding]
) -> list[Finding]:
    """Return the note about all that is shown though the file does not state it, because the class has it.

    Args:
        content: A config.json.
        parsed: Its reading.
        read: How it was read.
        kind: The facts of its class.
        said: What was found so far; entries that a finding names are not told again.
    """
    others = [each for each in said if each.code != "base of the class"]
    is_odd = any(each.code == "odd share" for each in said)
    file = _File(content, parsed, read, kind, words_of_findings(others), len(others) < len(said), is_odd)
    layers = [*_layers(file)]
    numbers = _numbers(file, with_rounds=not layers)
    # A class that fails with the groups of a file takes none of its own in their place, and of groups that it passes
    # over it is told what it takes.
    takes_groups = all(each.code not in (FAILS_WITH_GROUPS, PASSES_OVER_GROUPS) for each in said)
    tells_base = any(each.code == RAISED_BASE for each in said)  # and the one of the class, from which it is raised
    bases = [] if tells_base else _bases(file)
    of_groups = [*_scaling(file), *bases, *_shares(file)] if takes_groups else []
    items = [*_parts(file), *of_groups, *numbers, *layers, *_sections(file)]
    if not items:
        return []
    are_null = [re.split(r"[, ]", each)[0] in file.nulls for each in items]
    how = "Null in config.json" if all(are_null) else f"Left out of config.json{' or null there' * any(are_null)}"
    if file.where:  # other parts of the model may have entries of these names
        how += f" (in {'.'.join(file.where)})"
    return [
        Finding(
            "note",
            f"{how}, and taken as the class of '{kind.name}' in transformers has it: {'; '.join(items)}.",
            "Compare with the model's publication.",
            "values of the class",
        )
    ]


@dataclass(frozen=True)
class _File:
    """A file and its reading.

    Attributes:
        content: A config.json.
        parsed: Its reading.
        read: How it was read.
        kind: The facts of its class.
        told: Words of what was found about it.
        lacks_base: Whether a note of the reading says that its base is the class's.
        is_odd: Whether an odd number of features is turned with one more, by a base of the reading's own.
    """

    content: Mapping[str, Any]
    parsed: ParsedConfig
    read: Read
    kind: ModelType
    told: set[str]
    lacks_base: bool
    is_odd: bool

    @property
    def part(self) -> Mapping[str, Any]:
        """The text part."""
        return text_part(self.content)

    @property
    def nulls(self) -> set[str]:
        """Entries that are there, without a value."""
        return {name for name, value in self.part.items() if value is None}

    @property
    def where(self) -> Path:
        """The groups that lead to it."""
        return tuple(text_part_names(self.content))

    def states(self, pattern: re.Pattern[str], read: Collection[str] | None = None) -> bool:
        """Whether an entry of the text part, or of a group in it, has a name with a pattern, and a value; no base.

        Args:
            pattern: The pattern.
            read: What the class reads; entries of the text part beside these say nothing. ``None`` for all.
        """
        unread = {name for name in self.part if read is not None and name not in read}
        return any(
            pattern.search(name) and value is not None and not _BASES & words_of(name) and name not in unread
            for name, value in _entries(self.part)
        )

    def layers_of(self, values: Mapping[str, str]) -> str:
        """Return values of layer types in words: one alone where all have the same."""
        if len({*values.values()}) == 1 and len(values) == len(self.parsed.configs):
            return next(iter(values.values()))
        return ", ".join(f"{value} for {name}" for name, value in values.items())


def _entries(group: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in group.items():
        yield name, value
        if isinstance(value, Mapping):
            yield from _entries(value)


def _parts(file: _File) -> Iterator[str]:
    """Yield the type of a text part that states none, and a text part that is made of the entries around it."""
    steps, whole = steps_to_text(file.content), families.model_type(name_of(file.content))
    if steps and steps[-1].is_ours and steps[-1].kind is not None and "model_type" not in steps[-1].part:
        if "model_type" not in file.told and steps[-1].kind.text_type == file.kind.name:
            yield f"the model_type of {steps[-1].name}, '{file.kind.name}'"
    elif not steps and whole is not None and whole.flat and whole.text_part and whole.text_part[0] not in file.told:
        yield f"{whole.text_part[0]}, for which entries of the file itself are taken"


def _scaling(file: _File) -> Iterator[str]:
    """Yield the scaling that a class has of its own."""
    scaled = {name: each for name, each in file.parsed.configs.items() if not isinstance(each.scaling, Unscaled)}
    is_stated = any(file.part.get(group) is not None for group in GROUPS)
    if _scaling_of_class(file.kind) and scaled and not is_stated and "scaling" not in file.told:
        yield f"rope_parameters, {file.layers_of({name: each.describe() for name, each in scaled.items()})}"


def _bases(file: _File) -> Iterator[str]:
    """Yield bases that no entry of the file changes."""
    if any(map(_is_base, file.told)) or file.kind.name in families.PASSES_OVER_GROUPS:
        return
    other = read_or_none(_with_other_bases(file.content), file.read)
    if other is None and not file.lacks_base:
        return
    bases: dict[str, str] = {}
    named: list[str] = []
    for layer, config in file.parsed.configs.items():
        name = _name_of_base(file.kind, layer)
        changed = None if other is None else _base_in(other, file.parsed, layer)
        if file.part.get(name or "rope_theta") == config.base or changed not in (None, config.base):
            continue  # stated, whether the class reads it there or not
        features = config.rotary_dim
        base = config.base ** ((features - 1) / features) if file.is_odd and features else config.base
        if name is None:
            bases[layer] = f"{base:.10g}"
        else:
            named.append(f"{name} {base:.10g}")
    if bases:
        yield f"rope_theta {file.layers_of(bases)}"
    yield from named


def _base_in(other: ParsedConfig, parsed: ParsedConfig, layer: str) -> float | None:
    """Return the base in another reading of what a reading has for a type of layers, which may be named by its base."""
    indices = {index for each in parsed.layers if each.config == layer for index in each.layers}
    name = next((each.config for each in other.layers if indices & {*each.layers}), layer)
    config = other.configs.get(name or layer)
    return None if config is None else config.base


def _is_base(name: str) -> bool:
    return bool(_BASES & words_of(name) and ROTARY & words_of(name))


def _with_other_bases(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file in which all bases are others."""

    def changed(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return _with_other_bases(value)
        if not _BASES & words_of(name):
            return value
        if isinstance(value, list):
            return [each * _OTHER_BASE if is_number(each) and each > 1 else each for each in value]
        return value * _OTHER_BASE if is_number(value) and value > 1 else value

    return {name: changed(name, value) for name, value in group.items()}


def _name_of_base(kind: ModelType, layer: str) -> str | None:
    """Return the entry that states the base of a type of layers and of no other, where the class has one."""
    names = (entry for entry, types in kind.bases.items() if [*types] == [layer] and entry != "rope_theta")
    return next(names, None)


def _scaling_of_class(kind: ModelType) -> str | None:
    """Return the type of the scaling that a class has where the file states none."""
    rope = kind.rope or {}
    groups = [group for group in rope.values() if isinstance(group, Mapping)] or [rope]
    types = {str(group.get("rope_type", group.get("type", "default"))) for group in groups} - {"default"}
    return min(types) if types else None


def _shares(file: _File) -> Iterator[str]:
    """Yield which part of a head rotates, where nothing in the file is about that."""
    is_told = {"partial_rotary_factor", "rotary_dim", "rotary_pct"} & file.told
    if is_told or file.states(_OF_A_SHARE, read_by_class(file.kind.name)):
        return
    configs, own = file.parsed.configs, entries_of_class(file.kind.name)
    number = file.kind.defaults.get("rotary_dim")
    if {number} == {each.rotary_dim for each in configs.values()}:
        yield f"rotary_dim {number}"
        return
    stored = [value for name, value in _entries(file.kind.rope or {}) if name == "partial_rotary_factor"]
    name = "rotary_pct" if own is not None and "rotary_pct" in own.reads else "partial_rotary_factor"
    values = {}
    for layer, config in configs.items() if stored else ():
        assert config.rotary_dim is not None
        if config.rotary_dim != config.head_dim or name == "rotary_pct":
            # Of an odd number of features, or a fraction of one, the class takes fewer, or one more.
            near = [each for each in stored if -1 <= each * config.head_dim - config.rotary_dim < 2]
            values[layer] = f"{(near or [config.rotary_dim / config.head_dim])[0]:.4g}"
    if values:
        yield f"{name} {file.layers_of(values)}"


def _numbers(file: _File, *, with_rounds: bool) -> Iterator[str]:
    """Yield numbers about positions which change the reading where the file states other ones.

    Args:
        file: The file.
        with_rounds: Whether rounds of layers are told here.
    """
    own = entries_of_class(file.kind.name)
    if own is None:
        return
    for name, value in file.kind.defaults.items():
        if name in file.part or name in file.told or not states(value) or name.startswith("default_"):
            continue
        if name == _LENGTH:
            yield from _length(file, value)
        if name == "rotary_dim" or not is_of_positions(name) or _BASES & words_of(name):
            continue  # of which others tell
        if (name == "head_dim" and value == head_size(file.part)) or (_is_round(name) and not with_rounds):
            continue
        if _counts(file, name, value):
            yield f"{name} {value:.10g}"


def _counts(file: _File, name: str, value: Any) -> bool:
    """Whether the reading is that with a value, and not with others."""
    path = (*file.where, name)
    others = (with_value(file.content, path, each) for each in other_values(value))
    return is_same(file.parsed, with_value(file.content, path, value), file.read) and not all(
        is_same(file.parsed, each, file.read) for each in others
    )


def _length(file: _File, value: Any) -> Iterator[str]:
    """Yield the declared length, where a scaling goes by it."""
    other = read_or_none(with_value(file.content, (*file.where, _LENGTH), value * 2), file.read)
    if other is None:
        return
    scalings = [
        [each.scaling for each in parsed.configs.values() if not isinstance(each.scaling, Unscaled)]
        for parsed in (file.parsed, other)
    ]
    if scalings[0] != scalings[1]:
        yield f"{_LENGTH} {value:.10g}"


def _layers(file: _File) -> Iterator[str]:
    """Yield which layers are of which type, where no entry of the file states that."""
    own, layers = entries_of_class(file.kind.name), file.parsed.layers
    if own is None or own.reads.isdisjoint(LISTS_OF_TYPES) or {*LISTS_OF_TYPES} & file.told:
        return
    if any(name in file.told and _is_round_of(name, file.kind) for name in file.part):
        return  # of which a class that fails makes no types
    if not layers or (len(layers) == 1 and layers[0].name == ALL_LAYERS) or _states_layers(file):
        return
    still = [*_still_by_list(file)]
    named = [replace(each, name=each.type_name) for each in layers]
    types = {(each.name, each.window) for each in (named if still else layers)}
    if len(types) > 1 or layers[0].window or file.kind.rope_by_layer:
        is_told_by_types = bool(still) or len({each.name for each in named}) > 1
        yield f"layer_types, {pattern_in_words(named if is_told_by_types else layers)}"
    if still:
        yield f"no_rope_layers, 0 for {layers_in_words(still, sum(len(each.layers) for each in layers))}"


def _still_by_list(file: _File) -> Iterator[int]:
    """Yield the layers without positions by ``no_rope_layers``, of which their types say nothing."""
    if "no_rope_layers" in (read_by_class(file.kind.name) or ()):
        for each in file.parsed.layers:
            if each.name != each.type_name:
                yield from each.layers


def _states_layers(file: _File) -> bool:
    """Whether an entry of the file says which layers are of which type."""
    if any(
        value is not None and (name in LISTS_OF_TYPES or _is_round_of(name, file.kind))
        for name, value in file.part.items()
    ):
        return True
    for path, value in _lists(file.part, file.where):
        for other in (None, [*value[1:], *value[:1]]):
            changed = read_or_none(with_value(file.content, path, other), file.read)
            if changed is None or _types_of(changed) != _types_of(file.parsed):
                return True
    return False


def _types_of(parsed: ParsedConfig) -> dict[int, str]:
    """Return the type of every layer, whether or not it rotates."""
    return {index: each.type_name for each in parsed.layers for index in each.layers}


def _lists(group: Mapping[str, Any], where: Path) -> Iterator[tuple[Path, list[Any]]]:
    """Yield the lists in a group and in those within it."""
    for name, value in group.items():
        if isinstance(value, list) and len(value) > 1:
            yield (*where, name), value
        elif isinstance(value, Mapping):
            yield from _lists(value, (*where, name))


def _is_round(name: str) -> bool:
    """Whether an entry says which layers are of which type."""
    return bool(_ROUNDS & words_of(name)) or name.startswith("no_rope_layer")


def _is_round_of(name: str, kind: ModelType) -> bool:
    """Whether an entry that the class reads says so."""
    return _is_round(name) and name in (read_by_class(kind.name) or ())


def _sections(file: _File) -> Iterator[str]:
    """Yield the pairs of each axis."""
    if "sections" not in (file.kind.axes or {}) or file.states(re.compile("section")):
        return
    values = {name: in_json([*axes["sections"]]) for name, axes in file.parsed.multimodal.items()}
    if values and "mrope_section" not in file.told:
        yield f"mrope_section {file.layers_of(values)}"


def without_notes_on_bases(found: list[Finding]) -> list[Finding]:
    """Return findings without those of the reading that the one note says with all other values."""
    said = words_of_findings([each for each in found if each.code == "values of the class"])
    return [each for each in found if each.code != "base of the class" or not any(map(_is_base, said))]
