"""``locant inspect``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.cli.arguments import add_json
from locant.cli.messages import printable

if TYPE_CHECKING:
    from locant.cli.console import PlainConsole
    from locant.extension.inspect.result import Inspection
    from locant.positions.rotary.config import RotaryConfig

_EPILOG = """examples:
  locant inspect models/Qwen2.5-7B
  locant inspect model.gguf --as hf5
  locant inspect smollm2 --figure smollm2.png
  locant inspect model.gguf --llamacpp="--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 8192"
  vllm serve models/Qwen2.5-7B --hf-overrides "$(locant inspect models/Qwen2.5-7B --as vllm)"

Exit code: 0; 1 where a finding is an error or --as or --figure cannot express it; 2 where MODEL cannot be read."""

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from locant.extension.inspect.settings import ENGINES

    parser.epilog = _EPILOG
    add = parser.add_argument
    what = "folder with config.json, that file, a GGUF file, smollm2 (in a package), or a Hub id (owner/name)"
    add("model", metavar="MODEL", help=what)
    add("--as", dest="engine", choices=tuple(ENGINES), help="print the equivalent setting of an engine")
    add("--llamacpp", metavar="FLAGS", help="inspect what llama.cpp runs with these flags")
    add("--hf-overrides", metavar="JSON", help="inspect what vLLM runs with these overrides")
    what = "read the entries alone; do not ask the model's class in transformers, whose import takes seconds"
    add("--without-class", action="store_true", help=what)
    add_json(parser)
    add("--figure", type=Path, metavar="FILE", help="draw the bands; FILE ends in .png, .svg or .pdf")


def run(options: argparse.Namespace) -> int:
    """Print what the rotary configuration of a model means, and what is wrong with it."""
    from locant.errors import LocantError
    from locant.extension.inspect.inspection import inspect_model
    from locant.extension.inspect.settings import to_engine_config

    if options.figure:
        from locant.figures.files import require_image_path

        require_image_path(options.figure)
    inspection = inspect_model(
        options.model,
        hf_overrides=options.hf_overrides,
        llamacpp=options.llamacpp,
        ask_class=not options.without_class,
    )
    setting, refused = None, ""
    if options.engine:
        try:
            setting = to_engine_config(inspection, options.engine)
        except LocantError as error:
            refused = str(error)
    if options.json:
        import json

        data = inspection.as_data()
        if options.engine:
            data["equivalent"] = {"engine": options.engine, "setting": setting, "error": refused or None}
        print(json.dumps(data, indent=2, allow_nan=False))
    elif options.engine:
        _print_equivalent(inspection, setting, refused)
    else:
        _print_all(inspection)
    if options.figure:
        from locant.figures import write_inspection_figure

        write_inspection_figure(inspection, options.figure)
        print(f"Wrote {options.figure}.", file=sys.stderr)
    return 1 if inspection.has_errors or refused else 0


def _print_equivalent(inspection: Inspection, setting: Any, refused: str) -> None:
    """Print the setting alone on standard output, so that it can be passed on, and the rest on standard error."""
    import json

    for finding in inspection.findings:
        if finding.severity != "note":
            print(printable(f"locant: {finding.severity}: {finding.message}"), file=sys.stderr)
    if refused:
        print(printable(f"locant: error: {refused}"), file=sys.stderr)
    else:
        print(setting if isinstance(setting, str) else json.dumps(setting, indent=2))


def _print_all(inspection: Inspection) -> None:
    from textwrap import fill

    from rich.text import Text

    from locant.cli.console import PlainConsole

    console = PlainConsole(soft_wrap=True)
    format = "GGUF" if inspection.kind == "gguf" else "config.json"
    run_by = f", as {inspection.engine} runs it with the options given" if inspection.engine else ""
    model_type = inspection.model_type or "not stated"
    console.print(f"{inspection.path}: {format}, model type {model_type:.100}{run_by}")
    parsed = inspection.parsed
    for layer, config in ({} if parsed is None else parsed.configs).items():
        _print_layer(console, layer, config, inspection)
    for sentence in () if parsed is None else parsed.layers_without():
        console.print(f"\n{sentence}")
    for layer, axes in ({} if parsed is None else parsed.multimodal).items():
        in_turn = ", in turn" if axes["interleaved"] else ""
        console.print(f"\n{layer:.100} layers have several axes, of {axes['sections']} pairs{in_turn}")
    console.print()
    if parsed is not None:
        console.print(f"Read by {parsed.source.replace('entries', 'its entries alone')}.")
    if inspection.not_compared:
        console.print(f"Not compared with the model's class: {inspection.not_compared}")
    if not inspection.findings:
        console.print("Nothing was found wrong.", style="green")
    for finding in inspection.findings:
        text = Text(fill(printable(f"{finding.severity} [{finding.code}]: {finding.message}"), console.width))
        text.stylize(_COLOURS[finding.severity], 0, len(finding.severity))
        console.print(text)
        remedy = fill(printable(finding.remedy), console.width, initial_indent="  ", subsequent_indent="  ")
        console.print(remedy, style="dim")


def _print_layer(console: PlainConsole, layer: str, config: RotaryConfig, inspection: Inspection) -> None:
    from locant.rotary_configs.reading import ALL_LAYERS

    explanation = config.explain()
    assert config.rotary_dim is not None
    declared = inspection.declared_length
    which = "" if inspection.parsed is None else f"{inspection.parsed.layers_with(layer):.500}"
    if which and layer == ALL_LAYERS:
        console.print(f"\n{which}", style="bold")
    else:
        console.print(f"\n{layer:.100} layers", style="bold")
        if which:
            console.print(which)
    console.print(
        f"head of {config.head_dim} features, {config.rotary_dim} rotated ({config.rotary_dim / config.head_dim:.0%}), "
        f"layout {config.layout}, declared for {f'{declared} tokens' if declared else 'an unknown length'}"
    )
    console.print(config.describe())
    console.print(str(explanation))
    pairs, length = explanation.incomplete_pairs, explanation.trained_length
    if length is not None and pairs:
        console.print(f"\nPairs {pairs[0]} to {pairs[-1]} never complete a turn within the trained {length} tokens.")
    elif length is not None:
        console.print(f"\nEvery pair completes a turn within the trained {length} tokens.")
