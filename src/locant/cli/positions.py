"""``locant positions``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.cli.arguments import add_json
from locant.errors import DataError, UsageError
from locant.parsing import read_bounded, read_bytes

if TYPE_CHECKING:
    from locant.figures.errata import NumberFinding

_EPILOG = """examples:
  locant positions
  locant positions rotary
  locant positions --json | jq '.sinusoidal.properties'
  locant positions --identify numbers.txt          (an array as text, or in a .npy file)
  python listing.py | locant positions --identify -"""

_HEADINGS = ("unique", "even", "extends", "bounded", "fixed")
_LEGEND = """unique: every position has a code of its own. even: a distance is the same wherever it is, and whatever
length is declared. extends: defined at any position (not: that a trained model reads longer texts well). bounded:
values do not grow with the text. fixed: two passes agree."""
_LARGEST = 16_000_000  # bytes of a text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("name", nargs="?", metavar="NAME", help="scheme to describe; all are listed without one")
    what = "say which formula gave an array in a text or .npy file (- for standard input), and name known errors"
    parser.add_argument("--identify", metavar="FILE", help=what)
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """List the positional schemes, describe one, or identify numbers."""
    if options.identify is not None:
        if options.name is not None:
            raise UsageError("--identify is about the numbers in a file; leave out the name of a scheme.")
        _print_finding(_finding(options.identify), as_json=options.json)
        return
    from locant.cli.console import WorkBar
    from locant.positions import SCHEMES
    from locant.positions.registry import scheme_name

    names = [scheme_name(options.name)] if options.name else list(SCHEMES)
    described = {}
    with WorkBar("measuring" if len(names) > 1 else "") as bar:
        for number, name in enumerate(names, start=1):
            described[name] = _describe(name)
            if len(names) > 1:
                bar.show(number / len(names), name, lines=False)
    if options.json:
        import dataclasses
        import json

        for each in described.values():
            each["properties"] = [dataclasses.asdict(entry) for entry in each["properties"]]
        print(json.dumps(described, indent=2, default=str))
    elif options.name:
        _print_one(names[0], described[names[0]])
    else:
        _print_all(described)


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
    try:
        content = read_bounded(sys.stdin.buffer, _LARGEST) if source == "-" else read_bytes(path, _LARGEST)
        return identify_text(content.decode("utf-8"))
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} is not text in UTF-8 (byte {error.start:,}); arrays are read from .npy files."
        ) from error
    except ValueError as error:
        raise DataError(f"{where} cannot be read: {error}; give a .npy file.") from None


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
            print(f"{entry.key.upper()}: {entry.title}. Source: {entry.source}.")
        print("All errata with their values: locant figures errata -o FOLDER, or docs/errata.md.")


def _describe(name: str) -> dict[str, Any]:
    """Return all that is known about a scheme by name."""
    import inspect

    from locant.analysis.properties import DEFAULT_SHAPE, Probe, check_properties
    from locant.positions import SCHEMES
    from locant.positions.registry import option_defaults

    return {
        "places": list(Probe(name, DEFAULT_SHAPE).places),
        "properties": check_properties(name),
        "paper": SCHEMES[name].paper,
        "options": option_defaults(SCHEMES[name]),
        "documentation": inspect.getdoc(SCHEMES[name]) or "",
    }


def _print_all(described: dict[str, dict[str, Any]]) -> None:
    from locant.cli.console import PlainConsole, print_table

    console = PlainConsole()
    rows = [
        [name, "\n".join(each["places"]) or "nothing", *(entry.verdict for entry in each["properties"])]
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
        options = ((name, str(value)) for name, value in description["options"].items())
        print_table(console, ("option", "default"), options, ruled=False)
    console.print()
    rows = []
    for entry in description["properties"]:
        number = f"{entry.measured:{',.0f' if entry.measured == int(entry.measured) else '.3g'}}"
        rows.append((entry.name, entry.verdict, entry.reason, f"{number} {entry.unit}"))
    print_table(console, ("property", "", "reason", "measured"), rows, ruled=False)
