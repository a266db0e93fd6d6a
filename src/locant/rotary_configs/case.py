"""What is known about a file when findings about its rotary positions are looked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from locant.positions.scaling import FrequencyScaling
from locant.positions.scaling.checks import is_number
from locant.rotary_configs.fields import Severity
from locant.rotary_configs.reading import ALL_LAYERS, ParsedConfig
from locant.rotary_configs.vocabulary import is_by_layer


@dataclass(frozen=True)
class Said:
    """What a function found: a :class:`~locant.rotary_configs.fields.Finding` but for its code."""

    message: str
    remedy: str
    entry: str | None = None
    layer: str | None = None
    severity: Severity | None = None  # where it is another one than the function's


@dataclass(frozen=True)
class Idle:
    """An entry with which the class, or an engine, does the same as without it, and as with another value."""

    entry: str
    value: Any
    is_known: bool  # whether the class has an entry of that name, which other entries leave without effect


@dataclass(frozen=True)
class Group:
    """The entries of one scaling in config.json, where they are and the layer type that they are for."""

    where: str
    entries: Mapping[str, Any]
    layer: str | None = None

    @property
    def kind(self) -> str:
        """Type of the scaling."""
        kind = self.entries.get("rope_type") or self.entries.get("type")
        return kind if isinstance(kind, str) else "default"

    def number(self, name: str) -> float | None:
        """Return an entry that is a number, ``None`` for anything else."""
        value = self.entries.get(name)
        return float(value) if is_number(value) else None

    def said(self, name: str, message: str, remedy: str) -> Said:
        """Return what is said about one of the entries."""
        return Said(message, remedy, f"{self.where}.{name}", self.layer)


@dataclass(frozen=True)
class Case:
    """What the functions look at."""

    kind: Literal["huggingface", "gguf"]
    content: Mapping[str, Any]  # the object in config.json, with the options of vLLM; or the metadata of a GGUF file
    path: tuple[str, ...] = ()  # names of the groups that lead to its text config
    reading: ParsedConfig | None = None
    class_name: str | None = None  # the class that was asked, with its release
    engine: str | None = None  # the engine whose options are in the content
    said: tuple[str, ...] = ()  # what transformers warns of in the rotary entries
    noted: tuple[str, ...] = ()  # what of its reading cannot be told, in sentences
    refusal: str | None = None  # why the class refuses the file, in a sentence
    unreadable: str | None = None  # why the entries cannot be read, in a sentence
    no_rope: str | None = None  # why there are no rotary positions, in a sentence
    declared: int | None = None  # length in tokens
    served: int | None = None  # length in tokens that vLLM serves by default
    dropped: tuple[tuple[str, Any], ...] = ()  # entries of a group that options of vLLM replace, with their values
    idle: tuple[Idle, ...] = ()
    untried: tuple[str, ...] = ()  # entries of which there was no time to see whether they have an effect
    tensors: Collection[str] = ()  # names of a GGUF file's tensors of factors
    repeated: tuple[str, ...] = ()  # names that occur twice in one group

    @property
    def part(self) -> Mapping[str, Any]:
        """The text config."""
        part = self.content
        for name in self.path:
            part = part[name]
        return part

    @property
    def groups(self) -> tuple[Group, ...]:
        """The scalings of the text config; ``rope_scaling`` counts where there is ``rope_parameters`` as well."""
        for name in ("rope_scaling", "rope_parameters"):
            group, where = self.part.get(name), self.name(name)
            if isinstance(group, Mapping) and group:
                if is_by_layer(group):
                    return tuple(Group(f"{where}.{layer:.60}", each, layer) for layer, each in group.items() if each)
                return (Group(where, group),)
        return ()

    def name(self, entry: str) -> str:
        """Return the whole name of an entry of the text config."""
        return ".".join((*self.path, entry))

    def key(self, name: str) -> str:
        """Return the whole key of a GGUF file's architecture."""
        return f"{self.content.get('general.architecture')!s:.60}.{name}"

    def original(self, group: Group) -> float | None:
        """Return the length before an extension that is stated for a group: beside it, or in it."""
        beside = self.part.get("original_max_position_embeddings")
        return float(beside) if is_number(beside) else group.number("original_max_position_embeddings")

    def extensions(self, *kinds: str) -> Iterator[tuple[Group, float, float, int]]:
        """Yield groups of some types that state how they extend: with original length, factor and declared length."""
        for group in self.groups:
            original, factor = self.original(group), group.number("factor")
            if group.kind in kinds and original and factor and factor > 1 and self.declared:
                yield group, original, factor, self.declared

    def scalings(self, name: str) -> Iterator[tuple[str | None, FrequencyScaling]]:
        """Yield layer type and scaling of every configuration with a scaling of that name."""
        for layer, config in ({} if self.reading is None else self.reading.configs).items():
            if config.scaling.name == name:
                yield None if layer == ALL_LAYERS else layer, config.scaling
