"""``locant evaluate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from locant.errors import UsageError

_EPILOG = """examples:
  locant evaluate runs/bible
  locant evaluate runs/en-de --source test.en --target test.de --save hypotheses.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="folder of a run, or of a model with --source and --target"
    )
    parser.add_argument(
        "--split", choices=("test", "valid"), help="of the run's corpus; default test where there is one"
    )
    parser.add_argument("--source", type=Path, metavar="FILE", help="source sentences instead of the run's corpus")
    parser.add_argument("--target", type=Path, metavar="FILE", help="their reference translations")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the hypotheses here, one a line")
    parser.add_argument("--beam", type=int, metavar="K", help="hypotheses kept for each sentence; 1 is greedy")
    parser.add_argument("--length-penalty", type=float, metavar="ALPHA", help="exponent (Wu et al. 2016, eq. 14)")
    parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu or cuda")


def run(options: argparse.Namespace) -> int:
    """Evaluate."""
    if bool(options.source) != bool(options.target):
        raise UsageError("--source and --target go together: one file each, with as many lines.")
    if options.source and options.split:
        raise UsageError("--split chooses from the run's own corpus; leave it out with --source and --target.")

    from rich.console import Console
    from rich.table import Table

    from locant.files import write_text
    from locant.runtime import keep_freed_memory
    from locant.training import evaluate_files, evaluate_run

    keep_freed_memory()
    changes = {"beam": options.beam, "length_penalty": options.length_penalty}
    overrides = {key: value for key, value in changes.items() if value is not None}
    if options.source:
        result = evaluate_files(options.run, options.source, options.target, device=options.device, **overrides)
    else:
        result = evaluate_run(options.run, options.split, device=options.device, **overrides)
    if options.save:
        write_text(options.save, "".join(line + "\n" for line in result.hypotheses))

    table = Table("", "BLEU", "chrF", box=None, padding=(0, 2))
    table.add_row("this model", f"{result.scores.bleu:.1f}", f"{result.scores.chrf:.1f}")
    table.add_row("copying the source", f"{result.copy_scores.bleu:.1f}", f"{result.copy_scores.chrf:.1f}")
    console = Console(highlight=False)
    console.print(f"{result.name}: {len(result.hypotheses):,} sentences in {result.seconds:.1f} s, beam {result.beam}")
    console.print(table)
    console.print(f"BLEU signature {result.scores.bleu_signature}", soft_wrap=True)
    console.print(f"chrF signature {result.scores.chrf_signature}", soft_wrap=True)
    return 0
