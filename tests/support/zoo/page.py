"""The page and the record of what became of all cases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.cases import WINDOWS
from zoo.survey import WITHOUT
from zoo.verdict import Verdict

_TITLES = {
    "wrong": "Wrong",
    "warned": "Read otherwise, with the warning that the class passes over an entry",
    "refused": "Refused",
    "not built": "Files of which the class makes no model",
}
_COLUMNS = (
    *("model type", "cases", "right", "warned", "refused", "wrong", "not built", "pairing", "layers rotate", "others"),
    "scalings",
)
_HEAD = ("transformers", "torch", "machine", "seeds", "architectures", "not_reached")


def page(record: Mapping[str, Any]) -> str:
    """Return the page about a record.

    Args:
        record: ``transformers`` and ``torch``, their versions; ``machine``; ``seeds``, how many cases an architecture
            has; ``architectures``, how many there are; ``not_reached``, those of them without a case yet;
            ``verdicts``, each as plain data.
    """
    stated = [Verdict(**each) for each in record["verdicts"]]
    every = [each for each in stated if not each.form.startswith(WINDOWS)]
    windows = [each for each in stated if each.form.startswith(WINDOWS)]
    counts = Counter(each.outcome for each in every)
    without = [each for each in every if each.form == WITHOUT]
    rows: dict[str, list[Verdict]] = {}
    for each in every:
        if each.form != WITHOUT:
            rows.setdefault(each.model_type, []).append(each)
    judged = sum(counts[outcome] for outcome in ("right", "warned", "refused", "wrong"))
    lines = [
        "# Read from config.json, and done by the class",
        "",
        f"Every architecture of transformers {record['transformers']} that reads text, found by walking the package.",
        "The smallest model of each class is built with options drawn at random; its config.json, as transformers",
        "writes it, with the entries of release 4, or without some for which the class has defaults, is read by",
        "Locant; and the reading is compared with what the class does to queries and keys: layers that rotate,",
        "features, pairing, frequencies, attention scale; where the class shows them, the windows of its masks and the",
        "axis that turns each pair. `make zoo` makes this page anew.",
        "",
        f"{len(every)} cases of {len({each.model_type for each in every})} architectures: {counts['right']} right "
        f"({counts['right'] / max(judged, 1):.1%} of the {judged} that could be compared), {counts['refused']} refused "
        f"with a reason, {counts['warned']} read otherwise with a warning, {counts['wrong']} wrong. "
        f"Of {counts['not built']} files the class itself makes no model. "
        f"{len(without)} of the architectures do not rotate at all, and are known not to.",
        "",
        f"Windows were compared in {sum(each.windows for each in every)} cases, axes in "
        f"{sum(each.axes for each in every)}.",
        "",
        *([_windows_in_words(windows), ""] if windows else ()),
        _reached(record),
        "",
        f"({record['machine']}; seeds 0 to {record['seeds'] - 1}, of which 0 keeps the options of the class.)",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{' --- |' * len(_COLUMNS)}",
        *(_row(name, cases) for name, cases in sorted(rows.items())),
    ]
    for outcome, title in _TITLES.items():
        found = [each for each in every if each.outcome == outcome]
        found += [each for each in windows if each.outcome == outcome and outcome in ("refused", "wrong")]
        if found:
            lines += ["", f"## {title}", "", *_by_reason(found)]
    return "\n".join(lines) + "\n"


def _windows_in_words(windows: list[Verdict]) -> str:
    of, types = Counter(each.outcome for each in windows), len({each.model_type for each in windows})
    return (
        f"{len(windows)} more files of {types} architectures with windows state 3, 0 and -1 tokens, null, or nothing "
        f"for each of their entries: {of['right']} right, {of['warned']} with the warning that the class hides every "
        f"token then, {of['refused']} refused with a reason, {of['wrong']} wrong; of {of['not built']} the class makes "
        "no model."
    )


def _reached(record: Mapping[str, Any]) -> str:
    missing: Sequence[str] = record["not_reached"]
    if not missing:
        return f"All {record['architectures']} model types of the package were visited."
    named = ", ".join(missing)
    return f"Of the {record['architectures']} model types of the package {len(missing)} were not reached: {named}."


def _row(name: str, cases: list[Verdict]) -> str:
    of = Counter(each.outcome for each in cases)
    layouts = " and ".join(sorted({each.layout for each in cases if each.layout}))
    kinds = ", ".join(sorted({kind for each in cases for kind in each.rope_type.split("+") if kind}))
    numbers = " | ".join(str(of[outcome]) for outcome in ("right", "warned", "refused", "wrong", "not built"))
    return f"| {name} | {len(cases)} | {numbers} | {layouts} | {cases[0].rotating} | {cases[0].still} | {kinds} |"


def _by_reason(found: list[Verdict]) -> list[str]:
    """Return a line for every model type and reason, with the seeds that had it."""
    seeds: dict[tuple[str, str], list[Verdict]] = {}
    for each in found:
        reason = " ".join(each.reason.split()).replace("<", "&lt;")
        seeds.setdefault((each.model_type, reason[:240]), []).append(each)
    return [
        f"- {name}, {'; '.join(_case_in_words(each) for each in cases)}: {reason}"
        for (name, reason), cases in seeds.items()
    ]


def _case_in_words(each: Verdict) -> str:
    return f"seed {each.seed} ({each.form or 'saved'}, {each.rope_type or 'default'})"


def as_json(record: Mapping[str, Any]) -> str:
    """Return a record as JSON, with a line for every case."""
    head = "".join(f"{json.dumps(name)}: {json.dumps(record[name])},\n" for name in _HEAD)
    cases = ",\n".join(json.dumps(each) for each in record["verdicts"])
    return f'{{{head}"verdicts": [\n{cases}\n]}}\n'
