"""Tables of measurements are their records: every row that a record gives is on its page, as often as it should."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from pages import ROOT

RESULTS = ROOT / "docs" / "results"


def read(name: str) -> Any:
    """Return a record, or those of a file that has one in each line."""
    text = (RESULTS / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)


def speeds(name: str) -> dict[str, dict[str, float]]:
    """Return the median tokens a second of each engine, by the shape of the model."""
    return {
        shape: {engine: statistics.median(run["tokens_per_second"] for run in runs) for engine, runs in engines.items()}
        for shape, engines in read(f"speed/zen5/{name}.json")["results"].items()
    }


def row(*cells: object) -> str:
    """Return a row of a table, or a part of one."""
    return f"| {' | '.join(map(str, cells))} |"


def many(*numbers: float) -> list[str]:
    """Return numbers of tokens as they are printed."""
    return [f"{number:,.0f}" for number in numbers]


def large_texts() -> Iterator[str]:
    for found in read("scale.json")["measured"]:
        phases = found["phases"]
        rate = found["pairs"] / sum(phases[name]["processor_seconds"] for name in ("reading", "cleaning", "tokenising"))
        named = ("reading", "cleaning", "learning the vocabulary", "tokenising")
        who = ", one process" if found["processes"] == 1 else ""
        memory = max(phase["own_memory_mb"] for phase in phases.values())
        seconds = [f"{phases[name]['seconds']:.1f}" for name in named]
        yield row(f"{found['pairs']:,}{who}", *seconds, f"{round(rate, -2):,.0f}", f"{memory:,} MB")


def kernels() -> Iterator[str]:
    for shape, found in read("speed/kernel-ablation.json")["found"].items():
        for name, runs in found.items():
            positions, kernel = name.split(": ")
            speed, whole = (statistics.median(each) for each in (runs, found[f"{positions}: all"]))
            yield row(shape, positions, kernel, f"{speed:,.0f}", f"{speed / whole:.3f}")
    for shape, found in read("speed/zen5/layer-norm.json")["found"].items():
        whole, without = (statistics.median(found[name]) for name in ("all kernels", "without layer norm"))
        yield row(shape, *many(whole, without), f"{without / whole:.3f}")
    for shape, found in read("speed/zen5/rotation.json")["found"].items():
        before, whole, without = map(statistics.median, found.values())
        yield row(shape, *many(before, whole, without), f"{without / whole:.3f}")


def training() -> Iterator[str]:
    for shape, found in speeds("training-best-form").items():
        own, other = found["locant"], found["torch.nn.Transformer"]
        yield row(shape, *many(own, other), f"{own / other:.2f}")
    for shape, found in speeds("training").items():
        own, cells = found.pop("locant"), []
        for kept in (False, True):
            best = max(speed for engine, speed in found.items() if engine.endswith("memory kept") == kept)
            cells += [f"{best:,.0f}", f"{own / best:.2f}"]
        yield row(shape, f"{own:,.0f}", *cells)


def layer_kinds() -> Iterator[str]:
    for f in read("speed/layer-kinds.json")["steps"]:
        yield row(f"{f['tokens']:,}", f["step"], f"{1000 * f['seconds']:,.0f} ms", f"{f['times_as_fast']:.2f}")


def translating() -> Iterator[str]:
    for name, found in speeds("translation").items():
        own = [found[f"locant {kind}, threads 2"] for kind in ("int8", "bfloat16", "float32")]
        other = max(speed for engine, speed in found.items() if engine.startswith("ctranslate2"))
        shape, _, _, _, beam = name.split()
        search = "greedy" if beam == "1" else f"beam {beam}"
        yield row(f"{shape}, {search}", *many(*own, other), f"{own[0] / other:.2f}", f"{own[1] / own[0]:.2f}")


def contention() -> Iterator[str]:
    for file in ("contention", "contention-training", "contention-later"):
        for name, found in read(f"speed/zen5/{file}.json")["results"].items():
            if name == "translating small-8k, batch 32, beam 1 | ctranslate2 int8-1x2":
                continue  # two workers are faster
            quiet, *rest = (statistics.median(found[key]) for key in ("quiet", "one thread", "busy core", "quota"))
            one, busy, quota = rest
            yield row(*many(quiet, one, busy), f"{busy / quiet:.0%}", f"{quota:,.0f}", f"{quota / quiet:.0%}")


def groups() -> Iterator[str]:
    for found in read("speed/zen3/groups.json")["results"]:
        medians = {name: f"{round(statistics.median(runs)):,}" for name, runs in found["threads"].items()}
        about = (found["shape"], f"{found['condition']}, the {found['hour']} hour", len(found["threads"]["now"]))
        yield row(*about, medians["before"], medians["now"], medians.get("as many threads as cores", ""))


def four_languages() -> Iterator[str]:
    languages, found = {"en": "English", "de": "German", "fr": "French", "es": "Spanish"}, {}
    for direction, scores in read("bible-four-languages/test.json")["directions"].items():
        source, target = direction.split("-")
        zero_shot = {source, target} == {"de", "es"}
        found[source, target] = f"*{scores['bleu']:.1f}*" if zero_shot else f"{scores['bleu']:.1f}"
    for source, name in languages.items():
        yield row(name, *(found.get((source, target), "") for target in languages)).replace("|  |", "| |")
    validations = [each for each in read("bible-four-languages/metrics.jsonl") if each["kind"] == "validation"]
    yield row("step", *(f"{each['step']:,}" for each in validations))
    yield row("loss", *(f"{each['loss']:.3f}" for each in validations))
    yield row("BLEU", *(f"{each['bleu']:.1f}" for each in validations))
    yield row("German to Spanish", *(f"{each['parts']['de-es']:.1f}" for each in validations))


def distillation() -> Iterator[str]:
    for found in read("quality/distillation.json")["rows"]:
        scores = f"{found['bleu']:.1f}", f"{found['chrf']:.1f}", f"{found['sentences_per_second']:,.0f}"
        yield row(found["beam"], *scores, f"{found['speed']:.1f}")


def adaptation() -> Iterator[str]:
    for name in ("", "-2000", "-slower", "-kjv"):
        record = read(f"quality/adaptation{name}.json")
        for model, of in record["models"].items():
            yield row(model, f"{of['updates']:,}", f"{of['new']:.1f}", f"{of['old']:.1f}")
        for found in record.get("rates", []) if not name else []:
            settings = found["text"], found["optimizer"], f"{found['learning_rate']:g}", found["trained_on"]
            yield row(*settings, f"{found['new']:.1f}", f"{found['old']:.1f}")


def changes() -> Iterator[str]:
    for found in read("quality/changes.jsonl"):
        yield row(found["variant"], *trained(found), f"{found['chrf']:.1f}")


def trained(found: dict[str, Any]) -> list[str]:
    """Return the updates of a training, its least loss, and its BLEU on even and odd lines."""
    loss, even, odd = min(loss for _, loss in found["losses"]), found["bleu_chosen_by"], found["bleu_reported"]
    return [f"{found['steps']:,}", f"{loss:.3f}", f"{even:.1f}", f"{odd:.1f}"]


def defaults(record: str, **names: str) -> Iterator[str]:
    for found in read(f"quality/{record}.jsonl"):
        yield row(names.get(found["variant"], found["variant"]), *trained(found))


def both_directions() -> Iterator[str]:
    for found in read("quality/both-directions.jsonl"):
        both = "both" in found
        parts = {"both directions": found["both"]} if both else {}
        for name, of in {**parts, ("then one direction" if both else "one direction"): found["one"]}.items():
            steps, loss, even, odd = trained(of)
            scores = f"{of['bleu']:.1f}", even, odd, f"{of['chrf']:.1f}", f"{of['length_penalty']:g}"
            yield row(found["variant"], name, steps, f"{of['seconds'] / 60:.1f}", loss, *scores)


TABLES = [
    ("docs/scale.md", "", large_texts),
    ("docs/results/speed.md", "", kernels),
    ("docs/results/speed.md", "", training),
    ("docs/results/speed.md", "## A newer processor", translating),
    ("docs/results/speed.md", "## A newer processor", contention),
    ("docs/results/speed.md", "## Layers of today", layer_kinds),
    ("docs/results/speed.md", "Groups of sentences had twice", groups),
    ("docs/results/bible-four-languages.md", "", four_languages),
    ("docs/results/distillation.md", "", distillation),
    ("docs/results/adaptation.md", "", adaptation),
    ("docs/results/quality.md", "## One change at a time", changes),
    ("docs/results/quality.md", "### Both directions first, then one", both_directions),
    ("docs/results/quality.md", "## Defaults beside a search", lambda: defaults("defaults")),
    ("docs/results/quality.md", "### Rotary positions", lambda: defaults("positions", default="rotary")),
    (
        "docs/results/quality.md",
        "### Around the rotary defaults",
        lambda: defaults("defaults-rotary", wider="wider (192 features)"),
    ),
    (
        "docs/results/quality.md",
        "### Doubled batches beside equal work",
        lambda: defaults("defaults-rotary-again"),
    ),
    (
        "docs/results/quality.md",
        "### Weight decay",
        lambda: defaults("weight-decay", **{"default": "none", "weight decay": "0.1"}),
    ),
    (
        "docs/results/quality.md",
        "Many codes decay only matrices",
        lambda: defaults("weight-decay-groups", all="all weights", matrices="matrices of hidden layers alone"),
    ),
    ("docs/results/quality.md", "### Three seeds", lambda: defaults("defaults-seeds")),
    (
        "docs/results/quality.md",
        "### Twenty minutes\n",
        lambda: defaults("defaults-20-minutes", wider="wider (192 features)", recipe="recipe `multi30k-en-de`"),
    ),
    (
        "docs/results/quality.md",
        "### Twenty minutes on a faster processor",
        lambda: defaults("defaults-20-minutes-faster", narrower="narrower (128 features)"),
    ),
    ("docs/results/quality.md", "### More pairs", lambda: defaults("more-pairs")),
    (
        "docs/results/quality.md",
        "### An hour",
        lambda: defaults(
            "defaults-60-minutes",
            default="wider (192 features), the default then",
            narrower="narrower (128 features), the default now",
        ),
    ),
]


@pytest.mark.parametrize(
    ("page", "heading", "rows"),
    TABLES,
    ids=[f"{page.rpartition('/')[2]} {heading.strip('# ') or rows.__name__}" for page, heading, rows in TABLES],
)
def test_the_rows_of_a_record_stand_on_its_page(page, heading, rows):
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        text = text.split(heading, 1)[1].split("\n## ")[0]
    found = list(rows())
    assert found
    assert not [each for each in found if text.count(each.removeprefix("|")) < found.count(each)]


def test_the_table_of_the_readme_is_its_records():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("## Results")[1]
    lines = [line.split(" | ") for line in (RESULTS / "positions.md").read_text(encoding="utf-8").splitlines()]
    kinds = ("float32", "bfloat16")
    million = {tuple(line[:2]): float(line[5]) for line in lines if len(line) == 8 and line[1] in kinds}
    assert f" | {million['| Locant', 'float32']}; {million['| Locant', 'bfloat16']} | " in readme
    peers = [
        max(error for (name, kind), error in million.items() if name != "| Locant" and kind == each) for each in kinds
    ]
    assert f"| {peers[0]:g}; {peers[1]:.1f} (" in readme
    dynamic, *_ = (line for line in lines if line[:2] == ["| dynamic NTK", "256"])
    assert f" | {dynamic[3].removesuffix(' |')} | {float(dynamic[2])} (" in readme

    reading = (RESULTS / "reading.md").read_text(encoding="utf-8")
    counts = {
        how: re.search(rf"\| {how} \| (\d+) of (\d+) ", reading).groups()
        for how in ("with the class", "by the entries alone")
    }
    assert all(f"{right} of {files} {how}" in readme for how, (right, files) in counts.items())
    right, files = map(int, counts["with the class"])
    differing = (ROOT / "tests" / "extension" / "otherwise_by_class.txt").read_text(encoding="utf-8").splitlines()
    assert files - right == len(differing)

    found = speeds("training-best-form")["tiny-8k"]
    assert " | ".join(many(found["locant"], found["torch.nn.Transformer"])) in readme
    found = speeds("translation")["base-32k batch 32 beam 1"]
    other = max(rate for engine, rate in found.items() if engine.startswith("ctranslate2"))
    assert " | ".join(many(found["locant int8, threads 2"], other)) in readme
    servers = read("serving.json")["models"][0]["servers"]
    own, other = (
        each["sentences_per_second"]
        for name in ("Locant", "LibreTranslate")
        for each in servers[name]["mixed"]
        if each["clients"] == 64
    )
    assert " | ".join(many(own, other)) in readme
