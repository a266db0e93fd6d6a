"""``locant positions``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import DataError, UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from locant.analysis.properties import Property
    from locant.figures.errata import NumberFinding

_EPILOG = """examples:
  locant positions
  locant positions rotary
  locant positions --json | jq '.sinusoidal.properties'
  locant positions --identify numbers.txt          (an array as text, or in a .npy file)
  python listing.py | locant positions --identify -"""

_HEADINGS = ("unique", "even", "extends", "bounded", "fixed")
_LEGEND = """unique: every position has a code of its own. even: a distance is the same wherever it stands, and whatever
length is declared. extends: defined at any position (not: that a trained model reads longer texts well). bounded:
values do not grow with the text. fixed: two passes agree."""
_COLOURS = {"yes": "green", "no": "red", "partly": "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("name", nargs="?", metavar="NAME", help="scheme to describe; all are listed without one")
    parser.add_argument(
        "--identify",
        metavar="FILE",
        help="say which formula gave an array in a text or .npy file (- for standard input), and name known errors",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """List the positional schemes, describe one, or identify numbers."""
    if options.identify is not None:
        if options.name is not None:
            raise UsageError("--identify is about the numbers in a file; leave out the name of a scheme.")
        _print_finding(_finding(options.identify), as_json=options.json)
        return 0
    from locant.positions import SCHEMES
    from locant.positions.registry import scheme_name

    names = [scheme_name(options.name)] if options.name else list(SCHEMES)
    described = {name: _describe(name) for name in names}
    if options.json:
        import json

        print(json.dumps({name: _as_data(description) for name, description in described.items()}, indent=2))
    elif options.name:
        _print_one(names[0], described[names[0]])
    else:
        _print_all(described)
    return 0


_LARGEST = 16 * 2**20  # bytes of a text


def _finding(source: str) -> NumberFinding:
    """Return what the numbers in a file, or from standard input, are."""
    from locant.figures.errata import identify_array, identify_text

    path = Path(source)
    if source != "-" and not path.is_file():
        raise UsageError(f"There is no file {source}. Give an array as text, a .npy file, or - for input.")
    where = "Standard input" if source == "-" else source
    if path.suffix == ".npy":
        import numpy as np
        import torch

        try:
            return identify_array(torch.tensor(np.load(path, allow_pickle=False)))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{source} is not an array of numbers: {error}") from error
    content = sys.stdin.buffer.read(_LARGEST + 1) if source == "-" else path.read_bytes()
    if len(content) > _LARGEST:
        raise DataError(f"{where} is larger than {_LARGEST // 2**20} MiB; give a .npy file.")
    try:
        return identify_text(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} is not text in UTF-8 (byte {error.start:,}); arrays are read from .npy files."
        ) from error
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def _print_finding(finding: NumberFinding, *, as_json: bool) -> None:
    import dataclasses
    import json

    if as_json:
        print(json.dumps(dataclasses.asdict(finding), indent=2, ensure_ascii=False))
        return
    keys = f" ({', '.join(key.upper() for key in finding.errata)})" if finding.errata else ""
    print(f"{'WRONG ' if finding.wrong else ''}{finding.said}{keys}.")
    if finding.errata:
        from locant.figures.errata import get_erratum

        print()
        for entry in map(get_erratum, finding.errata):
            print(f"{entry.number}: {entry.title}. Source: {entry.source}.")
        print("All errata with their values: locant figures errata -o FOLDER, or docs/errata.md.")


def _describe(name: str) -> dict[str, Any]:
    """Return all that is known about a scheme by name."""
    import inspect

    from locant.analysis.properties import DEFAULT_SHAPE, Probe, check_properties
    from locant.positions import SCHEMES
    from locant.positions.registry import option_defaults

    documentation = inspect.getdoc(SCHEMES[name]) or ""
    return {
        "places": list(Probe(name, DEFAULT_SHAPE).places),
        "properties": check_properties(name),
        "paper": SCHEMES[name].paper,
        "options": option_defaults(SCHEMES[name]),
        "documentation": documentation,
    }


def _as_data(description: dict[str, Any]) -> dict[str, Any]:
    import dataclasses

    properties = [dataclasses.asdict(entry) for entry in description["properties"]]
    options = {name: _plain(default) for name, default in description["options"].items()}
    return {**description, "properties": properties, "options": options}


def _plain(default: Any) -> Any:
    """Return a default as JSON can say it."""
    if default is None or isinstance(default, bool | int | float | str):
        return default
    return [_plain(item) for item in default] if isinstance(default, list | tuple) else str(default)


def _print_all(described: dict[str, dict[str, Any]]) -> None:
    from locant.cli.console import PlainConsole, print_table

    console = PlainConsole()
    rows: list[list[str | Text]] = [
        [name, "\n".join(each["places"]) or "nothing", *map(_verdict, each["properties"])]
        for name, each in described.items()
    ]
    print_table(console, ("scheme", "acts on", *_HEADINGS), rows)
    console.print(" ".join(_LEGEND.split()))
    sources = ((name, each["paper"], ", ".join(each["options"])) for name, each in described.items())
    print_table(console, ("scheme", "literature", "options"), sources)
    console.print("More about one: locant positions NAME")


def _print_one(name: str, description: dict[str, Any]) -> None:
    from locant.cli.console import PlainConsole, print_table

    console = PlainConsole()
    console.print(f"{name}, acts on {' and '.join(description['places']) or 'nothing'}\n", style="bold")
    console.print(description["documentation"])
    if description["options"]:
        console.print()
        print_table(
            console,
            ("option", "default"),
            ((name, str(value)) for name, value in description["options"].items()),
            ruled=False,
        )
    console.print()
    rows = (
        (entry.name, _verdict(entry), entry.reason, f"{_number(entry.measured)} {entry.unit}")
        for entry in description["properties"]
    )
    print_table(console, ("property", "", "reason", "measured"), rows, ruled=False)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def _verdict(entry: Property) -> Text:
    from rich.text import Text

    return Text(entry.verdict, style=_COLOURS[entry.verdict])
