"""The part of a config.json that is about text, its model type, and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs import families
from locant.rotary_configs.base import ALL_LAYERS
from locant.rotary_configs.class_entries import READ_BY_SOME
from locant.rotary_configs.class_groups import base_of_class, states_a_base
from locant.rotary_configs.families import ModelType
from locant.rotary_configs.layers import WINDOW_ENTRIES
from locant.rotary_configs.own_formats import FLA_TRANSFORMER, is_fla_transformer, own_format
from locant.rotary_configs.spellings import HEAD_SIZES, HEADS, LAYERS, WIDTHS, sizes_of_layers
from locant.rotary_configs.without_rotation import ROPE_KEYS

_TEXT_PARTS = ("text_config", "thinker_config", "llm_config", "language_config", "decoder", "vlm_config")
_BASE_AND_SCALING = ("rope_parameters", "rope_scaling", "rope_theta", "rotary_emb_base", "rope_local_base_freq")
_GROUPS = ("rope_parameters", "rope_scaling")
_OF_TEXT = (*LAYERS, *HEADS, *HEAD_SIZES, *WIDTHS, *_BASE_AND_SCALING)
_LENGTHS = ("max_position_embeddings", "original_max_position_embeddings", "partial_rotary_factor")
_OF_LAYERS = (*WINDOW_ENTRIES, *READ_BY_SOME, "layer_types", "layers_block_type", "use_sliding_window")
BESIDE_TEXT = tuple(dict.fromkeys((*ROPE_KEYS, *_LENGTHS, *_OF_LAYERS)))
"""Entries about positions that a file may have beside its text part."""


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a config.json that is about text: a nested one of multimodal models, or the whole."""
    steps = _steps(config)
    return steps[-1][2] if steps else config


