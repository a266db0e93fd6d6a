"""``locant import``."""  # noqa: N999

from __future__ import annotations

import argparse
from pathlib import Path

from locant.cli.arguments import add_output

_EPILOG = """examples:
  locant import opus-mt-en-de --output runs/opus-en-de
  locant translate runs/opus-en-de "Two dogs play."
  locant import translate-en_es-1_0.argosmodel --output runs/argos-en-es
  locant import m2m100_418M --output runs/m2m100
  locant translate runs/m2m100 --source-language en --target-language de "Two dogs play." """


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    what = "folder of a Marian, M2M-100 or NLLB model in Hugging Face's format, or a package of Argos Translate"
    parser.add_argument("folder", type=Path, metavar="MODEL", help=what)
    add_output(parser, "RUN", "new folder (default: runs/NAME)")


def run(options: argparse.Namespace) -> None:
    """Import a model."""
    from locant.cli.console import WorkBar
    from locant.interop import import_model

    output = options.output or Path("runs", options.folder.resolve().stem)
    with WorkBar("importing"):
        notes = import_model(options.folder, output)
    print(f"{output} is written.", *notes, sep="\n")
