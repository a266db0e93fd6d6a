"""Building, loading and switching the C++ kernels that ship with Locant as source."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from locant.errors import ConfigError
from locant.files import cache_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SWITCH = "LOCANT_KERNELS"
"""Environment variable that switches the kernels off from the start: ``0``, ``false``, ``off`` or ``no``."""

_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fno-math-errno")
# Tried one after the other: for x86; for other processors; for compilers without OpenMP, on one thread.
_VARIANTS = (("-fopenmp", "-mprefer-vector-width=512"), ("-fopenmp",), ())

_UNUSED = 60 * 24 * 3600
"""Seconds after which a build that nothing has loaded is removed, when another of the same kernel is made."""

_logger = logging.getLogger("locant")
_on = os.environ.get(SWITCH, "").strip().lower() not in ("0", "false", "off", "no")
_said: set[str] = set()


def enabled(on: bool | None = None) -> bool:
    """Return whether C++ kernels are used in this process, after switching them on or off if asked to.

    Args:
        on: Whether to use them from now on; ``None`` leaves the switch as it is. Other processes, such as those that
            ``locant compare`` starts, follow the environment variable ``LOCANT_KERNELS``.

    Example:
        >>> import locant.kernels
        >>> locant.kernels.enabled(False)
        False
        >>> locant.kernels.enabled(True)
        True
    """
    global _on
    if on is not None:
        _on = on
    return _on


class Kernel:
    """The functions of one C++ file of this room.

    Building is safe in several threads and processes at once: one builds and the others wait for it.

    Args:
        name: Name of the file without ``.cpp``.
        functions: For each function its arguments' types and that of its result, as for :mod:`ctypes`.
    """

    def __init__(self, name: str, functions: Mapping[str, tuple[Sequence[Any], Any]]) -> None:
        self.name = name
        self._functions = functions
        self._library: ctypes.CDLL | None = None
        self._failed = False
        self._lock = threading.Lock()

    def usable(self) -> bool:
        """Return whether kernels are switched on and this one is built, which happens now if need be.

        Where it cannot be built, a warning says so once for all kernels of a process.
        """
        if not _on or self._failed:
            return False
        if self._library is None:
            try:
                return self.library is not None
            except ConfigError as error:
                self._failed = True
                _say_once(logging.WARNING, f"{error} PyTorch's own operations take the place of the C++ kernels.")
                return False
        return True

    def require(self) -> ctypes.CDLL:
        """Return the library, for what cannot do without it.

        Raises:
            ConfigError: Kernels are switched off, or as in :attr:`library`.
        """
        if not _on:
            raise ConfigError(
                f"C++ kernels are switched off, by {SWITCH}=0 in the environment or by locant.kernels.enabled(False)."
            )
        return self.library

    @property
    def library(self) -> ctypes.CDLL:
        """The loaded library, built first unless a build of this source for this processor is in the cache folder.

        Raises:
            ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written.
        """
        with self._lock:
            if self._library is None:
                self._library = self._load()
            return self._library

    def path(self) -> Path:
        """Return where the build of this source for this processor is kept, or will be.

        Raises:
            ConfigError: There is no home folder, and no cache folder is set.
        """
        built_for = hashlib.sha256(
            b"".join(self._sources().values()) + repr((_FLAGS, _VARIANTS, _processor())).encode()
        )
        return cache_folder() / f"{self.name}-{built_for.hexdigest()[:16]}.so"

    def _sources(self) -> dict[str, bytes]:
        files = sorted(resources.files("locant.kernels").iterdir(), key=lambda file: file.name)
        sources = [file for file in files if file.name == f"{self.name}.cpp"]
        headers = [file for file in files if file.name.endswith(".h")]
        return {file.name: file.read_bytes() for file in (*sources, *headers)}

    def _load(self) -> ctypes.CDLL:
        path = self.path()
        try:
            built = not path.exists()
            if built:
                _build(self._sources(), path)
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                if built:
                    raise
                path.unlink()  # damaged, or built for a system with other libraries
                _build(self._sources(), path)
                library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ConfigError(
                f"The C++ kernel '{self.name}' cannot be kept in {path.parent} or loaded from it: {error}"
            ) from error
        with suppress(OSError):  # not every cache can be written
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        for name, (arguments, result) in self._functions.items():
            function = getattr(library, name)
            function.argtypes, function.restype = list(arguments), result
        return library


def kernel_names() -> list[str]:
    """Return the names of all kernels, in the order of the alphabet."""
    files = resources.files("locant.kernels").iterdir()
    return sorted(Path(file.name).stem for file in files if file.name.endswith(".cpp"))


def build_all() -> None:
    """Build all kernels that are not built yet, so that processes started afterwards find them; see ``usable``."""
    for name in kernel_names():
        Kernel(name, {}).usable()


def find_compiler() -> str | None:
    """Return the path of the C++ compiler: that of the environment variable ``CXX``, or a usual one."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)


def _build(files: dict[str, bytes], library: Path) -> None:
    """Build the first of the files, which includes the others, unless another process does so at this moment."""
    compiler = find_compiler()
    if compiler is None:
        raise ConfigError("C++ kernels need a C++ compiler, and neither c++, g++ nor clang++ was found.")
    library.parent.mkdir(parents=True, exist_ok=True)
    with _alone(library.parent), tempfile.TemporaryDirectory(dir=library.parent) as folder:
        if library.exists():
            return
        _say_once(
            logging.INFO,
            f"Building C++ kernels for this processor, which takes some seconds once; they are kept in "
            f"{library.parent}. {SWITCH}=0 in the environment switches them off.",
        )
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        source, built = Path(folder, next(iter(files))), Path(folder, "built.so")
        for variant in _VARIANTS:
            command = [compiler, *_FLAGS, *variant, str(source), "-o", str(built)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                built.replace(library)
                _remove_unused(library)
                return
    said = (run.stderr.strip().splitlines() or ["nothing"])[0]
    raise ConfigError(f"The C++ compiler {compiler} could not build {source.name}. It said: {said}")


def _remove_unused(library: Path) -> None:
    """Remove builds of the same kernel, of other versions or processors, that nothing has loaded for long."""
    name = library.name.rpartition("-")[0]
    for other in library.parent.glob(f"{name}-{'?' * 16}.so"):
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


def _say_once(level: int, message: str) -> None:
    kind = logging.getLevelName(level)
    if kind not in _said:
        _said.add(kind)
        _logger.log(level, message)


@cache
def _processor() -> str:
    """Return what a build for this processor depends on."""
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith("flags")][:1] if info.exists() else []
    return f"{platform.machine()} {platform.processor()} {flags}"
