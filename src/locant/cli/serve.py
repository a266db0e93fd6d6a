"""``locant serve``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.cli.translator_options import GLOSSARY, add_engine_options
from locant.languages import require_language
from locant.lazy import package_folder

if TYPE_CHECKING:
    from locant.server.settings import ServerSettings

_EPILOG = """examples:
  locant serve runs/de-en
  locant serve runs/de-en runs/en-de --port 8080 --workers 4
  locant serve runs/de-en runs/en-de --glossary de-en=terms.tsv
  locant serve de-en=runs/mine --host 0.0.0.0 --keys keys.txt --requests-per-minute 60

Clients of LibreTranslate work with it. SIGTERM finishes what is there, a second one ends at once; SIGHUP reads the
models, the keys and the glossaries again. The environment variable LOCANT_API_KEYS holds API keys, too."""

# Options that are limits by the same name, and their help.
_LIMITS = {
    "characters": "most characters of a request",
    "texts": "most texts of a request",
    "alternatives": "most alternatives to a translation",
    "file-bytes": "largest file to translate, and most characters of its text",
    "body-bytes": "largest body of a request",
    "requests-per-minute": "most requests of a key or address in a minute; any number by default",
    "waiting-requests": "most requests that wait for a model",
    "waiting-sentences": "most sentences that wait for a model",
    "connections": "most connections of a worker",
    "request-seconds": "longest time from a request to its translation",
    "waiting-seconds": "longest time until the translation of a request begins",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    what = "folder of a run or of a saved model; de-en=FOLDER names the languages of one that does not say them"
    parser.add_argument("model", nargs="+", metavar="MODEL", help=what)
    parser.add_argument("--host", metavar="ADDRESS", help="where to listen (default 127.0.0.1, this machine alone)")
    parser.add_argument("--port", type=int, metavar="N", help="port (default 5000); 0 for any free one")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that answer, each with the models")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="API keys, one a line, a name before it if you like")
    parser.add_argument("--cors", action="append", metavar="ORIGIN", help="let pages of this origin ask; '*' for all")
    what = "address or network whose X-Forwarded-For is true"
    parser.add_argument("--trusted-proxy", action="append", metavar="ADDRESS", help=what)
    parser.add_argument("--no-page", action="store_true", help="leave out the page to translate in")
    what = f"{GLOSSARY}; de-en=FILE for one direction of several"
    parser.add_argument("--glossary", action="append", metavar="FILE", help=what)
    parser.add_argument("--beam", type=int, metavar="K", help="hypotheses kept for each sentence; 1 is greedy")
    parser.add_argument("--rows", type=int, metavar="N", help="most hypotheses that a model extends at once")
    what = "language by way of which texts go where no model translates directly (default en; none for no such way)"
    parser.add_argument("--pivot", metavar="CODE", help=what)
    add_engine_options(parser)
    group = parser.add_argument_group("limits")
    for name, text in _LIMITS.items():
        kind, unit = (float, "S") if name.endswith("-seconds") else (int, "N")
        group.add_argument(f"--{name}", type=kind, metavar=unit, help=text)


def run(options: argparse.Namespace) -> None:
    """Serve until a signal ends it."""
    from functools import partial

    for package in ("starlette", "uvicorn", "httptools", "prometheus_client", "python_multipart", "sentencex", "babel"):
        package_folder(package, "The server")  # whose import takes long, and which workers need
    from locant.server.serving import serve

    serve(
        options.model,
        partial(_settings, options),
        engine=options.engine,
        device=options.device,
        compute_type=options.compute_type,
        ready=lambda address: print(f"The server is at {address} (Ctrl-C ends it).", flush=True),
    )


def _settings(options: argparse.Namespace) -> ServerSettings:
    from locant.server.settings import ServerSettings, read_keys

    glossaries = {}
    if options.glossary:  # else the process above the workers need not know what models are
        from locant.server.models import read_glossaries

        glossaries = read_glossaries(options.glossary)

    limits = [key.replace("-", "_") for key in _LIMITS]
    chosen: dict[str, Any] = {
        **{key: getattr(options, key) for key in ("host", "port", "workers", "rows", "beam")},
        "cors_origins": options.cors,
        "trusted_proxies": options.trusted_proxy,
        "limits": {key: getattr(options, key) for key in limits if getattr(options, key) is not None},
        "glossaries": glossaries,
        "page": not options.no_page,
        "keys": read_keys(options.keys, os.environ.get("LOCANT_API_KEYS")),
    }
    chosen = {key: value for key, value in chosen.items() if value is not None}
    if options.pivot is not None:
        require_language(options.pivot, "--pivot")
        chosen["pivot"] = None if options.pivot == "none" else options.pivot
    return ServerSettings.parse(chosen, "serve")
