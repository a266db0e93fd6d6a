"""``locant explore``."""

from __future__ import annotations

import argparse
from pathlib import Path

from locant.cli.arguments import add_device

_EPILOG = """examples:
  locant explore
  locant explore runs/en-de              (a model of your own in the place of the small one)
  locant explore --save explorer.html    (all pages as one file, which needs no server; with RUN its model is in it)

The page is for this machine alone unless --host says otherwise; there is no password."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="folder of a run or of a saved model")
    parser.add_argument("--port", type=int, default=8050, metavar="N", help="port (default 8050); 0 for any free one")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default 127.0.0.1)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the pages as one HTML file instead")
    add_device(parser, "of the model: ")


def run(options: argparse.Namespace) -> None:
    """Serve the explorer until it is interrupted, or write it."""
    from locant.app.explore import open_server, save_page
    from locant.cli.console import WorkBar

    if options.save is not None:
        with WorkBar("writing the pages"):
            save_page(options.save, options.run)
        print(f"Wrote {options.save}.")
        return
    with open_server(options.run, host=options.host, port=options.port, device=options.device) as server:
        shown = f"[{options.host}]" if ":" in options.host else options.host
        print(f"The explorer is at http://{shown}:{server.server_port}/ (Ctrl-C ends it).", flush=True)
        server.serve_forever()
