"""``locant evaluate-context``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.cli.arguments import add_device, add_json, add_output, parse_length, parse_lengths, parse_names
from locant.errors import UsageError

if TYPE_CHECKING:
    from locant.extension.evaluate.evaluation import EvaluationSettings

_EPILOG = """examples:
  locant evaluate-context smollm2 --lengths 2k,4k
  locant evaluate-context smollm2 --lengths 2k,8k,16k --method none,ntk,yarn --to 16k -o yarn-or-not
  locant evaluate-context path/to/model --tests passkey,needle --needle "Ada keeps the key under a blue stone." \\
      --question "Where does Ada keep the key?" --expect "blue stone" --text book.txt

A length may end in k, which is 1024. Positions of methods that follow the length of the text (dynamic, longrope) are
those of the whole text, as transformers has them in one pass without cached keys.

Exit code: 0, or 1 where the model or a text cannot be used, or 2 where the request cannot be right."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="folder, GGUF file, smollm2, or a Hub id (owner/name)")
    add = parser.add_argument
    add("--lengths", metavar="L,L,...", help="in tokens (by default up to four, to the length the model is made for)")
    add("--text", type=Path, nargs="+", default=[], metavar="FILE", help="texts to read (default: the built-in Bible)")
    add("--tests", default="perplexity", metavar="T,T", help="perplexity, passkey, needle, ruler (default perplexity)")
    add("--metrics", default="prefix,last", metavar="M,M", help="prefix, sliding, last (default prefix,last)")
    add("--stride", type=int, default=256, metavar="S", help="tokens between windows of sliding (default 256)")
    add("--windows", type=int, default=8, metavar="N", help="windows of sliding in a document (default 8)")
    add("--last", type=int, default=256, metavar="K", help="tokens that last scores (default 256)")
    add("--documents", type=int, default=4, metavar="N", help="documents for perplexity, at most (default 4)")
    add("--depths", type=int, default=6, metavar="N", help="depths of passkey and needle, evenly spaced (default 6)")
    add("--tries", type=int, default=10, metavar="N", help="pass keys in a cell, examples of a RULER task (default 10)")
    add("--needle", metavar="TEXT", help="your own needle; needs --question and --expect")
    add("--question", metavar="TEXT", help="what is asked about it")
    add("--expect", action="append", default=[], metavar="TEXT", help="what the answer must contain; may be repeated")
    add("--method", default="none", metavar="M,M", help="evaluate as extended by these, without saving; none: as it is")
    add("--to", type=parse_length, metavar="L", help="length in tokens that --method extends to")
    add("--exact", action="store_true", help="rotate by Locant, exact at every position, in the place of transformers")
    add_output(parser, "FOLDER", "results (default context-NAME); what is there is kept")
    add_device(parser)
    add_json(parser, "the results")


def run(options: argparse.Namespace) -> None:
    """Measure how far a model reads, and write table, pictures and a page."""
    from locant.extension.evaluate.evaluation import evaluate_context
    from locant.runtime import choose_device, keep_freed_memory

    device = choose_device(options.device)
    settings = _settings(options)
    folder = options.output or Path(f"context-{Path(options.model).stem}")
    if device.type == "cpu":
        keep_freed_memory()

    from locant.cli.progress import EvaluationProgress

    with EvaluationProgress("reading the model") as progress:
        results = evaluate_context(
            options.model, folder, settings, texts=options.text, name=options.model, device=device, callback=progress
        )
    if options.json:
        import json

        print(json.dumps(results, indent=2))
    else:
        _show_results(results)
    _write_pages(results, folder, quiet=options.json)


def _settings(options: argparse.Namespace) -> EvaluationSettings:
    from locant.extension.evaluate.evaluation import EvaluationSettings

    own = {"text": options.needle, "question": options.question, "expected": tuple(options.expect)}
    if any(own.values()) and not all(own.values()):
        raise UsageError("A needle of your own needs all three: --needle, --question and --expect.")
    given = {
        "lengths": parse_lengths(options.lengths) if options.lengths else (),
        "tests": parse_names(options.tests),
        "perplexity": {
            "metrics": parse_names(options.metrics),
            **{name: getattr(options, name) for name in ("stride", "windows", "last")},
        },
        **{name: getattr(options, name) for name in ("documents", "depths", "tries", "exact")},
        "needle": own if options.needle else {},
        "methods": parse_names(options.method),
        "target_length": options.to,
    }
    return EvaluationSettings.parse(given, "the options")


def _write_pages(results: dict[str, Any], folder: Path, *, quiet: bool) -> None:
    """Write pictures and the page, where what draws them is installed."""
    import sys

    from locant.app import context_report, write_context_figures, write_report
    from locant.errors import MissingExtraError

    written = [folder / "results.json"]
    try:
        written += write_context_figures(results, folder)
        write_report(folder / "report.html", context_report(results))
        written.append(folder / "report.html")
    except MissingExtraError as error:
        print(f"locant: no pictures and no page: {error}", file=sys.stderr)
    if not quiet:
        print("Wrote " + ", ".join(map(str, written)) + ".")


def _show_results(results: dict[str, Any]) -> None:
    """Print the tables."""
    from locant.cli.console import PlainConsole, print_table

    console = PlainConsole()
    lengths = results["settings"]["lengths"]

    def show(first: str, cells: dict[tuple[str, int], str]) -> None:
        names = dict.fromkeys(name for name, _ in cells)
        rows = [[name, *(cells.get((name, length), "") for length in lengths)] for name in names]
        print_table(console, [first, *(f"{length:,}" for length in lengths)], rows, names=1)

    for metric in dict.fromkeys(row["metric"] for row in results["perplexity"]):
        rows = [row for row in results["perplexity"] if row["metric"] == metric]
        console.print(f"\nPerplexity, {metric}", style="bold")
        console.print(results["definitions"]["perplexity"][metric])
        numbers = {(row["method"], row["length"]): row["perplexity"] for row in rows}
        show("method", {key: "not finite" if one is None else f"{one:.3f}" for key, one in numbers.items()})
    for test in dict.fromkeys(row["test"] for row in results["retrieval"]):
        for method in results["settings"]["methods"]:
            rows = [row for row in results["retrieval"] if row["test"] == test and row["method"] == method]
            console.print(f"\n{test}, {method}: found", style="bold")
            depths = ["any" if row["depth"] is None else f"{row['depth']:.0%}" for row in rows]
            cells = zip(depths, rows, strict=True)
            show("depth", {(depth, row["length"]): f"{row['score']:.0%}" for depth, row in cells})
    for row in results["ruler"]:
        length = row["effective_length"]
        reached = f"{length:,} tokens" if length else "none of the lengths"
        threshold = results["definitions"]["ruler_threshold"]
        console.print(f"\nEffective length, {row['method']}: {reached} (mean of the tasks at least {threshold:.1%}).")
