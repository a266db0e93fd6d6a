"""Builds and loads the C++ kernels that ship with Locant as source."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from locant.errors import ConfigError
from locant.files import cache_folder

_HEADER = "kernel_common.h"
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fno-math-errno")
# Tried one after the other: for x86; for other processors; for compilers without OpenMP, on one thread.
_VARIANTS = (("-fopenmp", "-mprefer-vector-width=512"), ("-fopenmp",), ())


@cache
def load_library(source: str) -> ctypes.CDLL:
    """Build a C++ file of this room, unless a build for it and this processor is in the user's cache, and load it.

    Args:
        source: Name of the file.

    Raises:
        ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written.
    """
    code = resources.files("locant.kernels").joinpath(source).read_bytes()
    header = resources.files("locant.kernels").joinpath(_HEADER).read_bytes()
    built_for = hashlib.sha256(code + header + repr((_FLAGS, _VARIANTS, _processor())).encode()).hexdigest()[:16]
    library = cache_folder() / f"{Path(source).stem}-{built_for}.so"
    try:
        if not library.exists():
            _build({source: code, _HEADER: header}, library)
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise ConfigError(
            f"The compiled {source} cannot be kept in {library.parent} or loaded from it: {error}"
        ) from error


@cache
def find_library(source: str) -> ctypes.CDLL | None:
    """Return what :func:`load_library` does, or ``None`` where it cannot be built: for kernels that only save time."""
    try:
        return load_library(source)
    except ConfigError:
        return None


def _build(files: dict[str, bytes], library: Path) -> None:
    """Build the first of the files; the others are included by it."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if compiler is None:
        raise ConfigError("Compiled kernels need a C++ compiler, and neither c++, g++ nor clang++ was found.")
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        source, built = Path(folder, next(iter(files))), Path(folder, "built.so")
        for variant in _VARIANTS:
            command = [compiler, *_FLAGS, *variant, str(source), "-o", str(built)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                # Two processes may build at once: the last one's file takes the place of an equal one.
                built.replace(library)
                return
    said = (run.stderr.strip().splitlines() or ["nothing"])[0]
    raise ConfigError(f"The C++ compiler {compiler} could not build {source.name}. It said: {said}")


def _processor() -> str:
    """Return what a build for this processor depends on."""
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith("flags")][:1] if info.exists() else []
    return f"{platform.machine()} {platform.processor()} {flags}"
