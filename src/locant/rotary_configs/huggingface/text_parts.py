"""The part of a config.json that is about text, its model type, and its entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, in_json
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import READ_BY_SOME
from locant.rotary_configs.classes.groups import states_a_base
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_formats import FLA_TRANSFORMER, is_fla_transformer, own_format
from locant.rotary_configs.classes.stack_types import stacks_of_type
from locant.rotary_configs.classes.without_rotation import ROPE_KEYS
from locant.rotary_configs.huggingface.layer_windows import WINDOW_ENTRIES
from locant.rotary_configs.spellings import HEAD_SIZES, HEADS, LAYERS, WIDTHS, sizes_of_layers
from locant.rotary_configs.usual_values import GROUPS

TEXT_PARTS = ("text_config", "thinker_config", "llm_config", "language_config", "decoder", "vlm_config")
"""Names of the text part that many models have."""

_BASE_AND_SCALING = ("rope_parameters", "rope_scaling", "rope_theta", "rotary_emb_base", "rope_local_base_freq")
SIZES = (*LAYERS, *HEADS, *WIDTHS)
"""Entries with the sizes of layers."""

ENTRIES_OF_TEXT = (*SIZES, *HEAD_SIZES, *_BASE_AND_SCALING)
"""Sizes of layers, and base and scaling, of which a text part has some."""

_LENGTHS_AND_SHARE = ("max_position_embeddings", "original_max_position_embeddings", "partial_rotary_factor")
ABOUT_ROTATION = tuple(dict.fromkeys((*ROPE_KEYS, *_LENGTHS_AND_SHARE)))
"""Entries about rotation that a file may have beside its text part."""

_OF_LAYERS = (*WINDOW_ENTRIES, *READ_BY_SOME, "layer_types", "layers_block_type", "use_sliding_window")
BESIDE_TEXT = tuple(dict.fromkeys((*ABOUT_ROTATION, *_OF_LAYERS)))
"""Entries about positions that a file may have beside its text part."""


@dataclass(frozen=True)
class Step:
    """A step from a part of a file into the nested group that is, or has, its text part.

    Attributes:
        name: Name of the group.
        whole: What the group stands in.
        part: The group.
        kind: The facts of the class of ``whole``, where they are known.
        is_ours: Whether that class is one of transformers, and the file names no other code.
    """

    name: str
    whole: Mapping[str, Any]
    part: Mapping[str, Any]
    kind: ModelType | None
    is_ours: bool

    def handed_on(self) -> Sequence[str]:
        """Return the entries that the class of :attr:`whole` takes for the text part from beside it."""
        return self.kind.handed_on.get(self.name, ()) if self.kind is not None and self.is_ours else ()


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a config.json that is about text: a nested one of multimodal models, or the whole."""
    steps = steps_to_text(config)
    return steps[-1].part if steps else config


def text_part_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the groups that lead to the text part, none where it is the whole file."""
    return tuple(step.name for step in steps_to_text(config))


def refuse_text_part_of_another_kind(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a file that has something else than a group where a known class has its text part.

    Args:
        config: The content of config.json.
    """
    steps = steps_to_text(config)
    last = (steps[-1].part, _kind_within(steps[-1])) if steps else (config, families.model_type(name_of(config)))
    for whole, known in (*((step.whole, step.kind) for step in steps), last):
        name = known.text_part[0] if known is not None and known.text_part else ""
        value = whole.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(
                f"'{name}' in config.json must be a group of entries, the text part of the model; got "
                f"{in_json(value):.60}."
            )


