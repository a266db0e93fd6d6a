"""``locant figures``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from locant.cli.arguments import add_output
from locant.errors import UsageError

_EPILOG = """examples:
  locant figures --all -o figures
  locant figures heatmap --scheme binary --d-model 16 --length 32 -o figures
  locant figures heatmap --d-model 512 --length 128 -o figures --format pdf
  locant figures attention --run runs/bible --text "Thou hast spoken well." -o figures
  locant figures architecture --model norm=pre position=rotary -o figures
  locant figures --all --run runs/bible -o figures
  locant figures waves spectrum --slides -o slides
  locant figures errata -o figures                (errors that tutorials repeat, as a page; --format md for Markdown)
  locant figures                                  (lists the figures)"""

ERRATA = "errata"

_OPTIONS = ("scheme", "dialect", "d_model", "length", "base", "token", "run", "text", "stack", "layer")
_OF_A_RUN = ("run", "text")
_MOST_PROCESSES = 4  # each takes seconds to begin and half a gigabyte


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures to draw; without any they are listed")
    parser.add_argument(
        "--all", action="store_true", help="draw all, and the pages index.html, which explains them, and errata.html"
    )
    add_output(parser, "FOLDER", "where to write (default: figures)", default=Path("figures"))
    add = parser.add_argument
    add("--slides", action="store_true", help="write slides of 16 to 9 with letters of 24 points, a panel each")
    add("--format", metavar="NAME", help="png, svg or pdf (default png); of errata html or md")
    add("--scheme", metavar="NAME", help="scheme at the input embedding (default sinusoidal)")
    add("--dialect", metavar="NAME", help="of sinusoids: paper, concatenated or tensor2tensor")
    add("--d-model", type=int, metavar="N", help="width of the code")
    add("--length", type=int, metavar="N", help="number of positions")
    add("--base", type=float, metavar="X", help="base of the wavelengths (default 10000)")
    add("--token", type=int, metavar="N", help="position whose values are marked")
    add("--run", type=Path, metavar="FOLDER", help="run folder, for the figures of a trained model")
    add("--text", metavar="TEXT", help="sentence (attention, attention-steps) or words to show")
    add("--model", nargs="+", metavar="KEY=VALUE", help="fields of the model that architecture draws, as in norm=pre")
    add("--stack", metavar="NAME", help="encoder or decoder (attention-steps)")
    add("--layer", type=int, metavar="N", help="layer of the stack, from 1 (attention-steps)")


def run(options: argparse.Namespace) -> None:
    """Draw figures, or list them."""
    from locant.app import write_errata, write_gallery
    from locant.cli.console import WorkBar
    from locant.figures import write_figures
    from locant.positions.registry import scheme_name
    from locant.runtime import granted_cores
    from locant.training.recipe import apply_overrides

    given = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) is not None}
    if options.scheme:
        given["scheme"] = scheme_name(options.scheme)
    if options.model:
        given["model"] = apply_overrides({}, options.model)
    if not options.names and not options.all:
        _list()
        return
    if options.all and (options.names or set(given).difference(_OF_A_RUN)):
        raise UsageError("--all draws every figure as it is; leave out names and options of single figures.")
    if ERRATA in options.names:
        if options.names != [ERRATA] or given:
            raise UsageError("The errata are a page of their own; leave out names and options of figures.")
        with WorkBar("computing values"):
            write_errata(options.output, page_format=options.format or "html", wrote=_wrote)
        return
    image_format = options.format or "png"
    if options.all:
        with WorkBar() as bar:
            write_gallery(
                options.output,
                image_format=image_format,
                slides=options.slides,
                processes=min(granted_cores(), _MOST_PROCESSES),
                wrote=_wrote,
                left_out=lambda name, reason: print(f"Left out {name}: {reason}"),
                progress=lambda share, name: bar.show(share, name, lines=False),
                **{name: given.get(name) for name in _OF_A_RUN},
            )
    else:
        more: dict[str, Any] = {"image_format": image_format, "slides": options.slides}
        with WorkBar("drawing"):
            write_figures(options.names, options.output, options=given, wrote=_wrote, **more)


def _wrote(path: Path) -> None:
    print(f"Wrote {path}.", flush=True)


def _list() -> None:
    from locant.cli.console import PlainConsole, print_table
    from locant.figures import FIGURES

    rows = [
        (name, figure.caption.title, " ".join("--" + option.replace("_", "-") for option in figure.options))
        for name, figure in FIGURES.items()
    ]
    rows.append((ERRATA, "Errors that tutorials repeat, with the values that refute them: a page", ""))
    print_table(PlainConsole(), ("figure", "shows", "options"), rows)
