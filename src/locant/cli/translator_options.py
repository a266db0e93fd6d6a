"""The options of every command that translates."""

from __future__ import annotations

import argparse
import gc
import sys
from typing import TYPE_CHECKING, Any

from locant.cli.arguments import add_device
from locant.errors import UsageError

if TYPE_CHECKING:
    from locant.translation.translator import Translator

GLOSSARY = "terms that translations must have: term, tab, translation; a term alone stays as it is"


def add_translator_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the search and of the engine."""
    parser.add_argument("--beam", type=int, metavar="K", help="hypotheses kept for each sentence; 1 is greedy")
    parser.add_argument("--length-penalty", type=float, metavar="ALPHA", help="exponent (Wu et al. 2016, eq. 14)")
    parser.add_argument("--batch-tokens", type=int, metavar="N", help="source tokens of a batch, times the beam")
    for side in ("source", "target"):
        text = f"{side} language of a model for several, or of one that does not know its own"
        parser.add_argument(f"--{side}-language", metavar="CODE", help=text)
    add_engine_options(parser)


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the engine."""
    add_device(parser)
    what = "pytorch, compiled, ctranslate2 or auto, the default, which takes the fastest that can run the model"
    parser.add_argument("--engine", metavar="NAME", default="auto", help=what)
    types = "float32 (default), bfloat16 or int8; of ctranslate2 also others"
    parser.add_argument("--compute-type", metavar="TYPE", help=types)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of sampling, of commands that write translations."""
    group = parser.add_argument_group("sampling (Edunov et al. 2018)")
    group.add_argument("--sampling", action="store_true", help="draw translations at random instead of searching")
    group.add_argument("--temperature", type=float, metavar="T", help="what logits are divided by; 1 by default")
    group.add_argument("--top-k", type=int, metavar="K", help="draw among the K most probable tokens; default all")
    group.add_argument("--seed", type=int, metavar="N", help="decides what is drawn; 1 by default")


def load(options: argparse.Namespace, *, choose: bool = True) -> Translator:
    """Return the translator that the options ask for.

    A model for several languages is told its languages unless ``choose`` is false.

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
    if choose and (options.source_language or options.target_language or translator.tokenizers.languages):
        translator.choose_languages(options.source_language, options.target_language)
    if options.engine == "auto" and (options.compute_type or "because" in engine):
        print(f"Engine: {engine}", file=sys.stderr)
    return translator


def search_overrides(options: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """Return the decoding settings that the options change; ``more`` are those of one command.

    Raises:
        UsageError: Options of sampling are given without it, or a beam is given with it.
    """

    def given_of(*names: str) -> dict[str, Any]:
        return {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}

    given = given_of("beam", "length_penalty", "batch_tokens")
    given |= {key: value for key, value in more.items() if value is not None}
    sampling = given_of("temperature", "top_k", "seed")
    if getattr(options, "sampling", False):
        if options.beam is not None:
            raise UsageError("--sampling draws translations and --beam searches for the best; give one of them.")
        given["sampling"] = sampling
    elif sampling:
        raise UsageError("--temperature, --top-k and --seed go with --sampling.")
    return given
