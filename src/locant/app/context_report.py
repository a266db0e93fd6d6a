"""The report of an evaluation by length: perplexity, heat maps and what each number means, on one page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from locant.app.report import Block, Fact, Facts, Figure, Report, Section, Table, Text, write_images
from locant.figures import FigureData, quality_by_length, svg
from locant.figures.drawing import colours, draw_cells, drawing, label, new_figure, settle
from locant.figures.quality_by_length import length_name

Results = dict[str, Any]
_ON_DEPTHS = ("passkey", "needle")
_MOST_TIMES = 20.0  # a curve that leaves what is worth reading is cut here, above the best one
_TEST_TEXTS = {
    "passkey": (
        "Passkey retrieval (Mohtashami and Jaggi 2023): a number of up to five digits is hidden in irrelevant text. "
        "Found means that {rule}; the answer has ten tokens at most."
    ),
    "needle": (
        "A needle in a haystack (Kamradt 2023): a sentence is hidden in real text. The score is the {rule}; the needle "
        "was: {needle}"
    ),
}


def context_report(results: Results) -> Report:
    """Build the page.

    Args:
        results: What :func:`locant.extension.evaluate.evaluation.evaluate_context` returns, or ``results.json`` holds.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    settings = results["settings"]
    methods = ", ".join(settings["methods"])
    lengths = ", ".join(f"{length:,}" for length in settings["lengths"])
    to = f" Extended to {settings['target_length']:,} tokens without saving." if settings["target_length"] else ""
    return Report(
        title=f"{Path(results['model']).name}: how far it reads",
        summary=f"Measured at {lengths} tokens on {results['device']}, for {methods}.{to}",
        sections=[
            *_perplexity(results),
            *_retrieval(results),
            *_ruler(results),
            Section("Model, text and machine", [_machine(results)]),
        ],
    )


def write_context_figures(results: Results, folder: Path) -> list[Path]:
    """Write every picture as PNG, and return their paths.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CheckpointError: The disk is full or not writable.
    """
    methods = results["settings"]["methods"]
    figures = {f"perplexity-{metric}": perplexity_curves(results, metric) for metric in _metrics(results)}
    figures |= {f"{test}-{each}": retrieval_grid(results, test, each) for test in _tests(results) for each in methods}
    return write_images(folder, figures.items())


def _metrics(results: Results) -> list[str]:
    return list(dict.fromkeys(row["metric"] for row in results["perplexity"]))


def _tests(results: Results) -> list[str]:
    return [test for test in _ON_DEPTHS if any(row["test"] == test for row in results["retrieval"])]


def perplexity_curves(results: Results, metric: str) -> FigureData:
    """Draw perplexity by length; one that is not finite, or above 20 times the least, is at the upper edge."""
    settings = results["settings"]
    found = {
        method: np.array(
            [row["perplexity"] for row in results["perplexity"] if (row["method"], row["metric"]) == (method, metric)],
            dtype=float,
        )
        for method in settings["methods"]
    }
    values = np.concatenate([*found.values()])
    finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.ones(1)
    lowest, top = finite.min(), min(1.15 * finite.max(), _MOST_TIMES * finite.min())
    shown = {method: np.minimum(np.nan_to_num(of, nan=np.inf), top) for method, of in found.items()}
    return quality_by_length(
        {method: {n: [y] for n, y in zip(settings["lengths"], of, strict=True)} for method, of in shown.items()},
        title=f"Perplexity, {metric}",
        length_label="length in tokens",
        quality_label="perplexity",
        trained=results["trained_length"],
        logarithmic_lengths=True,
        logarithmic_quality=True,
        limits=(lowest / 1.15, top),
    )


