"""The class that a config.json names in ``architectures``, where its model type does not tell what is meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.without_rotation import has_rotary_code, speaks_of_rotation
from locant.rotary_configs.huggingface.text_parts import name_of, steps_to_text, text_part, text_type

_ENDS = (
    "ForCausalLM",
    "ForConditionalGeneration",
    "ForSequenceClassification",
    "ForTokenClassification",
    "LMHeadModel",
)
_END = re.compile(r"(For[A-Z]\w*|LMHead\w*|Model)$")
_LIKENESS = 0.88


def class_in_architectures(config: Mapping[str, Any]) -> ModelType | None:
    """Return the facts of the class that ``architectures`` names, or ends with, where it is known and rotates."""
    for each in (text_part(config), config):
        names = each.get("architectures")
        if isinstance(names, list) and names and isinstance(names[0], str):
            kind = families.type_at_the_end(names[0])
            if kind is not None and kind.rotates and not kind.text_part:
                return kind
    return None


def other_type_in_architectures(config: Mapping[str, Any]) -> ModelType | None:
    """Return the facts of the class that ``architectures`` names, where the one of the model type cannot be meant.

    Grok-2 has the model type of a model of images, GIT, which has no rotary positions; its entries are about them.
    """
    part = text_part(config)
    kind = families.model_type(text_type(config))
    if kind is None or kind.rotates or has_rotary_code(part, config) or not speaks_of_rotation(part):
        return None
    names = next((each["architectures"] for each in (part, config) if each.get("architectures")), None)
    if not isinstance(names, list) or not isinstance(names[0], str):
        return None
    named = families.type_of_class(names[0])
    return named if named is not None and named.rotates and not named.text_part else None


def doubts_about_architectures(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a warning where ``architectures`` names the class of another model type, or is close to a name and none.

    Auto classes of transformers go by the model type, vLLM by the name of the class.

    Args:
        config: The content of config.json.
    """
    names, types = config.get("architectures"), {text_type(config), name_of(config)}
    types |= {name_of(step.whole) for step in steps_to_text(config)}
    kind = families.model_type(name_of(config))
    if kind is None or not families.is_in_transformers(kind.name) or config.get("auto_map"):
        return
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        return
    name, named = names[0], families.type_of_class(names[0])
    goes_by = (
        f"transformers builds the class of '{kind.name}' by the model type, as is shown; vLLM goes by architectures"
    )
    if named is not None and families.is_in_transformers(named.name) and not types & {named.name, named.text_type}:
        yield Finding(
            "warning",
            f"architectures of config.json names '{name}', the class of '{named.name}', and model_type is "
            f"'{kind.name}': {goes_by}, and runs another model.",
            "Correct the one that is not of the weights.",
        )
    elif (meant := _meant(name, [each for each in types if each is not None])) is not None:
        yield Finding(
            "warning",
            f"architectures of config.json names '{name}', which no class is called. Did you mean {meant}? "
            f"{goes_by[:1].upper()}{goes_by[1:]}, and finds none.",
            "Correct architectures.",
        )


def _meant(name: str, types: list[str]) -> str | None:
    """Return in words which class a name is nearly that of: of one of the model types, with a usual end."""
    found = _END.search(name)
    stem, end = (name[: found.start()], found[0]) if found else (name, "")
    ends = difflib.get_close_matches(end, _ENDS, 1, _LIKENESS) if end not in _ENDS else []
    if ends and families.type_of_class(stem + ends[0]) is not None:
        return f"'{stem}{ends[0]}'"
    letters = {_letters(each): each for each in types}
    close = difflib.get_close_matches(_letters(stem), letters, 1, _LIKENESS)
    if end not in _ENDS or not close or close[0] == _letters(stem) or families.type_of_class(name) is not None:
        return None
    return f"that of '{letters[close[0]]}'"


def _letters(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()


def taken_by_architectures(name: str | None, kind: ModelType) -> Finding:
    """Return that a file is read as the class that ``architectures`` names, for want of a known model type."""
    known = "The file has no model_type" if name is None else f"The model type '{name}' is not known here"
    return Finding(
        "note" if name is None else "warning",
        f"{known}: it is read as the class of '{kind.name}', by the name in architectures.",
        "Compare with the code that trained the model, if it was another.",
    )


def taken_in_the_place_of(name: str | None, kind: ModelType) -> Finding:
    """Return that a file is read as the class that ``architectures`` names, as that of its type does not rotate."""
    return Finding(
        "warning",
        f"The class of the model type '{name}' has no rotary positions, but entries of the file are about them: it is "
        f"read as the class of '{kind.name}', which architectures names.",
        f"State the model type '{kind.name}', if that is the code that trained the model.",
    )


TAKEN_FOR_MINISTRAL = Finding(
    "note",
    "model_type is 'mistral' and the file has layer_types: AutoConfig of transformers takes it for 'ministral', whose "
    "layers have the window by their types. The class of 'mistral' itself gives every layer the same one.",
    "Load the model by an Auto class, or state ministral.",
)


def brings_code(config: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether code of its own comes with a file, for the whole of the model or for its text part.

    Args:
        config: The content of config.json.
        given: The entries of its text part.
    """
    return bool(config.get("auto_map") or given.get("auto_map"))


def code_of_its_own(named: Any, kind: ModelType) -> Finding:
    """Return that ``auto_map`` names code of the model's own, which is not read."""
    classes = [each for each in named.values() if isinstance(each, str)] if isinstance(named, Mapping) else []
    code = f" ({classes[-1].partition('.')[0]:.60})" if classes else ""
    return Finding(
        "note",
        f"auto_map of config.json names code of the model's own{code}, which is not read here: what is shown is what "
        f"the class of '{kind.name}' in transformers does.",
        "Compare with that code, if the model is run by it (trust_remote_code).",
    )
