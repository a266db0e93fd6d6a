"""``locant info``."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from contextlib import suppress
from importlib import metadata
from typing import Any

from locant.cli.arguments import add_json
from locant.errors import LocantError

# Variables of the environment that change what is computed, how fast, or where things are kept.
_VARIABLES = re.compile(r"(OMP|MKL|KMP|GOMP|ONEDNN|DNNL|CUDA|NCCL|PYTORCH|TORCH|LOCANT)_\w+|XDG_CACHE_HOME|CXX|HF_HOME")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the form of the output."""
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Print versions, machine, kernels and cache."""
    import yaml

    found = collect()
    print(json.dumps(found, indent=2) if options.json else yaml.safe_dump(found, sort_keys=False, width=110).rstrip())


def collect() -> dict[str, Any]:
    """Return what a report of a fault needs, in types of JSON; what cannot be found out says why."""
    from locant.files import cache_folder
    from locant.runtime import environment, package_versions, physical_memory

    found = {key: value for key, value in environment().items() if key != "command"}
    with suppress(metadata.PackageNotFoundError):  # what Locant and its extras ask for
        asked = [re.match(r"[\w.-]+", requirement) for requirement in metadata.requires("locant") or ()]
        found["packages"] |= package_versions(sorted({name[0] for name in asked if name} - {"locant"}))
    return found | {
        "memory_bytes": physical_memory(),
        "devices": _said(_devices),
        "kernels": _said(_kernels),
        "cache": _said(lambda: str(cache_folder())),
        "environment": {name: value for name, value in sorted(os.environ.items()) if _VARIABLES.fullmatch(name)},
    }


def _said(find: Any) -> Any:
    """Return what is found out, or why it cannot be: a broken installation is what this command is for."""
    try:
        return find()
    except Exception as error:
        return str(error) if isinstance(error, LocantError) else f"{type(error).__name__}: {error}"


def _devices() -> list[str]:
    import torch

    return ["cpu", *(str(torch.cuda.get_device_properties(index)) for index in range(torch.cuda.device_count()))]


def _kernels() -> dict[str, Any]:
    from locant import kernels
    from locant.kernels.library import built_path, choose, find_compiler

    choice, compiler = choose(), find_compiler()
    found: dict[str, Any] = {"enabled": kernels.enabled(), "compiler": shlex.join(compiler) if compiler else None}
    if choice is None:
        built = built_path()
        return found | {"built": str(built) if built.exists() else None}
    return found | {"variant": choice.name, "library": str(choice.path), "lacking": choice.lacking, "runs": choice.runs}
