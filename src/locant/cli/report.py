"""``locant report``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from locant.cli.arguments import add_output

_EPILOG = """example:
  locant report runs/bible --output bible.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    add_output(parser, "FILE", "the page; by default RUN/report.html")
    parser.add_argument("--examples", type=int, default=8, metavar="N", help="held-out sentences to show (default 8)")


def run(options: argparse.Namespace) -> None:
    """Write the page."""
    from locant.app import write_run_report
    from locant.files import is_stream

    written = write_run_report(options.run, options.output, examples=options.examples)
    # The page itself may go to standard output.
    print(f"Wrote {written}.", file=sys.stderr if is_stream(written) else sys.stdout)
