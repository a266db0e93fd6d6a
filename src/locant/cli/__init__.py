"""The command line. Each command is a module with ``add_arguments`` and ``run``; heavy imports wait for ``run``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from locant.errors import LocantError
from locant.version import __version__

COMMANDS = {
    "train": "train a translator on parallel text",
    "translate": "translate arguments, a file or standard input",
    "evaluate": "measure BLEU and chrF on a test set",
    "report": "write a web page about a run",
    "export": "write a model for Hugging Face, CTranslate2 or ONNX",
    "import": "make a model folder of a Marian (OPUS-MT), M2M-100 or NLLB model",
    "recipes": "list the built-in recipes",
    "corpora": "list the texts of the built-in corpus",
    "compare": "compare positional schemes on a task",
    "figures": "draw positional schemes",
    "explore": "show positional schemes, and a trained model, on a local web page with knobs",
    "extend": "extend the context of an existing model with rotary positions",
    "inspect": "say what the rotary positions of a model mean and what is wrong with them",
    "evaluate-context": "measure how far a language model reads: perplexity and retrieval by length",
    "positions": "list the positional schemes and what they can do, or describe one",
}

# What the commands call their positional arguments of any number.
_LISTS = ("text", "names", "settings", "words")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        parser = _parser(arguments)
        options, rest = parser.parse_known_args(arguments)
        if rest and not _take_rest(options, rest):
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        if not options.command:
            _parser([]).print_help()
            return 2
        return _command(options.command).run(options) or 0
    except LocantError as error:
        print(f"locant: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nlocant: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`locant translate ... | head`); nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _take_rest(options: argparse.Namespace, rest: list[str]) -> bool:
    """Give arguments that stand after options to the command's list of them; argparse takes only those before."""
    lists = [getattr(options, name) for name in _LISTS if isinstance(getattr(options, name, None), list)]
    if not lists or any(argument.startswith("-") for argument in rest):
        return False
    lists[0].extend(rest)
    return True


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="locant", description="Word order for Transformers: train, evaluate and translate."
    )
    parser.add_argument("--version", action="version", version=f"locant {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in arguments:
            _command(name).add_arguments(command)
    return parser


def _command(name: str):  # type: ignore[no-untyped-def]  # a module
    return import_module(f"locant.cli.{name.replace('-', '_')}")