def refuse_text_part_of_another_kind(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a file that has something else than a group where a known class has its text part.

    Args:
        config: The content of config.json.
    """
    for whole in (config, *(part for _, _, part in _steps(config))):
        known = families.model_type(_name_of(whole))
        name = known.text_part[0] if known is not None and known.text_part else ""
        value = whole.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(
                f"'{name}' in config.json must be a group of entries, the text part of the model; got "
                f"{in_json(value):.60}."
            )


def text_part_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the groups that lead to the text part, none where it is the whole file."""
    return tuple(name for name, _, _ in _steps(config))


def entries_of_text(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of the text part, and those about positions beside it where they count.

    They count where the class of the whole is not known and the text part says nothing of the kind.
    """
    steps = _steps(config)
    entries = dict(steps[-1][2] if steps else config)
    for _, whole, part in reversed(steps):
        if not _passes_over_others(whole):
            entries |= {key: whole[key] for key in _beside(whole, part) if _is_left_out(entries, key)}
    if _passes_over_base(config, entries):
        del entries["rope_theta"]
    return entries | _given_by_the_whole(config, entries)


def _passes_over_base(config: Mapping[str, Any], entries: Mapping[str, Any]) -> bool:
    """Whether the class of a whole passes over the base of its text part: it gives one in a group there."""
    whole = families.model_type(_name_of(config))
    if whole is None or not whole.text_keeps_base or not _steps(config) or not _passes_over_others(config):
        return False
    return entries.get("rope_theta") is not None and not any(isinstance(entries.get(name), Mapping) for name in _GROUPS)


def _given_by_the_whole(config: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the class of a whole gives its text part, where that leaves it out."""
    steps, name = _steps(config), config.get("model_type")
    whole = families.model_type(name if isinstance(name, str) else None)
    if whole is None or not _passes_over_others(config):
        return {}
    if _without_text(config) is not None:
        return dict(
            next(filter(None, (given for each in _inner(whole) for given in (each.text_alone, each.text_defaults))), {})
        )
    given: dict[str, Any] = {}
    group = next((group for each in _GROUPS if isinstance(group := entries.get(each), Mapping)), {})
    if whole.text_base and group and entries.get("rope_theta") is None and not states_a_base(group):
        given["rope_theta"] = whole.text_base
    if not steps or steps[-1][2].get("model_type") not in (None, whole.text_type):
        return given
    return given | {key: value for key, value in whole.text_defaults.items() if _is_left_out(entries, key)}


def _inner(whole: ModelType) -> list[ModelType]:
    """Return a class and those of its parts that are wholes themselves."""
    found = [whole]
    while (inner := families.model_type(found[-1].text_type)) is not None and inner.text_part:
        found.append(inner)
    return found


def _without_text(config: Mapping[str, Any]) -> ModelType | None:
    """Return the class whose text part a file lacks with all sizes beside its place: the whole, or a part of it."""
    part, steps = text_part(config), _steps(config)
    outer = families.model_type(_name_of(steps[-1][1])) if steps else None
    whole = families.model_type(_name_of(part) or (None if outer is None else outer.text_type))
    if whole is None or not whole.text_part or whole.name in families.TEXT_IN_THE_FILE_ITSELF:
        return None
    is_known = _passes_over_others({**part, "model_type": whole.name})
    return whole if is_known and not any(part.get(key) is not None for key in _OF_TEXT) else None


def _is_left_out(entries: Mapping[str, Any], key: str) -> bool:
    """Whether a text part neither has an entry nor another that says the same: base and scaling go together."""
    return all(entries.get(name) is None for name in (_BASE_AND_SCALING if key in _BASE_AND_SCALING else (key,)))


def _steps(config: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Return the way to the text part: the name of each nested group, what it stands in, and the group."""
    steps: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = []
    while True:
        name = next((name for name in _part_names(config) if isinstance(config.get(name), Mapping)), None)
        if name is None or _repeats(config, config[name]):
            return steps
        steps.append((name, config, config[name]))
        config = config[name]


def _repeats(config: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether a file says all of its text part over again, as DeepSeek-OCR: its own code takes that, and the rest."""
    sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads")
    if _passes_over_others(config) or any(config.get(key) is None or part.get(key) is None for key in sizes):
        return False
    stated = (key for key in part if key not in ("model_type", "architectures", "auto_map", "torch_dtype", "dtype"))
    return all(key in config and config[key] == part[key] for key in stated)


def _beside(config: Mapping[str, Any], part: Mapping[str, Any]) -> list[str]:
    """Return the entries about positions beside a text part, as far as it has not the same.

    Those about layers count where the class of the whole, which is known, passes over them.
    """
    names = BESIDE_TEXT if _passes_over_others(config) else dict.fromkeys((*ROPE_KEYS, *_LENGTHS))
    stated = (key for key in names if config.get(key) is not None and key != "use_mrope")
    return [key for key in stated if config[key] != part.get(key)]


def _passes_over_others(config: Mapping[str, Any]) -> bool:
    """Whether the class of a multimodal model is known, so that entries beside its text part count for nothing."""
    name = config.get("model_type")
    return isinstance(name, str) and families.is_in_transformers(name) and not config.get("auto_map")


def doubts_about_others(config: Mapping[str, Any], kind: ModelType | None) -> list[Finding]:
    """Return findings about entries beside the text part, which the class passes over, or may.

    Args:
        config: The content of config.json.
        kind: The facts of the class of its text part, where they are known.
    """
    share = None if kind is None else (kind.rope or {}).get("partial_rotary_factor")
    defaults = {} if kind is None else kind.defaults
    taken = {**defaults, "rope_theta": base_of_class(kind, ALL_LAYERS), "partial_rotary_factor": share}
    found = [
        *_of_another_type(config),
        *_without_its_group(config),
        *_without_text_part(config),
        *_base_and_type_of_the_part(config),
        *_notes_on_the_whole(config),
    ]
    for name, whole, part in _steps(config):
        known = families.model_type(_name_of(whole))
        for key in [key for key in _beside(whole, part) if known is None or key not in known.of_whole]:
            stands = f"'{key}' stands in config.json beside '{name}', "
            if part.get(key) is not None:
                of = "transformers reads" if _passes_over_others(whole) else "what is shown is"
                found.append(
                    Finding(
                        "warning",
                        f"{stands}where it is {part[key]!r:.60}: {of} the one in '{name}'.",
                        "Remove the other one; if the model's own code reads it, compare with that code.",
                    )
                )
            elif not _passes_over_others(whole):
                how = "it is taken for that part" if _is_left_out(part, key) else "it is passed over here"
                found.append(
                    Finding(
                        "warning",
                        f"{stands}which has none; the class of the whole is not known, and {how}.",
                        f"Move it into '{name}', if that is what the model's code reads.",
                    )
                )
            elif whole[key] != taken.get(key) and not _is_in_a_group(part, key):
                found.append(
                    Finding(
                        "error",
                        f"{stands}which has none: the model's class in transformers passes over it, and takes what its "
                        "text part has by default.",
                        f"Move it into '{name}', if it is what the weights were trained with.",
                    )
                )
    return found


def _is_in_a_group(part: Mapping[str, Any], key: str) -> bool:
    """Whether a text part states an entry in its group of rotary parameters, or in those of its layer types."""
    groups = [group for name in _GROUPS if isinstance(group := part.get(name), Mapping)]
    groups += [each for group in groups for each in group.values() if isinstance(each, Mapping)]
    return any(group.get(key) is not None for group in groups) or (key in _GROUPS and bool(groups))


def _of_another_type(config: Mapping[str, Any]) -> list[Finding]:
    """Return the warning about a text part of another model type than the class of the whole takes it for."""
    whole, own = families.model_type(_name_of(config)), _name_of(text_part(config))
    if whole is None or not _takes_one_type(config, whole, own):
        return []
    return [
        Finding(
            "warning",
            f"model_type is '{own}' in '{'.'.join(text_part_names(config))}', which the class of '{whole.name}' in "
            f"transformers passes over: it takes that part for one of '{whole.text_type}', and so is it read here.",
            "Name the model type of the whole whose class takes such a text part.",
        )
    ]


def _without_text_part(config: Mapping[str, Any]) -> list[Finding]:
    """Return the warning about a file without the text part of its class, which takes one of its own then."""
    whole, steps = families.model_type(_name_of(config)), _steps(config)
    if whole is None or not whole.text_part or not _passes_over_others(config):
        return []
    if steps and steps[0][0] not in (whole.text_part[0], *whole.text_names):
        return [
            Finding(
                "warning",
                f"The class of '{whole.name}' in transformers looks for its text part in '{whole.text_part[0]}', which "
                f"the file lacks: it passes over '{steps[0][0]}', which is read here, and takes sizes and base of its "
                "own.",
                f"Name that group '{whole.text_part[0]}' for transformers.",
            )
        ]
    lacking = _without_text(config)
    if lacking is None:
        return []
    names = ".".join((*text_part_names(config), *lacking.text_part))
    return [
        Finding(
            "warning",
            f"config.json has no '{names}', the text part of the class of '{lacking.name}' in transformers: what that "
            "class takes then is shown, which need not be what the weights have.",
            f"State the text part of the model in '{names}'.",
        )
    ]


def _base_and_type_of_the_part(config: Mapping[str, Any]) -> list[Finding]:
    """Return warnings about a base that the class of the whole passes over, and a type that it cannot do without."""
    whole, steps = families.model_type(_name_of(config)), _steps(config)
    if whole is None or not steps or not _passes_over_others(config):
        return []
    found, part = [], text_part(config)
    if _passes_over_base(config, part):
        found.append(
            Finding(
                "warning",
                f"rope_theta is {part['rope_theta']:g} in '{steps[-1][0]}': the class of '{whole.name}' in "
                "transformers passes over it, and takes the base of its own group.",
                "State rope_parameters with rope_theta in it.",
            )
        )
    if whole.text_needs_type and _name_of(part) is None:
        found.append(
            Finding(
                "warning",
                f"'{steps[-1][0]}' states no model_type: the class of '{whole.name}' in transformers fails without.",
                f"State the model_type of that part: '{whole.text_type}'.",
            )
        )
    return found


def _notes_on_the_whole(config: Mapping[str, Any]) -> list[Finding]:
    """Return the note on what the class of the whole gives a text part that leaves it out."""
    given = _given_by_the_whole(config, text_part(config))
    given = {key: value for key, value in given.items() if not isinstance(value, list)}
    if not given:
        return []
    said = ", ".join(f"{key} ({in_json(value)})" for key, value in given.items() if not isinstance(value, Mapping))
    bases = [f"rope_theta ({value['rope_theta']:g})" for value in given.values() if isinstance(value, Mapping)]
    return [
        Finding(
            "note",
            f"The text part leaves out {', '.join([*bases, said] if said else bases)}; these are the values that the "
            f"class of '{config['model_type']}' in transformers gives it.",
            "Compare with the shapes of the model's weights, and with the model's publication.",
        )
    ]


def _without_its_group(config: Mapping[str, Any]) -> list[Finding]:
    """Return the finding about a file with a text part in itself, or in a group, where its class looks further in."""
    part, steps = text_part(config), _steps(config)
    outer = families.model_type(_name_of(steps[-1][1])) if steps else None
    name = _name_of(part) or (None if outer is None else outer.text_type)
    known = families.model_type(name)
    if known is None or not known.text_part or not _passes_over_others({"model_type": name, **part}):
        return []
    if known.name in families.TEXT_IN_THE_FILE_ITSELF or not any(part.get(key) is not None for key in _OF_TEXT):
        return []
    beside = "" if not steps else f" '{steps[-1][0]}' of"
    return [
        Finding(
            "warning",
            f"The class of '{name}' in transformers looks for its text part in '{known.text_part[0]}', which{beside} "
            "the file lacks: it passes over the sizes beside it, and takes its own. They are read as those of that "
            "part here.",
            f"Put the entries of the text part into '{known.text_part[0]}'.",
        )
    ]


def _name_of(part: Mapping[str, Any]) -> str | None:
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
    return name


def _stated_type(config: Mapping[str, Any], part: Mapping[str, Any]) -> str | None:
    own, outer = (Fields(each, "config.json").text("model_type") for each in (part, config))
    whole = families.model_type(outer)
    if own and outer and whole and whole.text_type and own.startswith(outer) and families.model_type(own) is None:
        return whole.text_type  # as EXAONE 4.5's class does with the type that its text part states
    if _takes_one_type(config, whole, own):
        return whole.text_type if whole else None
    for name in (own, outer):
        known = families.model_type(name)
        while known is not None and known.text_type is not None:
            name = known.text_type  # a part may be a whole itself, as that of ColQwen2
            known = families.model_type(name)
        if name is not None:
            return name
    return own_format(part)


def _takes_one_type(config: Mapping[str, Any], whole: ModelType | None, own: str | None) -> bool:
    """Whether the class of a whole takes its text part for one of its own type, whatever other known type is stated."""
    if whole is None or not whole.has_one_text_type or own in (None, whole.text_type) or not _steps(config):
        return False
    kind = families.model_type(own)
    return kind is not None and not kind.text_part and _passes_over_others(config)


def _part_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    name = config.get("model_type")
    known = families.model_type(name if isinstance(name, str) else None)
    if (known is None or (known.rotates and not known.text_part)) and (only := _sized_part(config)):
        return only
    if known is not None and not known.text_part:
        is_own = known.rotates and not families.is_in_transformers(known.name)
        return _rotating_part(config) if is_own and not any(part in config for part in _TEXT_PARTS) else _TEXT_PARTS
    if known is not None and known.text_part[0] in config:
        return known.text_part[:1]
    if known is not None and not config.get("auto_map"):
        names = (known.text_part[0], *known.text_names)
        return names if any(isinstance(config.get(name), Mapping) for name in names) else _part_of_type(config, known)
    # Code of its own may call the text part by any name.
    return _TEXT_PARTS if any(part in config for part in _TEXT_PARTS) else _rotating_part(config)


def _part_of_type(config: Mapping[str, Any], known: ModelType) -> tuple[str, ...]:
    """Return the name of the only nested group of the model type of a class's text part, where the file has no other.

    The class passes over it (VibeVoice's ``decoder_config``), but the weights are those of that part.
    """
    groups = ((name, part) for name, part in config.items() if isinstance(part, Mapping) and sizes_of_layers(part))
    found = tuple(name for name, part in groups if part.get("model_type") == known.text_type)
    return found if len(found) == 1 and not any(config.get(key) is not None for key in _OF_TEXT) else ()


def _sized_part(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name of the only nested group with sizes of layers, where the file has them nowhere else (MLC-LLM)."""
    groups = ((name, part) for name, part in config.items() if isinstance(part, Mapping))
    found = tuple(name for name, part in groups if sizes_of_layers(part))
    return found if len(found) == 1 and not any(config.get(name) is not None for name in (*HEADS, LAYERS[0])) else ()


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
