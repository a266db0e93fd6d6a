"""``locant info``."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from locant.errors import LocantError

# Variables of the environment that change what is computed, how fast, or where things are kept.
_VARIABLES = re.compile(r"(OMP|MKL|KMP|GOMP|ONEDNN|DNNL|CUDA|NCCL|PYTORCH|TORCH|LOCANT)_\w+|XDG_CACHE_HOME|CXX|HF_HOME")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the form of the output."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(options: argparse.Namespace) -> int:
    """Print versions, machine, kernels and cache."""
    found = collect()
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    import yaml

    print(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None), end="")
    return 0


def collect() -> dict[str, Any]:
    """Return what a report of a fault needs, in types of JSON; what cannot be found out is ``None`` or says why."""
    import locant
    from locant.files import cache_folder
    from locant.runtime import environment, package_versions, physical_memory

    extras = _extras()
    names = dict.fromkeys(name for extra, required in extras.items() if extra != "dev" for name in required)
    found = {key: value for key, value in environment().items() if key != "command"}
    found["packages"] |= package_versions(name for name in names if name not in found["packages"])
    cache: dict[str, Any]
    try:
        folder = cache_folder()
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        cache = {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}
    except (LocantError, OSError) as error:
        cache = {"error": str(error)}
    return found | {
        "folder": str(Path(str(locant.__file__)).parent),
        "extras": {
            extra: [name for name, version in package_versions(required).items() if version is None]
            for extra, required in extras.items()
            if extra
        },
        "memory_bytes": physical_memory(),
        "devices": _devices(),
        "kernels": _kernels(),
        "cache": cache,
        "environment": {name: value for name, value in sorted(os.environ.items()) if _VARIABLES.fullmatch(name)},
    }


def _extras() -> dict[str, list[str]]:
    """Return the packages that each extra of Locant asks for, and under ``""`` those that it always needs."""
    found: dict[str, list[str]] = {"": []}
    with suppress(metadata.PackageNotFoundError):
        for requirement in metadata.requires("locant") or ():
            name = re.match(r"[\w.-]+", requirement)
            extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
            if name and name[0] != "locant":
                found.setdefault(extra[1] if extra else "", []).append(name[0])
    found.pop("all", None)
    return found


def _devices() -> list[dict[str, Any]]:
    """Return the CPU and every accelerator that torch can use, or why it cannot be asked."""
    try:
        import torch

        found: list[dict[str, Any]] = [{"device": "cpu"}]
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            properties = torch.cuda.get_device_properties(index)
            found.append(
                {
                    "device": f"cuda:{index}",
                    "name": properties.name,
                    "memory_bytes": properties.total_memory,
                    "capability": f"{properties.major}.{properties.minor}",
                    "runtime": f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}",
                }
            )
        if torch.backends.mps.is_available():
            found.append({"device": "mps"})
    except Exception as error:  # a broken installation is what this command is for
        return [{"error": f"torch cannot be used: {type(error).__name__}: {error}"}]
    return found


def _kernels() -> dict[str, Any]:
    from locant import kernels
    from locant.kernels.library import built_path, choose, find_compiler

    compiler, version = find_compiler(), None
    if compiler is not None:
        try:
            run = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False, timeout=2)
            version = (run.stdout.strip().splitlines() or [f"it ends with code {run.returncode}"])[0]
        except (OSError, subprocess.SubprocessError) as error:
            version = f"it does not answer: {error}"
    try:
        from locant.kernels.operators import OPERATORS

        operators = sorted(OPERATORS)
    except Exception:  # a broken installation is what this command is for
        operators = []
    found: dict[str, Any] = {"enabled": kernels.enabled(), "operators": operators}
    found |= {"compiler": shlex.join(compiler) if compiler else None, "compiler_version": version}
    try:
        choice = choose()
        if choice is None:
            path = built_path()
            found["built"] = str(path) if path.exists() else None
        else:
            found |= {"variant": choice.name, "library": str(choice.path)}
            found |= {"lacking": choice.lacking, "runs": choice.runs}
    except (LocantError, OSError) as error:
        found["error"] = str(error)
    able = found["enabled"] and any(found.get(key) for key in ("variant", "built", "compiler"))
    return found | {"operators_run_by": "these kernels" if able else "PyTorch's own operations"}
