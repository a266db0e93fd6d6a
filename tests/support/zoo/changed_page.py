"""The page about changed files: how many were read as their classes compute them, and which were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OUTCOMES = {
    "right": "as the class, or told",
    "warned": "otherwise, with a warning",
    "refused": "refused with a reason",
    "silent": "otherwise in silence",
    "false": "false findings",
    "unsaid": "without effect, untold",
    "failure unsaid": "failures untold",
    "error": "tracebacks",
    "not built": "not to be compared",
}
_WRONG = ("silent", "false", "unsaid", "failure unsaid", "error")
_LONGEST = 200


def summary(lines: Sequence[Mapping[str, Any]], *, seed: int, limit: int, machine: str) -> dict[str, Any]:
    """Return what came out of a run.

    Args:
        lines: The lines of its file.
        seed: Its seed.
        limit: Most changes of an architecture.
        machine: Where and when it ran.
    """
    every = [(line["model_type"], each) for line in lines for each in line["outcomes"]]
    counts = {
        way: dict(Counter(each["outcome"] for _, each in every if each["with_class"] is asked))
        for way, asked in (("without the class", False), ("with the class", True))
    }
    wrong = [{"model_type": name, **each} for name, each in every if each["outcome"] in _WRONG]
    types = sorted({name for name, _ in every})
    return {"seed": seed, "limit": limit, "machine": machine, "types": types, "counts": counts, "wrong": wrong}


def changes_page(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page about runs, the last one first.

    Args:
        runs: What :func:`summary` returned of each.
    """
    return "\n".join(_lines(runs)) + "\n"


def _lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from (
        "# Changed configurations",
        "",
        "Small files of the classes of transformers, with the values that a class has by default, are changed as",
        "people change them: an entry left out, null, misspelt, of another kind, of another family, or two of these",
        "at once. `locant inspect` reads each, with the class asked and without, and the class itself shows what it",
        "does with it, or fails. Model types and changes are drawn by the seed: `make zoo-changes SEED=1 LIMIT=10`.",
        "",
        f"| seed | read | model types | changes | {' | '.join(OUTCOMES.values())} |",
        f"|{' --- |' * (4 + len(OUTCOMES))}",
    )
    for run in runs:
        for way, counts in run["counts"].items():
            numbers = " | ".join(str(counts.get(name, 0)) for name in OUTCOMES)
            if counts:
                yield f"| {run['seed']} | {way} | {len(run['types'])} | {sum(counts.values())} | {numbers} |"
    yield ""
    yield from (f"Seed {run['seed']}: {run['machine']}{run.get('note', '')}.  " for run in runs)
    for run in runs:
        if run["wrong"]:
            yield from ("", f"## What was wrong with seed {run['seed']}", "")
            seen = {(each["model_type"], each["change"]): each for each in run["wrong"]}
            for each in seen.values():
                reason = " ".join(each["reason"].split()).replace("<", "&lt;")[:_LONGEST]
                yield f"- {each['model_type']}, {each['change']}: {OUTCOMES[each['outcome']]}. {reason}"
