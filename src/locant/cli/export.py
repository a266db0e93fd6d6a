"""``locant export``."""

from __future__ import annotations

import argparse
from pathlib import Path

from locant.errors import UsageError

_EPILOG = """examples:
  locant export runs/en-de --to huggingface --output en-de-marian
  locant export runs/en-de --to ctranslate2 --output en-de-ct2 --quantization int8
  locant export runs/en-de --to onnx --output en-de-onnx"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("model", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    targets = ("huggingface", "ctranslate2", "onnx")
    parser.add_argument("--to", required=True, choices=targets, help="what shall load it")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FOLDER", help="new folder to write")
    parser.add_argument("--quantization", metavar="TYPE", help="ctranslate2 only: int8, int16, float16, ...")


def run(options: argparse.Namespace) -> int:
    """Export a model."""
    if options.quantization and options.to != "ctranslate2":
        raise UsageError("--quantization goes with --to ctranslate2 only.")

    from locant.interop import export_ctranslate2, export_huggingface, export_onnx

    if options.to == "huggingface":
        notes = export_huggingface(options.model, options.output)
    elif options.to == "onnx":
        notes = export_onnx(options.model, options.output)
    else:
        notes = export_ctranslate2(options.model, options.output, quantization=options.quantization)
    print(f"{options.output} is written.", *notes, sep="\n")
    return 0
