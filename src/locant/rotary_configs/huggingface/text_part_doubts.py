"""Findings about the text part of a config.json: what stands beside it, and what the class around it makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import ALL_LAYERS
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.float_fields import whole_numbers_for_floats
from locant.rotary_configs.classes.groups import base_of_class
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.sub_configs import parts_of_unknown_types
from locant.rotary_configs.classes.windows import FIRST_LAYERS, SWITCH, WINDOW_SIZES, has_switch_of_windows
from locant.rotary_configs.huggingface.text_part_refusals import (
    ONE_TEXT_PART,
    other_widths,
    refused_parts_beside,
    refused_text_parts,
)
from locant.rotary_configs.huggingface.text_parts import (
    ABOUT_ROTATION,
    BESIDE_TEXT,
    SIZES,
    TEXT_PARTS,
    Step,
    beside_a_lacking_part,
    class_of_last_whole,
    given_by_the_whole,
    has_entries_of_text,
    has_sizes_of_text,
    is_left_out,
    is_ours,
    lacking_text_part,
    name_of,
    passed_over_in_the_file,
    passes_over_base,
    steps_to_text,
    text_part,
    text_part_names,
    type_passed_over,
)
from locant.rotary_configs.spellings import LENGTHS
from locant.rotary_configs.usual_values import GROUPS

_OF_WINDOWS = (*WINDOW_SIZES, FIRST_LAYERS)
_TOLD = ("rope_theta", "max_position_embeddings")


def doubts_about_others(config: Mapping[str, Any], kind: ModelType | None) -> list[Finding]:
    """Return findings about entries beside the text part, which the class passes over, or may.

    Args:
        config: The content of config.json.
        kind: The facts of the class of its text part, where they are known.
    """
    found = [
        *_of_another_type(config),
        *_without_its_group(config),
        *_without_text_part(config),
        *refused_text_parts(config),
        *refused_parts_beside(config),
        *parts_of_unknown_types(config),
        *whole_numbers_for_floats(config),
        *_base_of_the_part(config),
        *_notes_on_the_whole(config),
    ]
    steps = steps_to_text(config)
    for index, step in enumerate(steps):
        way = ".".join(each.name for each in steps[index:])
        found += _beside(step, way, steps[-1].part, kind)
        found += _other_parts(step)
    return found


def _beside(step: Step, way: str, text: Mapping[str, Any], kind: ModelType | None) -> Iterator[Finding]:
    """Yield findings about entries that stand beside a group.

    Args:
        step: The step into that group.
        way: Names of the groups from there to the text part.
        text: The text part.
        kind: The facts of its class.
    """
    for key in step.handed_on():
        if key in step.whole and key in text and text[key] != step.whole[key]:
            yield Finding(
                "warning",
                f"'{key}' is {in_json(step.whole[key]):.60} in config.json beside '{step.name}', where it is "
                f"{in_json(text[key]):.60}: the class of '{name_of(step.whole)}' in transformers takes the one beside "
                "it.",
                "Remove the other one.",
            )
    for key in _stated_beside(step, text):
        stands, value = f"'{key}' stands in config.json beside '{step.name}', ", step.whole[key]
        if text.get(key) is not None:
            of = "transformers reads" if step.is_ours else "what is shown is"
            yield Finding(
                "warning",
                f"{stands}where it is {in_json(text[key]):.60}: {of} the one in '{way}'.",
                "Remove the other one; if the model's own code reads it, compare with that code.",
            )
        elif key in LENGTHS and value in [text.get(name) for name in LENGTHS]:
            continue  # the same length under another name, as n_positions
        elif not step.is_ours:
            how = "it is taken for that part" if is_left_out(text, key) else "it is passed over here"
            yield Finding(
                "warning",
                f"{stands}which has none; the class of the whole is not known, and {how}.",
                f"Move it into '{way}', if that is what the model's code reads.",
            )
        elif own := _in_groups(text, key):
            if not any(_says_the_same(value, each) for each in own):
                yield Finding(
                    "warning",
                    f"{stands}whose group of rotary parameters says otherwise ({in_json(own[0]):.60}): transformers "
                    f"reads that group.",
                    "Remove the other one, or write it into the group, if the weights were trained with it.",
                )
        elif value != _taken_by_default(key, kind):
            yield Finding(
                "error",
                f"{stands}which has none: the model's class in transformers passes over it, and takes what its "
                "text part has by default.",
                f"Move it into '{way}', if it is what the weights were trained with.",
            )


def _other_parts(step: Step) -> Iterator[Finding]:
    """Yield that a file has a second group of the sizes of a text part, which the class passes over."""
    for name in TEXT_PARTS if step.is_ours else ():
        other = step.whole.get(name)
        if name == step.name or name in ONE_TEXT_PART or not isinstance(other, Mapping) or other == step.part:
            continue
        if has_entries_of_text(other):
            yield Finding(
                "warning",
                f"'{name}' stands in config.json beside '{step.name}', the text part of the class of "
                f"'{step.kind.name if step.kind else ''}' in transformers, which passes over '{name}'.",
                "Remove the one that the weights were not trained with.",
            )


def _stated_beside(step: Step, text: Mapping[str, Any]) -> list[str]:
    """Return the entries about positions beside a group, as far as the text part has not the same.

    Those about layers and sizes count where the class of the whole, which is known, passes over them.
    """
    of_class = () if step.kind is None else (*step.kind.of_whole, *step.handed_on())
    names = dict.fromkeys((*BESIDE_TEXT, *(name for name in SIZES if text.get(name) is not None)))
    names = names if step.is_ours else dict.fromkeys(ABOUT_ROTATION)
    off = _OF_WINDOWS if _has_windows_off(step.whole, text) else ()
    stated = (key for key in names if step.whole.get(key) is not None and key not in ("use_mrope", *of_class, *off))
    return [key for key in stated if step.whole[key] != text.get(key)]


def _has_windows_off(whole: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    """Whether the switch of windows is off in a text part, whose class has one, and nothing beside it is on."""
    name = name_of(text)
    return text.get(SWITCH) is False and not whole.get(SWITCH) and name is not None and has_switch_of_windows(name)


def _taken_by_default(key: str, kind: ModelType | None) -> Any:
    if key == "rope_theta":
        return base_of_class(kind, ALL_LAYERS)
    if key == "partial_rotary_factor":
        return None if kind is None else (kind.rope or {}).get(key)
    return None if kind is None else kind.defaults.get(key)


def _in_groups(part: Mapping[str, Any], key: str) -> list[Any]:
    """Return what the groups of rotary parameters of a text part, and those of layer types in them, have of an entry.

    Of a group itself, that are they.
    """
    groups = [group for name in GROUPS if isinstance(group := part.get(name), Mapping)]
    groups += [each for group in groups for each in group.values() if isinstance(each, Mapping)]
    return groups if key in GROUPS else [group[key] for group in groups if group.get(key) is not None]


def _says_the_same(beside: Any, own: Any) -> bool:
    """Whether an entry beside a text part says nothing else than a group in it; of groups, all their entries."""
    if not isinstance(beside, Mapping) or not isinstance(own, Mapping):
        return bool(beside == own)
    types = [group.get("rope_type", group.get("type", "default")) for group in (beside, own)]
    others = (key for key in beside if key not in ("rope_type", "type"))
    return all(beside[key] == own.get(key) for key in others) and (types[0] in ("mrope", "default", types[1]))


def _of_another_type(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the warning about a text part of another model type than the class of the whole takes it for."""
    if (found := type_passed_over(config)) is not None:
        own, whole = found
        yield Finding(
            "warning",
            f"model_type is '{own}' in '{'.'.join(text_part_names(config))}', which the class of '{whole.name}' in "
            f"transformers passes over: it takes that part for one of '{whole.text_type}', and so is it read here.",
            "Name the model type of the whole whose class takes such a text part.",
        )


