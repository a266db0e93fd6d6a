"""The library of the C++ kernels: loaded or built when it is first needed, and switched off by one switch.

What came with the package is loaded (:mod:`locant.kernels.variants`), and then nothing is ever built. An installation
from the sources has none: a C++ compiler builds one for the processor at hand, which is kept in the user's cache.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from locant.errors import ConfigError
from locant.files import cache_folder, publish, workplace
from locant.kernels.variants import VARIANT, choose
from locant.locks import FileLock, thread_lock

SWITCH = "LOCANT_KERNELS"
"""Environment variable that switches the kernels off from the start: ``0``, ``false``, ``off`` or ``no``."""

# Without traps GCC vectorises loops in which something depends on a comparison, such as the exponential function's.
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-pthread")
_FLAGS += ("-fopenmp-simd", *(("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()))

_CPUINFO = Path("/proc/cpuinfo")
# What Linux says there of a processor's instructions: on x86, ARM, RISC-V and POWER.
_INSTRUCTIONS = re.compile(r"(flags|Features|CPU implementer|CPU part|isa|uarch|cpu)\s*:")

_logger = logging.getLogger("locant")
_on = os.environ.get(SWITCH, "").strip().lower() not in ("0", "false", "off", "no")


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


class Library:
    """All C++ kernels in one library, loaded when it is first needed; ``failed`` says that it could not be.

    In several threads and processes at once, one builds where that is needed and the others wait for it.
    """

    def __init__(self) -> None:
        self._loaded: ctypes.CDLL | None = None
        self.failed = False
        self._lock = thread_lock()

    def usable(self) -> bool:
        """Return whether the library is loaded, which happens now if need be; a warning says once why it cannot be."""
        if self._loaded is None and not self.failed:
            try:
                self.load()
            except ConfigError as error:
                with self._lock:
                    said, self.failed = self.failed, True
                if not said:
                    _logger.warning(f"{error} PyTorch's own operations take the place of the C++ kernels.")
        return self._loaded is not None

    def load(self) -> ctypes.CDLL:
        """Return the library: the best variant that came with the package, or else what is built from the sources.

        Raises:
            ConfigError: No variant that came with the package runs here; or none came, and there is no C++ compiler, it
                fails, or there is no folder for what it builds.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded


LIBRARY = Library()
"""The library of this process."""


class Kernel:
    """Some functions of the library, each with its arguments' types and that of its result, as for :mod:`ctypes`.

    Those that are ``brief`` take so little time that other Python threads wait meanwhile: giving way to them and coming
    back costs more.
    """

    def __init__(
        self,
        functions: Mapping[str, tuple[Sequence[Any], Any]],
        library: Library = LIBRARY,
        *,
        brief: Sequence[str] = (),
    ) -> None:
        self._functions, self._of, self._brief = functions, library, brief
        self._library: ctypes.CDLL | None = None

    def usable(self) -> bool:
        """Return whether kernels are switched on and can be used; see :meth:`Library.usable`."""
        return _on and (self._library is not None or self._of.usable())

    def expected(self) -> bool:
        """Return whether kernels are switched on and loading them has not failed, without loading them now."""
        return _on and not self._of.failed

    def require(self) -> ctypes.CDLL:
        """Return the library, for what cannot do without it.

        Raises:
            ConfigError: Kernels are switched off, or as in :meth:`Library.load`.
        """
        if not _on:
            raise ConfigError(
                f"C++ kernels are switched off, by {SWITCH}=0 in the environment or by locant.kernels.enabled(False)."
            )
        return self.library

    @property
    def library(self) -> ctypes.CDLL:
        """The loaded library, whose functions know their types; errors as in :meth:`Library.load`."""
        if self._library is None:
            library = self._of.load()
            for name, (arguments, result) in self._functions.items():
                function = getattr(library, name)
                function.argtypes, function.restype = list(arguments), result
                if name in self._brief:
                    setattr(library, name, ctypes.PYFUNCTYPE(result, *arguments)((name, library)))
            self._library = library
        return self._library


def require_done(error: bytes | None, memory: str = "There is not enough memory for this computation.") -> None:
    """Raise what a kernel returned: nothing for ``None``, which says that the work is done.

    Raises:
        ConfigError: An argument was wrong, as the kernel says in a sentence; nothing has been read or written.
        MemoryError: Memory did not suffice; ``memory`` is said then.
    """
    if error:
        raise ConfigError(error.decode())
    if error is not None:
        raise MemoryError(memory)


def build_all() -> None:
    """Build the kernels unless they are there, so that processes started afterwards find them."""
    if _on:
        LIBRARY.usable()


