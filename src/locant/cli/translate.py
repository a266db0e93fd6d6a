"""``locant translate``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.cli.arguments import add_output, parse_names
from locant.cli.translator_options import (
    GLOSSARY,
    add_sampling_options,
    add_translator_options,
    load,
    search_overrides,
)
from locant.errors import DataError, UsageError

if TYPE_CHECKING:
    from locant.translation.glossary import Glossary
    from locant.translation.hypotheses import Translation
    from locant.translation.lines import Line, OnLong
    from locant.translation.translator import Translator

_EPILOG = """examples:
  locant translate runs/en-de "A man is riding a horse." "Two dogs play."
  locant translate runs/en-de --input book.en --output book.de
  cat book.en | locant translate runs/en-de --beam 1 > book.de
  locant translate runs/en-de --alignments "Two dogs play."
  locant translate runs/en-de --compute-type int8 --input book.en --output book.de
  locant translate runs/en-de --input report.docx --output report.de.docx
  locant translate runs/en-de --glossary terms.tsv --input report.docx --output report.de.docx

A document is translated sentence by sentence, and all that is not text in it stays: Markdown, HTML, SubRip, WebVTT,
JSON, PO, XLIFF, .docx and .odt by the name of the file, plain text with --format text. Other files with a structure,
such as .yml and .csv, are refused unless --format lines is given.

Of other files, every line has its translation on a line of its own. Lines of standard input are translated as they
come. With --on-long error (the default) a line that is too long gets an empty line in its place and a message on
standard error, all others are translated, and the exit code is 1; with empty it is 0; with split the line is translated
in parts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, standard input is read")
    parser.add_argument("--input", "-i", type=Path, metavar="FILE", help="translate this file, line by line (.gz too)")
    add_output(parser, "FILE", "write here (a pipe too) instead of standard output")
    add = parser.add_argument
    what = "lines, text, markdown, html, srt, vtt, json, po, xliff, docx or odt; by default by the name"
    add("--format", metavar="NAME", help=what)
    what = "of JSON, translate only values of these keys; a.b is b within a"
    add("--json-keys", metavar="KEY,...", type=parse_names, default=(), help=what)
    add("--wrapped", action="store_true", help="of a text: its sentences go over line breaks")
    add("--n-best", type=int, metavar="N", help="print N translations: line number, score, text")
    what = "print after a tab which source word each word comes from: 0-0 1-2"
    add("--alignments", action="store_true", help=what)
    add("--glossary", metavar="FILE", help=f"{GLOSSARY}; .csv has commas")
    add("--on-long", choices=("error", "split", "empty"), help="of lines that are too long; see below")
    add_translator_options(parser)
    add_sampling_options(parser)


def run(options: argparse.Namespace) -> int:
    """Translate."""
    if options.text and options.input:
        raise UsageError("Give sentences as arguments or a file with --input, not both.")
    if options.input and not options.input.exists():
        raise DataError(f"The input file {options.input} does not exist.")
    if options.input and options.input.is_dir():
        raise UsageError(f"{options.input} is a folder; --input takes a file.")
    if kind := _format(options):
        return _translate_document(options, kind)

    from locant.cli.console import WorkBar
    from locant.files import is_stream, open_output
    from locant.translation.lines import arriving_windows, read_windows

    overrides = search_overrides(options, n_best=options.n_best)
    glossary = _glossary(options)
    is_file = options.input is not None and not is_stream(options.input)
    lines = sum(map(len, read_windows(options.input))) if is_file else 0  # what is wrong in it is told before any work
    translator = load(options)
    faults = _Faults()
    done = 0
    shows = is_file and options.output is not None  # a bar would be among lines that go to the terminal
    with open_output(options.output) as out, WorkBar() as bar:
        if options.text:
            chunks = iter([options.text])
        elif is_file:
            chunks = faults.texts(read_windows(options.input))
        else:
            raw = options.input.open("rb", buffering=0) if options.input else sys.stdin.buffer
            raw = getattr(raw, "raw", raw)  # from which reading returns what there is
            chunks = faults.texts(arriving_windows(raw, str(options.input or "standard input")))
        # What is too long is empty for the translator: here it is an error when all others are translated.
        on_long: OnLong = "split" if options.on_long == "split" else "empty"
        chunks, copies = tee(chunks)
        if shows:
            bar.show(0.0)
        translated = translator.translate_chunks(
            chunks, on_long=on_long, say=faults.too_long, glossary=glossary, **overrides
        )
        for chunk, sources in zip(translated, copies, strict=True):
            wanted = [found if options.n_best else found[:1] for found in chunk]
            links = _links(translator, sources, wanted, overrides) if options.alignments else None
            for number, found in enumerate(wanted, start=done + 1):
                for translation in found:
                    row = [str(number), f"{translation.score:.4f}"] if options.n_best else []
                    print(*row, translation.text, *([next(links)] if links else []), sep="\t", file=out)
            done += len(chunk)
            out.flush()
            if shows:
                bar.show(done / lines, f"{done:,} of {lines:,} lines")
    return 1 if faults.unreadable or (faults.long and options.on_long in (None, "error")) else 0


def _format(options: argparse.Namespace) -> str | None:
    """Return the format of the document that is to be translated; ``None`` for lines."""
    from locant.documents import find_format, format_of
    from locant.documents.formats import check_lines_of

    if options.format == "lines":
        kind = None
    elif options.format:
        kind = find_format(options.format)
    else:
        # A name that says no more than that it is text leaves it to be lines, as ever.
        found = format_of(options.input) if options.input else None
        if options.input and found is None:
            check_lines_of(options.input)
        kind = None if found is None or found.name == "text" else found
    given = {
        "--json-keys goes with documents in JSON.": options.json_keys and (kind is None or kind.name != "json"),
        "--wrapped goes with --format text.": options.wrapped and (kind is None or kind.name != "text"),
        "Documents come from --input or standard input; arguments are lines.": kind and options.text,
        "--n-best goes with lines; a document has one translation.": kind and options.n_best,
        "--alignments goes with lines.": kind and options.alignments,
        "--on-long goes with lines; sentences of documents are cut where they are too long.": kind and options.on_long,
    }
    for sentence, is_wrong in given.items():
        if is_wrong:
            raise UsageError(sentence)
    return kind.name if kind else None


def _glossary(options: argparse.Namespace) -> Glossary | None:
    from locant.translation.glossary import Glossary

    return Glossary.read(options.glossary) if options.glossary else None


def _translate_document(options: argparse.Namespace, kind: str) -> int:
    from locant.cli.console import WorkBar
    from locant.documents import DocumentOptions, open_documents, write_documents

    reading = DocumentOptions(keys=options.json_keys, wrapped=options.wrapped)
    overrides, glossary = search_overrides(options), _glossary(options)
    with open_documents(options.input, kind, reading) as documents:  # before any work
        translator = load(options)
        with WorkBar("translating"):
            write_documents(translator, documents, options.output, glossary=glossary, **overrides)
    return 0


def _links(
    translator: Translator, sources: list[str], chunk: list[list[Translation]], overrides: dict[str, Any]
) -> Iterator[str]:
    """Return the links of each translation of a chunk; those of a line that was too long are none."""
    of_each = [source for source, found in zip(sources, chunk, strict=True) for _ in found]
    texts = [translation.text for found in chunk for translation in found]
    found_links = translator.align(of_each, texts, say=lambda sentence: None, **overrides)
    return (alignment.pharaoh for alignment in found_links)


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
