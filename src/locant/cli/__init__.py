"""The command line. Each command is a module with ``add_arguments`` and ``run``; heavy imports wait for ``run``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from locant.cli.messages import messages_on_stderr, printable
from locant.errors import LocantError, StoppedError, UsageError, nearest
from locant.runtime import lacking_memory, prepare_threads
from locant.signals import INTERRUPTED, end_by_sigterm, ending_imports
from locant.version import __version__

COMMANDS = {
    "train": "train a translator on parallel text",
    "translate": "translate arguments, a file or standard input",
    "generate": "translate monolingual text into a corpus to train on: back-translation, distillation",
    "evaluate": "measure BLEU and chrF on a test set",
    "serve": "serve translations over HTTP, with the interface of LibreTranslate",
    "report": "write a web page about a run",
    "export": "write a model for Hugging Face, CTranslate2 or ONNX",
    "import": "make a model folder of a Marian (OPUS-MT), M2M-100 or NLLB model",
    "recipes": "list the built-in recipes",
    "corpora": "list the texts of the built-in corpus",
    "compare": "compare positional schemes on a task",
    "figures": "draw positional schemes",
    "explore": "show positional schemes, and a trained model, on a local web page with knobs",
    "extend": "extend the context of an existing model with rotary positions",
    "convert-layout": "permute queries and keys of a checkpoint from one rotary layout to the other",
    "inspect": "say what the rotary positions of a model mean and what is wrong with them",
    "evaluate-context": "measure how far a language model reads: perplexity and retrieval by length",
    "positions": "list the positional schemes and what they can do, or describe one",
    "info": "print versions, processor, devices, kernels and cache folder, as a bug report needs them",
}

_LESS_MEMORY = {
    "the GPU": "Take smaller batches, shorter texts or a smaller model, or another device (--device cpu).",
    "this machine": "Take smaller batches, shorter texts or a smaller model.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _open_closed_streams()
    _write_anything()
    try:
        _require_text(arguments)
        name = arguments[0] if arguments else ""
        if name in COMMANDS:
            end_by_sigterm()
            prepare_threads()
            options = command_parser(name).parse_intermixed_args(arguments[1:])
            with messages_on_stderr(), ending_imports():
                return _command(name).run(options) or 0
        if name and not name.startswith("-"):
            raise UsageError(f"Unknown command '{name}'.{nearest(name, COMMANDS)} `locant --help` lists the commands.")
        _all_commands().parse_args(arguments)  # shows help or version, or refuses
        _all_commands().print_help()
        return 2
    except LocantError as error:
        said, code = f"{'' if isinstance(error, StoppedError) else 'error: '}{error}", error.exit_code
    except MemoryError as error:
        said, code = f"error: {str(error) or 'There is not enough memory.'}", 1
    except RuntimeError as error:
        whose = lacking_memory(error)
        if not whose:
            raise
        said, code = f"error: The memory of {whose} does not suffice. {_LESS_MEMORY[whose]}", 1
    except KeyboardInterrupt as error:
        print(file=sys.stderr)  # below the sign of the terminal
        said, code = f"interrupted. {error}".rstrip(), INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`locant translate ... | head`); nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # What may not be looked at or cannot be a name: every path that a user gives may be one of these.
        named = f"{error.filename} cannot be used: " if error.filename else ""
        said, code = f"error: {named}{error.strerror or error}.", 1
    print(printable(f"locant: {said}"), file=sys.stderr)
    return code


def _open_closed_streams() -> None:
    """Open nothing in place of standard streams that are closed: no file opened later may have their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - for the rest of the program
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _write_anything() -> None:
    """Let output be written in any encoding: characters that it lacks are written as their numbers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _require_text(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument that is no text, which Python hands on with halves of characters in it."""
    for number, argument in enumerate(arguments, start=1):
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(
                f"Argument {number} is not valid UTF-8: {argument!a}. Write text in UTF-8, and rename a file whose "
                "name is not."
            ) from None


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command's arguments, which may be before, between and after its options."""
    parser = argparse.ArgumentParser(
        prog=f"locant {name}",
        description=f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # examples keep their lines
    )
    _command(name).add_arguments(parser)
    return parser


def _all_commands() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="locant", description="Word order for Transformers: train, evaluate and translate."
    )
    parser.add_argument("--version", action="version", version=f"locant {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser


def _command(name: str):  # type: ignore[no-untyped-def]  # a module
    return import_module(f"locant.cli.{name.replace('-', '_')}")