def _load() -> ctypes.CDLL:
    try:
        choice = choose()
        if choice is not None:
            return ctypes.CDLL(str(choice.path))
    except OSError as error:
        asked = f"The variant that {VARIANT} asks for" if os.environ.get(VARIANT) else "What came with the package"
        raise ConfigError(f"{asked} cannot be loaded on this system: {error}.") from error
    try:
        path = built_path()
        if path.exists():
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                path.unlink()  # damaged, or built for a system with other libraries
        _build(path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError) as error:  # the latter of Python's threads
        raise ConfigError(f"The C++ kernels cannot be built or kept: {error}.") from error


def find_compiler() -> tuple[str, ...] | None:
    """Return the command of the C++ compiler: that of the environment variable ``CXX``, or a usual one.

    Its first word is the path of a program; what follows are arguments, as in ``ccache g++``.
    """
    for command in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if whole := shutil.which(command):  # there may be spaces in its path
            return (whole,)
        with suppress(ValueError):  # quotes that do not end
            program, *arguments = shlex.split(command) or [""]
            if found := shutil.which(program):
                return (found, *arguments)
    return None


def built_path() -> Path:
    """Return where the build of these sources for this machine is kept, or will be.

    Its name depends on the sources, the processor and the C library. It lies in the cache folder, or in one for
    temporary files where the user has no home folder or cannot write there, or where others could put something else in
    its place.

    Raises:
        ConfigError: There is no such folder.
    """
    folders = [Path(tempfile.gettempdir(), f"locant-{os.geteuid() if hasattr(os, 'geteuid') else 'kernels'}")]
    with suppress(ConfigError):  # no home folder
        folders.insert(0, cache_folder() / "kernels")
    try:
        about = [line for line in _CPUINFO.read_text(encoding="utf-8").splitlines() if _INSTRUCTIONS.match(line)]
    except OSError:
        about = [platform.node()]  # another machine may have another processor
    machine = platform.machine(), platform.processor(), sorted({*about}), *platform.libc_ver()  # of all cores
    digest = hashlib.sha256(repr((sorted(sources().items()), _FLAGS, machine)).encode()).hexdigest()[:16]
    for folder in folders:
        with suppress(OSError):  # it is not there
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        path = folder / f"kernels-{digest}.so"
        with suppress(OSError):
            if _is_safe(folder) and (_is_safe(path) if path.exists() else os.access(folder, os.W_OK)):
                return path
    places = " or ".join(map(str, folders))
    raise ConfigError(f"The C++ kernels need a folder that this user can write and nobody else, such as {places}.")


def _is_safe(path: Path) -> bool:
    """Return whether a file or folder is this user's or the system's, and nobody else can write it."""
    found = path.lstat()
    mine = not hasattr(os, "geteuid") or found.st_uid in (os.geteuid(), 0)
    return mine and not stat.S_ISLNK(found.st_mode) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _build(library: Path) -> None:
    """Build the kernels, unless another process does so at this moment: then wait for it."""
    compiler = find_compiler()
    if compiler is None:
        raise ConfigError("C++ kernels need a C++ compiler, and neither c++, g++ nor clang++ was found.")
    lock = FileLock(library.parent / "build.lock")
    with suppress(OSError):  # a file system without locks: two then build the same
        lock.acquire("building", wait=True)
    try:
        if library.exists():
            return
        _logger.info(
            f"Building C++ kernels for this processor, which takes some seconds once; they are kept in "
            f"{library.parent}. {SWITCH}=0 in the environment switches them off."
        )
        with workplace(library.parent) as folder:
            for name, content in sources().items():
                (folder / name).write_bytes(content)
            files = sorted(folder.glob("*.cpp"), key=lambda path: -path.stat().st_size)  # the longest first
            objects = [file.with_suffix(".o") for file in files]
            compile_one = (*compiler, *_FLAGS, "-c")
            with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
                list(threads.map(lambda file, to: _run(*compile_one, str(file), "-o", str(to)), files, objects))
            built = folder / "built.so"
            _run(*compiler, *_FLAGS, "-shared", *map(str, objects), "-o", str(built))
            built.chmod(0o755)
            publish(built, library)
    finally:
        lock.release()


def _run(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if run.returncode:
        said = (run.stderr.strip().splitlines() or ["nothing"])[0]
        raise ConfigError(f"The C++ compiler {command[0]} failed with code {run.returncode} and said: {said}.")


@cache
def sources() -> dict[str, bytes]:
    """Return the content of every C++ file and header, by name."""
    files = resources.files("locant.kernels").iterdir()
    return {file.name: file.read_bytes() for file in files if file.name.endswith((".cpp", ".h"))}
