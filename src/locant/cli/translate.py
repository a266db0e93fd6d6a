"""``locant translate``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from locant.cli.translator_options import add_sampling_options, add_translator_options, load, search_overrides
from locant.errors import UsageError

_EPILOG = """examples:
  locant translate runs/en-de "A man is riding a horse." "Two dogs play."
  locant translate runs/en-de --input book.en --output book.de
  cat book.en | locant translate runs/en-de --beam 1 > book.de
  locant translate runs/en-de --compute-type int8 --input book.en --output book.de"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, standard input is read")
    parser.add_argument("--input", "-i", type=Path, metavar="FILE", help="translate this file, line by line")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write here instead of standard output")
    parser.add_argument("--n-best", type=int, metavar="N", help="print N translations: line number, score, text")
    add_translator_options(parser)
    add_sampling_options(parser)


def run(options: argparse.Namespace) -> int:
    """Translate."""
    if options.text and options.input:
        raise UsageError("Give sentences as arguments or a file with --input, not both.")
    if options.input and not options.input.is_file():
        raise UsageError(f"The input file {options.input} does not exist.")

    from locant.files import replacing_file

    overrides = search_overrides(options, n_best=options.n_best)
    translator = load(options)
    with ExitStack() as stack:
        lines: Iterable[str] = options.text or _lines(options.input)
        out = sys.stdout
        if options.output:
            out = stack.enter_context(stack.enter_context(replacing_file(options.output)).open("w", encoding="utf-8"))
        if options.n_best:
            for number, found in enumerate(translator.translate_n_best(list(lines), **overrides), start=1):
                for translation in found:
                    print(number, f"{translation.score:.4f}", translation.text, sep="\t", file=out)
        else:
            whole = options.text or options.input
            chunk = 1 if sys.stdin.isatty() else 64  # somebody who types wants an answer to each line
            texts: Iterable[str] = (
                translator.translate(list(lines), **overrides)
                if whole
                else translator.stream(lines, chunk=chunk, **overrides)
            )
            for text in texts:
                print(text, file=out, flush=not whole)
    return 0


def _lines(path: Path | None) -> Iterable[str]:
    """Return the lines of a file or of standard input; what is not UTF-8 is an error that names the line."""
    from locant.text.readers import decode_lines, read_lines

    return read_lines(path) if path else decode_lines(sys.stdin.buffer, "standard input")