def _without_text_part(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the warning about a file without the text part of its class, which takes one of its own then."""
    whole, steps = families.model_type(name_of(config)), steps_to_text(config)
    if whole is None or not whole.text_part or not is_ours(config):
        return
    if steps and steps[0].name not in (whole.text_part[0], *whole.text_names):
        yield Finding(
            "warning",
            f"The class of '{whole.name}' in transformers looks for its text part in '{whole.text_part[0]}', which "
            f"the file lacks: it passes over '{steps[0].name}', which is read here, and takes sizes and base of its "
            "own.",
            f"Name that group '{whole.text_part[0]}' for transformers.",
        )
        return
    lacking = lacking_text_part(config)
    if lacking is not None:
        names = ".".join((*text_part_names(config), *lacking.text_part))
        beside = [f"{key} {in_json(text_part(config)[key]):.60}" for key in beside_a_lacking_part(config)]
        then = "what that class takes then is shown, which need not be what the weights have."
        if beside:
            then += f" It passes over {', '.join(beside)}, which stand{'s' if len(beside) == 1 else ''} elsewhere."
        yield Finding(
            "warning",
            f"config.json has no '{names}', the text part of the class of '{lacking.name}' in transformers: "
            f"{'it refuses the file then.' if lacking.text_must else then}",
            f"State the text part of the model in '{names}'.",
        )
        yield from _groups_passed_over(config, lacking)
        part = Step(lacking.text_part[0], text_part(config), {}, lacking, is_ours=True)
        yield from other_widths(part, lacking, lacking.text_alone or lacking.text_defaults)


def _groups_passed_over(config: Mapping[str, Any], whole: ModelType) -> Iterator[Finding]:
    """Yield which groups hold entries of a text part under names that the class, which lacks its own, passes over."""
    for name in TEXT_PARTS:
        group = config.get(name)
        if name in (*whole.text_part, *whole.of_whole) or not isinstance(group, Mapping):
            continue
        inner = next((each for each in TEXT_PARTS if isinstance(group.get(each), Mapping)), None)
        way, part = (name, group) if inner is None else (f"{name}.{inner}", group[inner])
        stated = [f"{key} {in_json(part[key]):.60}" for key in _TOLD if part.get(key) is not None]
        if has_entries_of_text(part):
            has = f", with {' and '.join(stated)} in it," if stated else ""
            yield Finding(
                "warning",
                f"'{way}' of config.json{has} is no entry of the class of '{whole.name}' in transformers, which passes "
                "over it.",
                f"Write what it holds into '{'.'.join(whole.text_part)}' for transformers.",
            )


def _base_of_the_part(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the warning about a base that the class of the whole passes over."""
    part = text_part(config)
    if passes_over_base(config, part):
        yield Finding(
            "warning",
            f"rope_theta is {in_json(part['rope_theta'])} in '{text_part_names(config)[-1]}': the class of "
            f"'{name_of(config)}' in transformers passes over it, and takes the base of its own group.",
            "State rope_parameters with rope_theta in it.",
        )


def _notes_on_the_whole(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the note on what the class of the whole gives a text part that leaves it out."""
    given = given_by_the_whole(config, text_part(config))
    given = {key: value for key, value in given.items() if not isinstance(value, list)}
    if given:
        said = ", ".join(f"{key} ({in_json(value)})" for key, value in given.items() if not isinstance(value, Mapping))
        bases = [f"rope_theta ({value['rope_theta']:g})" for value in given.values() if isinstance(value, Mapping)]
        yield Finding(
            "note",
            f"The text part leaves out {', '.join([*bases, said] if said else bases)}; these are the values that the "
            f"class of '{config['model_type']}' in transformers gives it.",
            "Compare with the shapes of the model's weights, and with the model's publication.",
        )


def _without_its_group(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the finding about a file with a text part in itself, or in a group, where its class looks further in."""
    known, steps = class_of_last_whole(config), steps_to_text(config)
    if known is None or not (known.flat or has_sizes_of_text(text_part(config))):
        return
    for name in passed_over_in_the_file(config):
        yield Finding(
            "warning",
            f"'{name}' stands in config.json itself, from which the class of '{known.name}' in transformers takes "
            f"other entries for its text part: it passes over this one where '{known.text_part[0]}' is left out.",
            f"Put the entries of the text part into '{known.text_part[0]}'.",
        )
    if known.flat:
        return
    beside = "" if not steps else f" '{steps[-1].name}' of"
    fails = ", with which it fails" if _splits_other_pairs(known) or _lacks_values(known) else ""
    yield Finding(
        "warning",
        f"The class of '{known.name}' in transformers looks for its text part in '{known.text_part[0]}', which{beside} "
        f"the file lacks: it passes over the sizes beside it, and takes its own{fails}. They are read as those of that "
        "part here.",
        f"Put the entries of the text part into '{known.text_part[0]}'.",
    )


def _lacks_values(whole: ModelType) -> bool:
    """Whether the own text part of a class has no value for an entry that it needs, such as Step 3.7's window."""
    part = families.model_type(whole.text_type)
    if part is None:
        return False
    own = {**part.defaults, **whole.text_defaults, **whole.text_alone}
    return any(all(own.get(name) is None for name in (entry, *others)) for entry, others in part.needs.items())


def _splits_other_pairs(whole: ModelType) -> bool:
    """Whether the own text part of a class has sections of axes that are not all of its pairs, which it splits so."""
    part = families.model_type(whole.text_type)
    sizes = {} if part is None else {**part.defaults, **whole.text_defaults, **whole.text_alone}
    sections = (part.axes or {}).get("sections") if part is not None else None
    width, heads = sizes.get("hidden_size"), sizes.get("num_attention_heads")
    head = sizes.get("head_dim") or (width // heads if width and heads else None)
    if part is None or not sections or not head or (part.axes or {}).get("order") != "sections":
        return False
    share = (part.rope or {}).get("partial_rotary_factor", 1)
    return sum(sections) != -(-int(head * share) // 2)
