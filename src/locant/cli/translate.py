"""``locant translate``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from locant.cli.translator_options import add_sampling_options, add_translator_options, load, search_overrides
from locant.errors import UsageError

if TYPE_CHECKING:
    from locant.translation.lines import Line, OnLong

_EPILOG = """examples:
  locant translate runs/en-de "A man is riding a horse." "Two dogs play."
  locant translate runs/en-de --input book.en --output book.de
  cat book.en | locant translate runs/en-de --beam 1 > book.de
  locant translate runs/en-de --compute-type int8 --input book.en --output book.de

Every line has its translation on a line of its own. Lines of standard input are translated as they come. With
--on-long error (the default) a line that is too long gets an empty line in its place and a message on standard error,
all others are translated, and the exit code is 1; with empty it is 0; with split the line is translated in parts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, standard input is read")
    parser.add_argument("--input", "-i", type=Path, metavar="FILE", help="translate this file, line by line (.gz too)")
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="write here (a pipe too) instead of standard output",
    )
    parser.add_argument("--n-best", type=int, metavar="N", help="print N translations: line number, score, text")
    parser.add_argument(
        "--on-long", choices=("error", "split", "empty"), default="error", help="of lines that are too long; see below"
    )
    add_translator_options(parser)
    add_sampling_options(parser)


def run(options: argparse.Namespace) -> int:
    """Translate."""
    if options.text and options.input:
        raise UsageError("Give sentences as arguments or a file with --input, not both.")
    if options.input and (not options.input.exists() or options.input.is_dir()):
        raise UsageError(f"The input file {options.input} does not exist.")

    from locant.files import open_output
    from locant.streams import is_stream
    from locant.translation.lines import arriving_windows, check_lines, read_windows

    overrides = search_overrides(options, n_best=options.n_best)
    if options.input and not is_stream(options.input):
        check_lines(options.input)  # before any work
    translator = load(options)
    faults = _Faults()
    done = 0
    with open_output(options.output) as out:
        if options.text:
            chunks = iter([options.text])
        elif options.input and not is_stream(options.input):
            chunks = faults.texts(read_windows(options.input))
        else:
            raw = options.input.open("rb", buffering=0) if options.input else _unbuffered_input()
            chunks = faults.texts(arriving_windows(raw, str(options.input or "standard input")))
        # What is too long is empty for the translator: here it is an error when all others are translated.
        on_long: OnLong = "split" if options.on_long == "split" else "empty"
        for chunk in translator.translate_chunks(chunks, on_long=on_long, say=faults.too_long, **overrides):
            for number, found in enumerate(chunk, start=done + 1):
                if options.n_best:
                    for translation in found:
                        print(number, f"{translation.score:.4f}", translation.text, sep="\t", file=out)
                else:
                    print(found[0].text, file=out)
            done += len(chunk)
            out.flush()
    return 1 if faults.unreadable or (faults.long and options.on_long == "error") else 0


class _Faults:
    """Lines that are not translated as they are: each is told on standard error, in its turn."""

    def __init__(self) -> None:
        self.long = self.unreadable = 0

    def too_long(self, sentence: str) -> None:
        """Tell of a line with too many tokens."""
        self.long += 1
        print(f"locant: {sentence}", file=sys.stderr)

    def texts(self, windows: Iterator[list[Line]]) -> Iterator[list[str]]:
        """Yield the texts of windows, and tell of lines that could not be read."""
        for window in windows:
            for line in window:
                if line.fault:
                    self.unreadable += 1
                    print(f"locant: {line.fault}", file=sys.stderr)
            yield [line.text for line in window]


def _unbuffered_input() -> IO[bytes]:
    """Return standard input so that reading from it returns what there is."""
    raw: IO[bytes] = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    return raw
