"""``locant export``."""

from __future__ import annotations

import argparse
from pathlib import Path

from locant.cli.arguments import add_output
from locant.errors import UsageError

_EPILOG = """examples:
  locant export runs/en-de --to huggingface --output en-de-marian
  locant export runs/en-de --to ctranslate2 --output en-de-ct2 --quantization int8
  locant export runs/en-de --to argos                       (writes en-de.argosmodel)
  locant export runs/en-de --to onnx --output en-de-onnx
  locant export runs/en-de --to web --output en-de-web"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    targets = ("huggingface", "ctranslate2", "argos", "onnx", "web")
    text = "what should load it; argos is Argos Translate and LibreTranslate, web a page that translates in any browser"
    parser.add_argument("--to", required=True, choices=targets, help=text)
    add_output(parser, "PATH", "new folder (default: NAME-FORMAT, after RUN); with --to argos a file, NAME.argosmodel")
    parser.add_argument("--quantization", metavar="TYPE", help="ctranslate2 and argos only: int8, int16, float16, ...")
    for side in ("source", "target"):
        text = f"argos only: the {side} language's ISO 639 code, where it is not the model's own"
        parser.add_argument(f"--{side}-language", metavar="CODE", help=text)
    text = "argos only: what cuts text into sentences, a folder of Stanza or an .onnx of MiniSBD; else it is fetched"
    parser.add_argument("--sentences", type=Path, metavar="PATH", help=text)


def run(options: argparse.Namespace) -> None:
    """Export a model."""
    if options.quantization and options.to not in ("ctranslate2", "argos"):
        raise UsageError("--quantization goes with --to ctranslate2 and --to argos only.")
    of_argos = {name: getattr(options, name) for name in ("source_language", "target_language", "sentences")}
    given = [f"--{name.replace('_', '-')}" for name, value in of_argos.items() if value is not None]
    if given and options.to != "argos":
        raise UsageError(f"{given[0]} goes with --to argos only.")
    if options.output is None:
        name = options.model.resolve().name
        options.output = Path(f"{name}.argosmodel" if options.to == "argos" else f"{name}-{options.to}")

    from locant import app, interop
    from locant.cli.console import WorkBar

    export = getattr(app if options.to == "web" else interop, f"export_{options.to}")
    more = {"quantization": options.quantization} if options.to in ("ctranslate2", "argos") else {}
    with WorkBar(f"exporting to {options.to}"):
        notes = export(options.model, options.output, **more, **(of_argos if options.to == "argos" else {}))
    print(f"{options.output} is written.", *notes, sep="\n")