def entries_of_text(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of the text part, and those about positions beside it where they count.

    They count where the class of the whole is not known and the text part says nothing of the kind.
    """
    steps = steps_to_text(config)
    entries = dict(steps[-1].part if steps else config)
    for step in reversed(steps):
        if not step.is_ours:
            stated = (key for key in ABOUT_ROTATION if step.whole.get(key) is not None and key != "use_mrope")
            entries |= {key: step.whole[key] for key in stated if is_left_out(entries, key)}
        entries |= {key: step.whole[key] for key in step.handed_on() if key in step.whole}
    for key in (*passed_over_in_the_file(config), *beside_a_lacking_part(config)):
        del entries[key]
    if passes_over_base(config, entries):
        del entries["rope_theta"]
    return entries | given_by_the_whole(config, entries)


def passed_over_in_the_file(config: Mapping[str, Any]) -> list[str]:
    """Return the entries that a class does not take from a file which has its text part in itself, as Fuyu's may.

    Args:
        config: The content of config.json.
    """
    whole, part = class_of_last_whole(config), text_part(config)
    text = None if whole is None else families.model_type(whole.text_type)
    if whole is None or text is None or not whole.flat or not is_ours(config) or not has_entries_of_text(part):
        return []
    read = (*ROPE_KEYS, *(name for name in ENTRIES_OF_TEXT if name in text.defaults))
    return [name for name in dict.fromkeys(read) if part.get(name) is not None and name not in whole.flat]


def passes_over_base(config: Mapping[str, Any], entries: Mapping[str, Any]) -> bool:
    """Whether the class of a whole passes over the base of its text part: it gives one in a group there.

    Args:
        config: The content of config.json.
        entries: The entries of the text part.
    """
    whole = families.model_type(name_of(config))
    if whole is None or not whole.text_keeps_base or not steps_to_text(config) or not is_ours(config):
        return False
    return entries.get("rope_theta") is not None and not any(isinstance(entries.get(name), Mapping) for name in GROUPS)


def given_by_the_whole(config: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the class of a whole gives its text part, where that leaves it out.

    Args:
        config: The content of config.json.
        entries: The entries of the text part.
    """
    whole = families.model_type(name_of(config))
    if whole is None or not is_ours(config):
        return {}
    if lacking_text_part(config) is not None:
        return dict(
            next(filter(None, (given for each in _inner(whole) for given in (each.text_alone, each.text_defaults))), {})
        )
    given: dict[str, Any] = {}
    group = next((group for each in GROUPS if isinstance(group := entries.get(each), Mapping)), {})
    if whole.text_base and group and entries.get("rope_theta") is None and not states_a_base(group):
        given["rope_theta"] = whole.text_base
    steps = steps_to_text(config)
    if not steps:  # sizes of a text part beside the place where its class looks for it
        own = whole.text_alone or whole.text_defaults
        beside = (name for name in (GROUPS[0], "sliding_window") if name in own and name not in entries)
        return given | {name: own[name] for name in beside if is_left_out(entries, name)}
    if steps[-1].part.get("model_type") not in (None, whole.text_type):
        return given
    # The class fills in what is not there, and null is; of base and scaling it fills in the base.
    stated = {key for key in whole.text_defaults if not is_left_out(entries, key)}
    stated |= {key for key in whole.text_defaults if key in entries and key not in GROUPS}
    return given | {key: value for key, value in whole.text_defaults.items() if key not in stated}


def _inner(whole: ModelType) -> list[ModelType]:
    """Return a class and those of its parts that are wholes themselves."""
    found = [whole]
    while (inner := families.model_type(found[-1].text_type)) is not None and inner.text_part:
        found.append(inner)
    return found


def lacking_text_part(config: Mapping[str, Any]) -> ModelType | None:
    """Return the class whose text part a file lacks with all sizes beside its place: the whole, or a part of it."""
    whole = class_of_last_whole(config)
    if whole is None or whole.flat or has_sizes_of_text(text_part(config)):
        return None
    return whole


def beside_a_lacking_part(config: Mapping[str, Any]) -> list[str]:
    """Return the entries about rotation of a file that lacks its text part with all sizes: its class reads none.

    Args:
        config: The content of config.json.
    """
    whole = lacking_text_part(config)
    if whole is None:
        return []
    part = text_part(config)
    return [key for key in ABOUT_ROTATION if part.get(key) is not None and key != "use_mrope"]


def class_of_last_whole(config: Mapping[str, Any]) -> ModelType | None:
    """Return the facts of the class whose text part is looked for further in than the file goes, if it is known."""
    steps = steps_to_text(config)
    kind = _kind_within(steps[-1]) if steps else families.model_type(name_of(config))
    is_known = kind is not None and bool(kind.text_part) and families.is_in_transformers(kind.name)
    return kind if is_known and not text_part(config).get("auto_map") else None


def has_entries_of_text(part: Mapping[str, Any]) -> bool:
    """Whether a part of a file states sizes of layers, or a base or scaling."""
    return any(part.get(key) is not None for key in ENTRIES_OF_TEXT)


def has_sizes_of_text(part: Mapping[str, Any]) -> bool:
    """Whether a part of a file states sizes of layers."""
    return any(part.get(key) is not None for key in (*SIZES, *HEAD_SIZES))


def is_left_out(entries: Mapping[str, Any], key: str) -> bool:
    """Whether a text part neither has an entry nor another that says the same: base and scaling go together."""
    return all(entries.get(name) is None for name in (_BASE_AND_SCALING if key in _BASE_AND_SCALING else (key,)))


def steps_to_text(config: Mapping[str, Any]) -> list[Step]:
    """Return the way to the text part, from the whole file on; no step where it is the whole file."""
    steps: list[Step] = []
    kind, has_own_code = families.model_type(name_of(config)), False
    while True:
        has_own_code = has_own_code or bool(config.get("auto_map"))
        name = next((name for name in _part_names(config, kind) if isinstance(config.get(name), Mapping)), None)
        known = kind is not None and families.is_in_transformers(kind.name) and not has_own_code
        if name is None or (not known and _repeats(config, config[name])):
            return steps
        steps.append(Step(name, config, config[name], kind, known))
        config, kind = config[name], _kind_within(steps[-1])


def _kind_within(step: Step) -> ModelType | None:
    """Return the facts of the class that a nested group is read by."""
    own = name_of(step.part)
    outer = step.kind
    if (
        outer is not None
        and outer.text_type is not None
        and (own is None or (outer.has_one_text_type and (step.is_ours or not families.is_in_transformers(outer.name))))
    ):
        return families.model_type(outer.text_type)
    return families.model_type(own)


def _repeats(config: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether a file says all of its text part over again, as DeepSeek-OCR: its own code takes that, and the rest."""
    sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads")
    if any(config.get(key) is None or part.get(key) is None for key in sizes):
        return False
    stated = (key for key in part if key not in ("model_type", "architectures", "auto_map", "torch_dtype", "dtype"))
    return all(key in config and config[key] == part[key] for key in stated)


def is_ours(config: Mapping[str, Any]) -> bool:
    """Whether the class of a file is one of transformers, so that entries beside its text part count for nothing."""
    return families.is_in_transformers(name_of(config)) and not config.get("auto_map")


def name_of(part: Mapping[str, Any]) -> str | None:
    """Return the model type that a part of a file states, if it is text."""
    name = part.get("model_type")
    return name if isinstance(name, str) else None


def text_type(config: Mapping[str, Any]) -> str | None:
    """Return the model type of the text part of a config.json.

    Where that part does not state one, it is what the class of the whole takes there.

    Raises:
        ConfigError: It is not text.
    """
    part = text_part(config)
    name = FLA_TRANSFORMER if is_fla_transformer(part) else _stated_type(config, part)
    if part.get("use_mla") is False and (name == "deepseek_v2" or families.model_type(name) is None):
        return "deepseek"  # DeepSeek-OCR and the smaller DeepSeek-VL2: the code that comes with them attends as Llama
    return "ministral" if is_taken_for_ministral(config) else name


def is_taken_for_ministral(config: Mapping[str, Any]) -> bool:
    """Whether AutoConfig makes Ministral's configuration of a file of Mistral, for its types of layers."""
    return config.get("model_type") == "mistral" and "layer_types" in config and not config.get("auto_map")


def _stated_type(config: Mapping[str, Any], part: Mapping[str, Any]) -> str | None:
    own, outer = (Fields(each, "config.json").text("model_type") for each in (part, config))
    whole = families.model_type(outer)
    if own and outer and whole and whole.text_type and own.startswith(outer) and families.model_type(own) is None:
        return whole.text_type  # as EXAONE 4.5's class does with the type that its text part states
    steps = steps_to_text(config)
    within = _kind_within(steps[-1]) if steps else None
    for name in (None if within is None else within.name, own, outer):
        known = families.model_type(name)
        while known is not None and known.text_type is not None:
            name = known.text_type  # a part may be a whole itself, as that of ColQwen2
            known = families.model_type(name)
        if name is not None:
            return name
    return own_format(part)


def type_passed_over(config: Mapping[str, Any]) -> tuple[str, ModelType] | None:
    """Return the type that a text part states though the class around it has parts of one type alone, and that class.

    Args:
        config: The content of config.json.
    """
    steps = steps_to_text(config)
    whole, own = (steps[-1].kind, name_of(steps[-1].part)) if steps else (None, None)
    if whole is None or own is None or not whole.has_one_text_type or not steps[-1].is_ours:
        return None
    is_its_own = own == whole.text_type or (own.startswith(whole.name) and families.model_type(own) in (None, whole))
    return None if is_its_own else (own, whole)


def _part_names(config: Mapping[str, Any], known: ModelType | None) -> tuple[str, ...]:
    if (known is None or (known.rotates and not known.text_part)) and (only := _sized_part(config)):
        return only
    if known is not None and not known.text_part:
        is_own = known.rotates and not families.is_in_transformers(known.name)
        return _rotating_part(config) if is_own and not any(part in config for part in TEXT_PARTS) else TEXT_PARTS
    if known is not None and known.text_part[0] in config:
        return known.text_part[:1]
    if known is not None and not config.get("auto_map"):
        names = (known.text_part[0], *known.text_names)
        return names if any(isinstance(config.get(name), Mapping) for name in names) else _part_of_type(config, known)
    # Code of its own may call the text part by any name.
    return TEXT_PARTS if any(part in config for part in TEXT_PARTS) else _rotating_part(config)


def _part_of_type(config: Mapping[str, Any], known: ModelType) -> tuple[str, ...]:
    """Return the name of the only nested group of the model type of a class's text part, where the file has no other.

    The class passes over it (VibeVoice's ``decoder_config``), but the weights are those of that part.
    """
    types = {kind.text_type for kind in _inner(known)}
    groups = ((name, part) for name, part in config.items() if isinstance(part, Mapping) and sizes_of_layers(part))
    found = tuple(name for name, part in groups if part.get("model_type") in types)
    return found if len(found) == 1 and not has_entries_of_text(config) else ()


def _sized_part(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name of the only nested group with sizes of layers, where the file has them nowhere else (MLC-LLM)."""
    if any(config.get(name) is not None for name in (*HEADS, LAYERS[0])):
        return ()
    others = stacks_of_type(name_of(config)) if is_ours(config) else ()
    groups = ((name, part) for name, part in config.items() if isinstance(part, Mapping) and name not in others)
    found = tuple(name for name, part in groups if sizes_of_layers(part))
    return found if len(found) == 1 else ()


def _rotating_part(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name of the only nested group whose model type rotates, where the layers stand in groups alone.

    Of an encoder and a decoder it is the decoder, which is about text.
    """
    if any(config.get(entry) is not None for entry in ("num_attention_heads", "n_head", "num_hidden_layers")):
        return ()
    groups = {name: part.get("model_type") for name, part in config.items() if isinstance(part, Mapping)}
    known = {name: families.model_type(kind) for name, kind in groups.items() if isinstance(kind, str)}
    found = tuple(name for name, kind in known.items() if kind is not None and kind.rotates)
    found = found if len(found) == 1 else tuple(name for name in found if "decoder" in name)
    return found if len(found) == 1 else ()
