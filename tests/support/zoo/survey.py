"""All cases of an architecture, and the page of what became of those of all architectures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import HEADS
from locant.rotary_configs import read_huggingface
from zoo.architectures import Architecture, architecture
from zoo.cases import draw_case, nested_case
from zoo.facts import facts_of, mentions_rotation
from zoo.verdict import Verdict, judge

WITHOUT = "without rotation"


def verdicts(found: Architecture, seeds: Iterable[int]) -> Iterator[Verdict]:
    """Yield the outcome of every case of an architecture; nothing for one that does not read text.

    Args:
        found: The architecture.
        seeds: Seeds of the cases. A multimodal model has one case: that its text part is found and read.
    """
    if found.kind == "composite":
        yield from _of_composite(found)
    elif found.kind == "text" and not mentions_rotation(found.config_class):
        yield _of_class_without_rotation(found)
    elif found.kind == "text":
        for seed in seeds:
            yield _of_case(found, seed)


def _of_case(found: Architecture, seed: int) -> Verdict:
    """Return the outcome of a case, with as few heads as the class can do with."""
    outcome: Verdict | None = None
    for heads in HEADS[:-1]:
        try:
            case = draw_case(found.config_class, found.model_type, seed, heads=heads)
        except Exception as error:  # whatever the class raises
            outcome = outcome or Verdict(found.model_type, seed, "", "", "not built", _first_line(error))
            continue
        judged = judge(case, found.config_class)
        if judged.outcome != "not built":
            return judged
        outcome = outcome or judged
    assert outcome is not None
    return outcome


def _of_composite(found: Architecture) -> Iterator[Verdict]:
    facts = facts_of(found) or {}
    if not facts.get("text_type"):
        return
    text = architecture(facts["text_type"])
    if text.kind != "text" or not mentions_rotation(text.config_class):
        return
    try:
        case = draw_case(text.config_class, text.model_type, 1)
    except Exception as error:  # whatever the class raises
        yield Verdict(found.model_type, 1, "nested", "", "not built", _first_line(error))
        return
    part = tuple(facts["text_part"])
    yield judge(nested_case(case, found.model_type, part), found.config_class, part)


def _of_class_without_rotation(found: Architecture) -> Verdict:
    """Return whether Locant knows that a class whose code does not speak of rotary positions has none."""
    content = {"model_type": found.model_type, "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    try:
        read_huggingface(content)
    except ConfigError as error:
        right = "no rotary positions" in str(error)
        return Verdict(
            found.model_type, 0, "without rotation", "", "right" if right else "wrong", "" if right else str(error)
        )
    return Verdict(
        found.model_type, 0, "without rotation", "", "wrong", "read as rotary, but the class does not rotate"
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"


_TITLES = {
    "wrong": "Wrong",
    "refused": "Refused",
    "not built": "Files of which the class makes no model",
}


def page(record: Mapping[str, Any]) -> str:
    """Return the page about a record.

    Args:
        record: ``transformers``, its version, and ``verdicts``, each as plain data.
    """
    every = [Verdict(**each) for each in record["verdicts"]]
    counts = Counter(each.outcome for each in every)
    without = [each for each in every if each.form == WITHOUT]
    rows: dict[str, list[Verdict]] = {}
    for each in every:
        if each.form != WITHOUT:
            rows.setdefault(each.model_type, []).append(each)
    lines = [
        "# Read from config.json, and done by the class",
        "",
        f"Every architecture of transformers {record['transformers']} that reads text, found by walking the package.",
        "The smallest model of each class is built with options drawn at random; its config.json, as transformers",
        "writes it, with the entries of release 4, or without some for which the class has defaults, is read by",
        "Locant; and the reading is compared with what the class does to queries and keys: layers that rotate,",
        "features, pairing, frequencies, attention scale. `make zoo` makes this page anew.",
        "",
        f"{len(every)} cases of {len({each.model_type for each in every})} architectures: {counts['right']} right, "
        f"{counts['refused']} refused with a reason, {counts['wrong']} wrong. Of {counts['not built']} files the class "
        f"itself makes no model. {len(without)} of the architectures do not rotate at all, and are known not to.",
        "",
        "| model type | cases | right | refused | wrong | not built | pairing | layers rotate | others | scalings |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(name, cases) for name, cases in sorted(rows.items())),
    ]
    for outcome, title in _TITLES.items():
        listed = [f"- {_in_a_line(each)}" for each in every if each.outcome == outcome]
        lines += ["", f"## {title}", "", *listed] if listed else []
    return "\n".join(lines) + "\n"


def _row(name: str, cases: list[Verdict]) -> str:
    of = Counter(each.outcome for each in cases)
    layouts = " and ".join(sorted({each.layout for each in cases if each.layout}))
    kinds = ", ".join(sorted({kind for each in cases for kind in each.rope_type.split("+") if kind}))
    numbers = " | ".join(str(of[outcome]) for outcome in ("right", "refused", "wrong", "not built"))
    return f"| {name} | {len(cases)} | {numbers} | {layouts} | {cases[0].rotating} | {cases[0].still} | {kinds} |"


def _in_a_line(each: Verdict) -> str:
    reason = " ".join(each.reason.split()).replace("<", "&lt;")[:240]
    return f"{each.model_type}, seed {each.seed} ({each.form or 'saved'}, {each.rope_type or 'default'}): {reason}"


def as_json(record: Mapping[str, Any]) -> str:
    """Return a record as JSON, with a line for every case."""
    cases = ",\n".join(json.dumps(each) for each in record["verdicts"])
    return f'{{"transformers": {json.dumps(record["transformers"])}, "verdicts": [\n{cases}\n]}}\n'
