"""``locant convert-layout``."""

from __future__ import annotations

import argparse
from functools import partial

from locant.cli.arguments import add_json, add_output

_EPILOG = """examples:
  locant convert-layout models/llama --to interleaved -o models/llama-interleaved
  locant convert-layout models/deepseek-v3 --to half -o models/deepseek-v3-half
  locant convert-layout models/llama-interleaved --to half -o models/llama-again

half pairs feature i of a head with i + n/2, as GPT-NeoX and Llama do in transformers; interleaved pairs 2i with 2i + 1,
as the paper, GPT-J and Llama as published do. No number changes; converting back gives the same weights, byte for
byte."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="folder of transformers, or id on Hugging Face's Hub")
    what = "layout that the weights should have"
    parser.add_argument("--to", required=True, choices=("half", "interleaved"), help=what)
    add_output(parser, "FOLDER", "new folder to write", required=True)
    add_json(parser, "the report")


def run(options: argparse.Namespace) -> None:
    """Convert a checkpoint and say what was done."""
    from locant.cli.console import WorkBar
    from locant.extension.layouts.convert import convert_layout

    with WorkBar("asking the model's class") as bar:
        show = partial(bar.show, lines=False)
        converted = convert_layout(options.model, options.output, options.to, on_progress=show)
    if options.json:
        import json

        print(json.dumps({"path": str(converted.path)} | converted.report.as_data(), indent=2))
    else:
        print(f"{converted.path} is written.")
        for sentence in converted.report.sentences():
            print(sentence)
