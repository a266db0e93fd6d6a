"""``locant generate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from locant.cli.arguments import add_output
from locant.cli.translator_options import add_sampling_options, add_translator_options, load, search_overrides
from locant.errors import DataError, UsageError

if TYPE_CHECKING:
    from locant.training import GeneratedText, GenerationReport

_EPILOG = """examples:
  locant generate runs/en-de --corpus runs/en-de --output distilled
  locant generate runs/de-en news.de.gz --direction back --sampling --output back-translated
  locant generate runs/en-de book.en --beam 4 --min-score -1 --max-ratio 2 --output more

The same command goes on with a generation that was stopped. FOLDER/train.tsv has source, target and score
(log-probability per token), and is read by `locant train --tsv FOLDER/train.tsv --output RUN`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.usage = "locant generate MODEL [FILE ...] --output FOLDER [options]"
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of a run or of a saved model")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="text, one sentence a line (.gz too)")
    add_output(parser, "FOLDER", "new folder, or one to go on with (default: NAME-generated, after MODEL)")
    add = parser.add_argument
    add("--corpus", type=Path, metavar="RUN", help="instead of files: the training text of this run or recipe")
    what = (
        "forward, the default: translations are targets (distillation, self-training); "
        "back: translations become sources (back-translation)"
    )
    add("--direction", default="forward", metavar="NAME", help=what)
    add("--format", default="tsv", metavar="NAME", help="tsv, the default, jsonl, or one of them with .gz")
    add("--n-best", type=int, metavar="N", help="translations of each sentence; 1 by default")
    what = "lines translated and written together; default 1000"
    add("--chunk", type=int, default=1000, metavar="LINES", help=what)
    filters = parser.add_argument_group("what is removed, beside empty translations")
    filters.add_argument("--min-score", type=float, metavar="S", help="scores below this; 0 is certainty")
    filters.add_argument("--max-ratio", type=float, metavar="R", help="lengths that differ by more than this factor")
    filters.add_argument("--no-copies", action="store_true", help="translations that are their source again")
    what = "a phrase of up to four words more than N times in succession"
    filters.add_argument("--max-repetitions", type=int, metavar="N", help=what)
    add_translator_options(parser)
    add_sampling_options(parser)


def run(options: argparse.Namespace) -> None:
    """Generate."""
    options.output = options.output or Path(f"{options.model.resolve().name}-generated")
    if bool(options.files) == bool(options.corpus):
        raise UsageError("Say what to translate: either text files, or --corpus with a run or recipe.")
    for path in options.files:
        if not path.is_file():
            raise DataError(f"The file {path} does not exist.")
    overrides = search_overrides(options, n_best=options.n_best)
    filters = {
        "min_score": options.min_score,
        "max_ratio": options.max_ratio,
        "copies": options.no_copies,
        "max_repetitions": options.max_repetitions,
    }

    from locant.cli.console import WorkBar
    from locant.training import generate_corpus

    translator = load(options)
    with WorkBar() as bar:

        def show(report: GenerationReport) -> None:
            speed = report.done / max(report.seconds, 1e-3)
            numbers = f"{report.done:,} of {report.lines:,} lines   {speed:,.0f} a second   score {report.score:.2f}"
            bar.show(report.done / report.lines, numbers)

        try:
            result = generate_corpus(
                translator,
                options.files,
                output=options.output,
                corpus=options.corpus,
                direction=options.direction,
                filters=filters,
                form=options.format,
                chunk=options.chunk,
                callback=show,
                **overrides,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("The same command goes on where it was.") from None
    _show(result)


def _show(result: GeneratedText) -> None:
    """Show what was made, what was left out, and what can be done with it."""
    from locant.cli.console import PlainConsole, print_table

    report, console = result.report, PlainConsole()
    counts = {"lines": report.lines, **report.skipped, "translations": report.translations}
    rows = [
        (label, f"{count:,}")
        for label, count in (counts | {**report.removed, "kept": report.kept}).items()
        if count or label in ("lines", "translations", "kept")
    ]
    print_table(console, ("generated corpus", "count"), rows, names=1, ruled=False)
    console.say(f"mean log-probability per token {report.score:.3f}, {report.seconds:.0f} s\n{result.path}")
