"""The options of every command that translates."""

from __future__ import annotations

import argparse
import gc
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from locant.translation.translator import Translator


def add_translator_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the search and of the engine."""
    parser.add_argument("--beam", type=int, metavar="K", help="hypotheses kept for each sentence; 1 is greedy")
    parser.add_argument("--length-penalty", type=float, metavar="ALPHA", help="exponent (Wu et al. 2016, eq. 14)")
    for side in ("source", "target"):
        text = f"{side} language of a model for several, in its own codes"
        parser.add_argument(f"--{side}-language", metavar="CODE", help=text)
    parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu or cuda")
    parser.add_argument(
        "--engine",
        metavar="NAME",
        default="auto",
        help="pytorch, compiled, ctranslate2 or auto, the default, which takes the fastest that can run the model",
    )
    types = "float32 (default), bfloat16 or int8; of ctranslate2 also others"
    parser.add_argument("--compute-type", metavar="TYPE", help=types)


def load(options: argparse.Namespace) -> Translator:
    """Return the translator that the options ask for.

    Standard error says which engine was chosen where it is not the first choice, or a type of numbers was asked for.
    """
    # What is imported stays: looking for garbage in it takes a quarter of the time of importing torch.
    gc.disable()
    try:
        from locant.runtime import keep_freed_memory
        from locant.translation.translator import load_translator
    finally:
        gc.freeze()
        gc.enable()
    keep_freed_memory()
    translator, engine = load_translator(
        options.model, engine=options.engine, device=options.device, compute_type=options.compute_type
    )
    if options.source_language or options.target_language or translator.tokenizers.languages:
        translator.choose_languages(options.source_language, options.target_language)
    if options.engine == "auto" and (options.compute_type or "because" in engine):
        print(f"Engine: {engine}", file=sys.stderr)
    return translator


def search_overrides(options: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """Return the decoding settings that the options change; ``more`` are those of one command."""
    changes = {"beam": options.beam, "length_penalty": options.length_penalty, **more}
    return {key: value for key, value in changes.items() if value is not None}
