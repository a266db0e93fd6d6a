"""``locant info``."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

# Variables of the environment that change what is computed, how fast, or where things are kept.
_VARIABLES = re.compile(r"(OMP|MKL|KMP|GOMP|ONEDNN|DNNL|CUDA|NCCL|PYTORCH|TORCH|LOCANT)_\w+|XDG_CACHE_HOME|CXX|HF_HOME")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the form of the output."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(options: argparse.Namespace) -> int:
    """Print versions, machine, kernels and cache."""
    found = collect()
    print(json.dumps(found, indent=2) if options.json else "\n".join(_lines(found)))
    return 0


def collect() -> dict[str, Any]:
    """Return what a report of a fault needs, in types of JSON; what cannot be found out is ``None`` or says why."""
    import locant
    from locant.runtime import environment, package_versions, physical_memory

    extras = _extras()
    names = dict.fromkeys(name for extra, required in extras.items() if extra != "dev" for name in required)
    found = {key: value for key, value in environment().items() if key != "command"}
    found["packages"] |= package_versions(name for name in names if name not in found["packages"])
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
        "cache": _cache(),
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
    from locant.errors import LocantError
    from locant.kernels.library import built_path, find_compiler
    from locant.kernels.variants import choose

    compiler = find_compiler()
    found: dict[str, Any] = {"enabled": kernels.enabled(), "operators": _operators()}
    found |= {"compiler": shlex.join(compiler) if compiler else None, "compiler_version": _version(compiler)}
    try:
        choice = choose()
        if choice is not None:
            found |= {"variant": choice.name, "library": str(choice.path)}
            return found | {"lacking": choice.lacking, "runs": choice.runs}
        path = built_path()
        return found | {"built": str(path) if path.exists() else None}
    except (LocantError, OSError) as error:
        return found | {"error": str(error)}


def _operators() -> list[str]:
    """Return the operators of training and positions, by name; none where torch cannot be used."""
    try:
        from locant.kernels.operators import OPERATORS
    except Exception:  # a broken installation is what this command is for
        return []
    return sorted(OPERATORS)


def _version(compiler: Sequence[str] | None) -> str | None:
    if compiler is None:
        return None
    try:
        run = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False, timeout=2)
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not answer: {error}"
    return (run.stdout.strip().splitlines() or [f"it ends with code {run.returncode}"])[0]


def _cache() -> dict[str, Any]:
    from locant.errors import LocantError
    from locant.files import cache_folder

    try:
        folder = cache_folder()
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    except (LocantError, OSError) as error:
        return {"error": str(error)}
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"Locant {found['locant']} in {found['folder']}"
    yield f"Python {found['python']}, {found['system']}"
    yield f"Processor: {found['processor']}"
    yield f"  vector instructions: {', '.join(found['instructions']) or 'none known'}"
    quota = found["cpu_quota"]
    limit = "no quota" if quota is None else f"a quota of {quota:g}"
    yield f"  cores: {found['cores']}, usable {found['usable_cores']}, {limit}; threads of torch: {found['threads']}"
    if found["memory_bytes"]:
        yield f"  memory: {_size(found['memory_bytes'])}"
    yield "Devices:"
    for device in found["devices"]:
        more = [device[key] for key in ("name", "runtime") if key in device]
        if "capability" in device:
            more += [f"compute capability {device['capability']}", _size(device["memory_bytes"])]
        yield f"  {device.get('error') or ', '.join([device['device'], *more])}"
    yield from _kernel_lines(found["kernels"])
    cache = found["cache"]
    summary = cache.get("error") or f"{cache['folder']}, {_size(cache['bytes'])} in {cache['files']} files"
    yield f"Cache: {summary}"
    yield "Packages:"
    yield f"  {', '.join(f'{name} {version}' for name, version in found['packages'].items() if version)}"
    missing = [name for name, version in found["packages"].items() if not version]
    if missing:
        yield f"  not installed: {', '.join(missing)}"
    if found["extras"]:
        yield "Extras:"
        yield f"  complete: {', '.join(extra for extra, lacks in found['extras'].items() if not lacks) or 'none'}"
        yield from (f"  {extra} lacks {', '.join(lacks)}" for extra, lacks in found["extras"].items() if lacks)
    if found["environment"]:
        yield "Environment:"
        yield from (f"  {name}={value}" for name, value in found["environment"].items())


def _kernel_lines(kernels: dict[str, Any]) -> Iterator[str]:
    yield f"C++ kernels: {'on' if kernels['enabled'] else 'switched off'}"
    version = f" ({kernels['compiler_version']})" if kernels["compiler"] else ""
    yield f"  compiler: {kernels['compiler'] or 'none found'}{version}"
    if kernels["operators"]:
        able = kernels["enabled"] and any(kernels.get(key) for key in ("variant", "built", "compiler"))
        by = "these kernels" if able else "PyTorch's own operations"
        yield f"  operators, which run by {by}: {', '.join(kernels['operators'])}"
    if "error" in kernels:
        yield f"  {kernels['error']}"
        return
    if "variant" in kernels:
        best = kernels["runs"][-1]
        by = "" if kernels["variant"] == best else f", by LOCANT_KERNELS_VARIANT; the best one here is {best}"
        yield f"  variant: {kernels['variant']}, which came with the package{by}"
        yield from (f"  not {name}: this processor lacks {', '.join(of)}" for name, of in kernels["lacking"].items())
    else:
        yield f"  built for this processor: {kernels['built'] or 'not yet'}"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.1f} MB"
