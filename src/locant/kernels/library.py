"""The library of the C++ kernels: chosen, loaded or built when it is first needed, and switched off by one switch.

A wheel has a variant of it for each kind of processor, and then nothing is ever built. An installation from the sources
has none: a C++ compiler builds one for the processor at hand, which is kept in the user's cache.
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
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from locant.errors import ConfigError
from locant.files import cache_folder, publish, workplace
from locant.locks import FileLock, thread_lock

SWITCH = "LOCANT_KERNELS"
"""Environment variable that switches the kernels off from the start: ``0``, ``false``, ``off`` or ``no``."""

VARIANT = "LOCANT_KERNELS_VARIANT"
"""Environment variable that names the variant to load in the place of the best one."""

FOLDER = Path(__file__).parent / "variants"
"""Where an installed package has its libraries; the sources alone have none."""

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b", "lahf")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_DOT_PRODUCTS = ("asimd", "crc32", "atomics", "asimdrdm", "asimddp")
VARIANTS: dict[str, tuple[str, ...]] = {
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "x86-64-v4-vnni": (*_V4, "avx512_vnni"),
    "x86-64-v4-vnni-bf16": (*_V4, "avx512_vnni", "avx512_bf16"),
    "x86-64-v4-vnni-bf16-amx": (*_V4, "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
    "armv8": ("asimd",),
    "armv8-dotprod": _DOT_PRODUCTS,
    "armv8-dotprod-bf16": (*_DOT_PRODUCTS, "bf16"),
    "armv8-dotprod-bf16-i8mm": (*_DOT_PRODUCTS, "bf16", "i8mm"),
}
"""What each variant needs of a processor, the least one of an architecture first; ``hatch_build.py`` builds them."""

# The bit of each feature in the numbers that processor.cpp writes, by the number.
_X86_BITS = (
    {"sse3": 0, "ssse3": 9, "fma": 12, "cmpxchg16b": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22, "popcnt": 23}
    | {"avx": 28, "f16c": 29},
    {"lahf": 0, "lzcnt": 5},
    {"bmi1": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31},
    {"avx512_vnni": 11},
    {"amx_bf16": 22, "amx_tile": 24, "amx_int8": 25},
    {"avx512_bf16": 5},
)
_ARM_BITS = ({"asimd": 1, "crc32": 7, "atomics": 8, "asimdrdm": 12, "asimddp": 20}, {"i8mm": 13, "bf16": 14})
_XCR0, _LENT = 6, 7
# Bits of XCR0: the system keeps the registers xmm and ymm; besides these those of AVX-512; those of AMX, for which a
# process has to ask besides.
_YMM, _ZMM, _TILES = 0x06, 0xE6, 0x60000

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
        self._declared: dict[str, tuple[Sequence[Any], Any, bool]] = {}
        self._loaded: ctypes.CDLL | None = None
        self.failed = False
        self._lock = thread_lock()

    def declare(self, functions: Mapping[str, tuple[Sequence[Any], Any]], *, brief: Sequence[str] = ()) -> None:
        """State the types of functions' arguments and of their results, as for :mod:`ctypes`.

        Those that are ``brief`` take so little time that other Python threads wait meanwhile: giving way to them and
        coming back costs more.
        """
        found = {name: (*types, name in brief) for name, types in functions.items()}
        with self._lock:
            self._declared |= found
            if self._loaded is not None:
                _set_types(self._loaded, found)

    def usable(self) -> bool:
        """Return whether kernels are switched on and loaded, which happens now if need be; one warning says why not."""
        if _on and self._loaded is None and not self.failed:
            try:
                self.load()
            except ConfigError as error:
                with self._lock:
                    said, self.failed = self.failed, True
                if not said:
                    _logger.warning(f"{error} PyTorch's own operations take the place of the C++ kernels.")
        return _on and self._loaded is not None

    def expected(self) -> bool:
        """Return whether kernels are switched on and loading them has not failed, without loading them now."""
        return _on and not self.failed

    def require(self) -> ctypes.CDLL:
        """Return the library, for what cannot do without it.

        Raises:
            ConfigError: Kernels are switched off, or as in :meth:`load`.
        """
        if not _on:
            raise ConfigError(
                f"C++ kernels are switched off, by {SWITCH}=0 in the environment or by locant.kernels.enabled(False)."
            )
        return self.load()

    def load(self) -> ctypes.CDLL:
        """Return the library: the best variant that came with the package, or else what is built from the sources.

        Raises:
            ConfigError: No variant that came with the package runs here; or none came, and there is no C++ compiler, it
                fails, or there is no folder for what it builds.
        """
        if self._loaded is not None:
            return self._loaded
        with self._lock:
            if self._loaded is None:
                library = _load()
                _set_types(library, self._declared)
                self._loaded = library
            return self._loaded


LIBRARY = Library()
"""The library of this process."""


def _set_types(library: ctypes.CDLL, functions: Mapping[str, tuple[Sequence[Any], Any, bool]]) -> None:
    for name, (arguments, result, brief) in functions.items():
        function = getattr(library, name)
        function.argtypes, function.restype = list(arguments), result
        if brief:
            setattr(library, name, ctypes.PYFUNCTYPE(result, *arguments)((name, library)))


@dataclass(frozen=True)
class Choice:
    """A variant for this processor, one of :data:`VARIANTS`, and its library.

    ``lacking`` is what the processor lacks for each better variant that is there, by name; ``runs`` are all that are
    there and that it runs, the least one first.
    """

    name: str
    path: Path
    lacking: dict[str, list[str]]
    runs: tuple[str, ...]


def choose(folder: Path = FOLDER) -> Choice | None:
    """Return the best variant of a folder that this processor runs; ``None`` where the folder has none at all.

    The environment variable ``LOCANT_KERNELS_VARIANT`` takes another one.

    Raises:
        ConfigError: The variant that the environment names is not there, or the processor runs not it, or none at all.
        OSError: The least variant cannot be loaded, of which the processor's features are asked.
    """
    asked = os.environ.get(VARIANT, "")
    there = [name for name in VARIANTS if variant_path(name, folder).exists()]
    if asked and asked not in there:
        has = f"has {', '.join(there)}" if there else "has none: its kernels are built for the processor at hand"
        raise ConfigError(f"{VARIANT} asks for the variant {asked} of the kernels, but this installation {has}.")
    if not there:
        return None
    numbers = (ctypes.c_uint64 * 8)()
    ctypes.CDLL(str(variant_path(there[0], folder))).locant_processor(numbers)
    features_here = features(list(numbers), arm=there[0].startswith("arm"))
    lacking = {name: [feature for feature in VARIANTS[name] if feature not in features_here] for name in there}
    runs = tuple(name for name in there if not lacking[name])
    if asked and asked not in runs:
        lacks = ", ".join(lacking[asked])
        raise ConfigError(f"{VARIANT} asks for the variant {asked} of the kernels, but this processor lacks {lacks}.")
    if not runs:
        lacks = ", ".join(lacking[there[0]])
        raise ConfigError(f"The kernels that came with the package need what this processor lacks: {lacks}.")
    taken, better = asked or runs[-1], there[there.index(runs[-1]) + 1 :]
    return Choice(taken, variant_path(taken, folder), {name: lacking[name] for name in better}, runs)


def variant_path(name: str, folder: Path = FOLDER) -> Path:
    """Return where the library of a variant is, if it is there."""
    return folder / f"locant_kernels-{name}{SUFFIX}"


def features(numbers: Sequence[int], *, arm: bool) -> set[str]:
    """Return the features of a processor that count, those alone whose registers the system keeps.

    Args:
        numbers: What ``locant_processor`` writes, see ``processor.cpp``.
        arm: Whether they are those of an ARM processor.
    """
    known = zip(numbers, _ARM_BITS if arm else _X86_BITS, strict=False)
    found = {name for number, bits in known for name, bit in bits.items() if number >> bit & 1}
    if arm:
        return found
    if numbers[_XCR0] & _YMM != _YMM:
        found -= {"avx", "avx2", "f16c", "fma"}
    if numbers[_XCR0] & _ZMM != _ZMM:
        found = {name for name in found if not name.startswith("avx512")}
    if numbers[_XCR0] & _TILES != _TILES or not numbers[_LENT]:
        found = {name for name in found if not name.startswith("amx")}
    return found


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

    Its name depends on the sources, the processor and the C library.

    Raises:
        ConfigError: There is no cache folder, this user cannot write it, or others can.
        OSError: It cannot be made.
    """
    try:
        about = [line for line in _CPUINFO.read_text(encoding="utf-8").splitlines() if _INSTRUCTIONS.match(line)]
    except OSError:
        about = [platform.node()]  # another machine may have another processor
    machine = platform.machine(), platform.processor(), sorted({*about}), *platform.libc_ver()  # of all cores
    digest = hashlib.sha256(repr((sorted(sources().items()), _FLAGS, machine)).encode()).hexdigest()[:16]
    folder = cache_folder() / "kernels"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = folder / f"kernels-{digest}.so"
    if not (_is_safe(folder) and (_is_safe(path) if path.exists() else os.access(folder, os.W_OK))):
        raise ConfigError(
            f"The C++ kernels are kept in {folder}, which this user must be able to write and nobody else. "
            "XDG_CACHE_HOME in the environment names another place."
        )
    return path


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
