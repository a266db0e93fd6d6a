"""``locant explore``."""

from __future__ import annotations

import argparse
from pathlib import Path

_EPILOG = """examples:
  locant explore
  locant explore runs/en-de              (also a page that translates, and shows the attention)
  locant explore --port 8060

The page is for this machine alone unless --host says otherwise; there is no password."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    parser.add_argument("--port", type=int, default=8050, metavar="N", help="port (default 8050); 0 for any free one")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default 127.0.0.1)")
    parser.add_argument("--device", default="auto", metavar="NAME", help="of the model: auto, cpu or cuda")


def run(options: argparse.Namespace) -> int:
    """Serve the explorer until it is interrupted."""
    from locant.app.explorer import serve

    serve(options.run, host=options.host, port=options.port, device=options.device, ready=_announce)
    return 0


def _announce(address: str) -> None:
    print(f"The explorer is at {address} (Ctrl-C ends it).", flush=True)