@drawing()
def retrieval_grid(results: Results, test: str, method: str) -> FigureData:
    """Draw what share was found at every depth of every length."""
    rows = [row for row in results["retrieval"] if (row["test"], row["method"]) == (test, method)]
    lengths = results["settings"]["lengths"]
    depths = sorted({row["depth"] for row in rows})
    scores = np.zeros((len(depths), len(lengths)))
    for row in rows:
        scores[depths.index(row["depth"]), lengths.index(row["length"])] = row["score"]
    figure = new_figure(8, 1.9 + 0.42 * len(depths))
    axes = figure.subplots()
    draw_cells(
        axes,
        scores,
        colours(np.ones(1)),
        texts=np.array([[f"{score:.0%}" for score in row] for row in scores]),
        rows=[f"{depth:.0%}" for depth in depths],
        columns=[length_name(length) for length in lengths],
        letters=9,
        aspect="auto",
    )
    axes.tick_params(axis="x", rotation=0)
    label(axes, f"{test.capitalize()}, {method}: share found", "length in tokens", "depth")
    return settle(figure, {"scores": scores})


def _perplexity(results: Results) -> Iterator[Section]:
    for metric in _metrics(results):
        rows = [row for row in results["perplexity"] if row["metric"] == metric]
        curves = perplexity_curves(results, metric)
        figure = svg(curves, name=f"perplexity-{metric}", description=f"Perplexity, {metric}, by length")
        table = Table(
            ["method", "length", "perplexity", "documents", "tokens scored", "seconds"],
            [
                [
                    row["method"],
                    row["length"],
                    "not finite" if row["perplexity"] is None else f"{row['perplexity']:.3f}",
                    row["documents"],
                    row["tokens"],
                    f"{row['seconds']:.1f}",
                ]
                for row in rows
            ],
            caption="Seconds are those of reading the windows; shorter windows may be part of a longer pass.",
        )
        yield Section(
            f"Perplexity: {metric}", [Text([results["definitions"]["perplexity"][metric]]), Figure(figure), table]
        )


def _retrieval(results: Results) -> Iterator[Section]:
    rules = results["definitions"]["answers"]
    words = {"passkey": {"rule": rules["first number"]}, "needle": {"rule": rules["contains"]}}
    words["needle"]["needle"] = results["settings"]["needle"]["text"]
    for test in _tests(results):
        blocks: list[Block] = [Text([_TEST_TEXTS[test].format(**words[test])])]
        for method in results["settings"]["methods"]:
            description = f"{test} found by length and depth, {method}"
            grid = retrieval_grid(results, test, method)
            blocks.append(Figure(svg(grid, name=f"{test}-{method}", description=description)))
        rows = [row for row in results["retrieval"] if row["test"] == test]
        blocks.append(
            Table(
                ["method", "length", "depth", "score", "tries"],
                [
                    [row["method"], row["length"], f"{row['depth']:.0%}", f"{row['score']:.0%}", row["tries"]]
                    for row in rows
                ],
            )
        )
        yield Section(test.capitalize(), blocks)


def _ruler(results: Results) -> Iterator[Section]:
    if not results["ruler"]:
        return
    threshold = results["definitions"]["ruler_threshold"]
    facts = [
        Fact(
            f"effective length, {row['method']}",
            f"{row['effective_length']:,}" if row["effective_length"] else "none",
            f"longest with a mean score of at least {threshold:.1%}",
        )
        for row in results["ruler"]
    ]
    rows = [row for row in results["retrieval"] if row["depth"] is None]
    table = Table(
        ["method", "task", "length", "score", "examples"],
        [[row["method"], row["test"], row["length"], f"{row['score']:.0%}", row["tries"]] for row in rows],
    )
    note = (
        "Three tasks in the manner of RULER (Hsieh et al. 2024), which has thirteen; the threshold is the paper's, for "
        "the mean over those. The score is the share of the expected strings that the answer contains."
    )
    yield Section("RULER tasks", [Text([note]), Facts(facts), table])


def _machine(results: Results) -> Block:
    environment = results["environment"]
    rotary = {method: str(entries) for method, entries in results["rotary"].items()}
    return Table(
        ["setting", "value"],
        [
            ["model", results["model"]],
            *([f"positions, {method}", entries] for method, entries in rotary.items()),
            ["text", ", ".join(results["texts"])],
            ["documents", "; ".join(results["documents"])],
            [
                "processor",
                f"{environment['processor']}, {environment['cores']} cores, {environment['threads']} threads",
            ],
            ["device", results["device"]],
            ["torch", environment["packages"]["torch"]],
            ["transformers", environment["transformers"]],
            ["locant", environment["locant"]],
        ],
    )
