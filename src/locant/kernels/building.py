"""Building of the C++ kernels for the processor at hand, where no library of theirs came with the package."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path

from locant.errors import ConfigError
from locant.files import cache_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-fno-math-errno", "-pthread")
# Tried one after the other: for x86; for other processors; for compilers that do not know what vectorises loops.
_CHOICES = (("-fopenmp-simd", "-mprefer-vector-width=512"), ("-fopenmp-simd",), ())

_UNUSED = 60 * 24 * 3600
"""Seconds after which a build that nothing has loaded is removed, when another is made."""

_logger = logging.getLogger("locant")


def find_compiler() -> str | None:
    """Return the path of the C++ compiler: that of the environment variable ``CXX``, or a usual one."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)


def built_path() -> Path:
    """Return where the build of these sources for this processor is kept, or will be.

    Raises:
        ConfigError: There is no home folder, and no cache folder is set.
    """
    built_for = hashlib.sha256(repr((sorted(sources().items()), _FLAGS, _CHOICES, _processor())).encode())
    return cache_folder() / f"kernels-{built_for.hexdigest()[:16]}.so"


def build(library: Path) -> None:
    """Build the kernels, unless another process does so at this moment: then wait for it.

    Args:
        library: Where to, as from :func:`built_path`.

    Raises:
        ConfigError: There is no C++ compiler, or it fails.
        OSError: The folder cannot be written.
    """
    compiler = find_compiler()
    if compiler is None:
        raise ConfigError("C++ kernels need a C++ compiler, and neither c++, g++ nor clang++ was found.")
    library.parent.mkdir(parents=True, exist_ok=True)
    with _alone(library.parent), tempfile.TemporaryDirectory(dir=library.parent) as folder:
        if library.exists():
            return
        _logger.info(
            f"Building C++ kernels for this processor, which takes some seconds once; they are kept in "
            f"{library.parent}. LOCANT_KERNELS=0 in the environment switches them off."
        )
        for name, content in sources().items():
            Path(folder, name).write_bytes(content)
        files = sorted(Path(folder).glob("*.cpp"), key=lambda path: path.stat().st_size)
        flags = _accepted_flags(compiler, files[0])
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            # The longest first.
            list(threads.map(lambda file: _compile(compiler, flags, file), reversed(files[1:])))
        built = Path(folder, "built.so")
        objects = [str(file.with_suffix(".o")) for file in files]
        _run(compiler, [*flags, "-shared", *objects, "-o", str(built)], "the kernels")
        built.replace(library)
        _remove_unused(library)


def mark_as_used(library: Path) -> None:
    """Note that a build is in use, which keeps it from being removed."""
    with suppress(OSError):  # not every cache can be written
        os.utime(library, ns=(time.time_ns(), library.stat().st_mtime_ns))


@cache
def sources() -> dict[str, bytes]:
    """Return the content of every C++ file and header, by name."""
    files = resources.files("locant.kernels").iterdir()
    return {file.name: file.read_bytes() for file in files if file.name.endswith((".cpp", ".h"))}


def _accepted_flags(compiler: str, source: Path) -> Sequence[str]:
    """Compile the first source, and return the flags with which that went well."""
    for more in _CHOICES:
        flags = (*_FLAGS, *more)
        try:
            _compile(compiler, flags, source)
        except ConfigError:
            if more is _CHOICES[-1]:
                raise
        else:
            return flags
    raise AssertionError


def _compile(compiler: str, flags: Sequence[str], source: Path) -> None:
    _run(compiler, [*flags, "-c", str(source), "-o", str(source.with_suffix(".o"))], source.name)


def _run(compiler: str, arguments: Sequence[str], what: str) -> None:
    run = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        said = (run.stderr.strip().splitlines() or ["nothing"])[0]
        raise ConfigError(f"The C++ compiler {compiler} could not build {what}. It said: {said}")


def _remove_unused(library: Path) -> None:
    """Remove builds of other versions or processors that nothing has loaded for long."""
    for other in library.parent.glob(f"*-{'?' * 16}.so"):
        with suppress(OSError):
            if other != library and time.time() - other.stat().st_atime > _UNUSED:
                other.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from building in a folder meanwhile, where the system can."""
    if fcntl is None:
        yield
        return
    with (folder / "build.lock").open("w") as lock:
        with suppress(OSError):  # a file system without locks: two then build the same
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _processor() -> str:
    """Return what a build for this processor depends on."""
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith("flags")][:1] if info.exists() else []
    return f"{platform.machine()} {platform.processor()} {flags}"
