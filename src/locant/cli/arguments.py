"""Arguments of several commands, and values that they take: lengths in tokens, lists separated by commas."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from locant.errors import UsageError


def add_output(parser: argparse.ArgumentParser, metavar: str, help: str, **more: Any) -> None:
    """Declare ``--output``, a path that is written."""
    parser.add_argument("--output", "-o", type=Path, metavar=metavar, help=help, **more)


def add_device(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Declare ``--device``; ``of`` says of what, for the help."""
    parser.add_argument("--device", default="auto", metavar="NAME", help=f"{of}auto, cpu or cuda")


def add_json(parser: argparse.ArgumentParser, what: str = "everything") -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def require_both(options: argparse.Namespace) -> None:
    """Raise UsageError where one of ``--source`` and ``--target`` is given without the other."""
    if bool(options.source) != bool(options.target):
        raise UsageError("--source and --target go together: one file each, with as many lines.")


def parse_length(text: str) -> int:
    """Return a length in tokens; ``8k`` is 8192.

    Raises:
        UsageError: It is none.
    """
    found = re.fullmatch(r"(\d{1,9})(k?)", text.strip().lower())
    if not found or int(found[1]) < 1:
        raise UsageError(f"'{text}' is no length in tokens. Write 8192 or 8k, for instance.")
    return int(found[1]) * (1024 if found[2] else 1)


def parse_lengths(text: str) -> tuple[int, ...]:
    """Return lengths in tokens that commas separate, in increasing order, each once; ``2k,4k`` is ``(2048, 4096)``.

    Raises:
        UsageError: One of them is none.
    """
    return tuple(sorted({parse_length(part) for part in text.split(",")}))


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names that commas separate, in their order, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
