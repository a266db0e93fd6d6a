"""Building of the C++ kernels for the processor at hand, where no library of theirs came with the package."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import signal
import stat
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
from locant.files import cache_folder, publish, workplace
from locant.locks import FileLock

# Without traps GCC vectorises loops in which something depends on a comparison, such as the exponential function's.
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-pthread")
# Tried one after the other: for x86; for other processors; for compilers that do not know what vectorises loops.
_CHOICES = (("-fopenmp-simd", "-mprefer-vector-width=512"), ("-fopenmp-simd",), ())

_UNUSED = 60 * 24 * 3600
"""Seconds after which a build that nothing has loaded is removed, when another is made."""

_CPUINFO = Path("/proc/cpuinfo")
# What Linux says there of a processor's instructions: on x86, ARM, RISC-V and POWER.
_INSTRUCTIONS = re.compile(r"(flags|Features|CPU implementer|CPU part|isa|uarch|cpu)\s*:")

_logger = logging.getLogger("locant")


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

    It depends on the processor, on what the compiler makes of that, and on the versions of compiler and C library;
    where there is no compiler any more, it is the newest build of any. It lies in the cache folder, or in a private
    one for temporary files where the user has no home folder or cannot write there, or where others could have written
    what the cache has.

    Raises:
        OSError: The private folder cannot be made.
    """
    with suppress(ConfigError):  # no home folder
        folder = cache_folder()
        path = _path_in(folder)
        if _keeps(folder) and (_own(path) if path.exists() else _can_be_written(folder)):
            return path
    return _path_in(_private_folder())


def build(library: Path) -> None:
    """Build the kernels, unless another process does so at this moment: then wait for it.

    Args:
        library: Where to, as from :func:`built_path`.

    Raises:
        ConfigError: There is no C++ compiler, it fails, or the system starts no more processes or threads.
        OSError: The folder cannot be written.
    """
    compiler = find_compiler()
    if compiler is None:
        raise ConfigError("C++ kernels need a C++ compiler, and neither c++, g++ nor clang++ was found.")
    library.parent.mkdir(parents=True, exist_ok=True)
    with _alone(library.parent), workplace(library.parent) as folder:
        if library.exists():
            return
        _logger.info(
            f"Building C++ kernels for this processor, which takes some seconds once; they are kept in "
            f"{library.parent}. LOCANT_KERNELS=0 in the environment switches them off."
        )
        flags = _accepted_flags(compiler, folder)
        for name, content in sources().items():
            (folder / name).write_bytes(content)
        # The longest first.
        files = sorted(folder.glob("*.cpp"), key=lambda path: -path.stat().st_size)
        try:
            with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
                list(threads.map(lambda file: _compile(compiler, flags, file), files))
        except RuntimeError as error:  # of Python's threads
            raise ConfigError(f"The C++ kernels cannot be built, because the system refuses: {error}.") from error
        built = folder / "built.so"
        objects = [str(file.with_suffix(".o")) for file in files]
        _run(compiler, [*flags, "-shared", *objects, "-o", str(built)], "the kernels")
        built.chmod(0o755)
        publish(built, library)
        said = folder / "compiler.txt"
        said.write_text(_target(compiler, library.parent), encoding="ascii")
        said.chmod(0o644)
        publish(said, _written_down(compiler, library.parent))
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


def _path_in(folder: Path) -> Path:
    machine = _digest(sorted(sources().items()), _FLAGS, _CHOICES, _processor(), _c_library())[:16]
    compiler = find_compiler()
    if compiler is None:
        found = sorted(folder.glob(f"kernels-{machine}-{'?' * 8}.so"), key=lambda path: path.stat().st_mtime)
        return found[-1] if found else folder / f"kernels-{machine}-{'0' * 8}.so"
    return folder / f"kernels-{machine}-{_target(compiler, folder)}.so"


def _target(compiler: Sequence[str], folder: Path) -> str:
    """Return eight digits for what a compiler makes of this processor and for its version.

    They are what it defines by itself when it is told to build for this machine; a build writes them down, so that it
    is asked no more until it is another file.
    """
    kept = _written_down(compiler, folder)
    with suppress(OSError, ValueError):
        if _own(kept) and re.fullmatch(r"[0-9a-f]{8}", said := kept.read_text(encoding="ascii")):
            return said
    return _asked(tuple(compiler), *_identity(compiler))


def _written_down(compiler: Sequence[str], folder: Path) -> Path:
    return folder / f"compiler-{_digest(_identity(compiler))[:16]}.txt"


def _identity(compiler: Sequence[str]) -> tuple[object, ...]:
    """Return what says whether a compiler is the one that was asked, and for what."""
    program, *arguments = compiler
    # Of a program that runs another one, as ccache does, the other one too.
    programs = [program, *filter(None, map(shutil.which, arguments))]
    files = [Path(each).resolve() for each in programs]
    found = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return *found, tuple(arguments), _processor(), _c_library()


@cache
def _asked(compiler: tuple[str, ...], *identity: object) -> str:
    asked = [*compiler, "-march=native", "-dM", "-E", "-x", "c++", "-"]
    try:
        run = subprocess.run(
            asked,
            input="#include <cstddef>\n",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return _digest(identity)[:8]
    # Not the compiler's own path: one of another place that does the same has the same builds.
    return _digest(identity[-3:], sorted(run.stdout.splitlines()), run.returncode)[:8]


def _digest(*what: object) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()


def _own(path: Path) -> bool:
    """Return whether a file is this user's or the system's, and nobody else can write it."""
    if not hasattr(os, "geteuid"):
        return True
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _keeps(folder: Path) -> bool:
    """Return whether what this user puts into a folder, which may be missing, stays there until it is loaded."""
    try:
        found = folder.stat()
    except OSError:
        return True
    kept = not found.st_mode & stat.S_IWOTH or bool(found.st_mode & stat.S_ISVTX)
    return not hasattr(os, "geteuid") or (found.st_uid in (os.geteuid(), 0) and kept)


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder can be written, or can be made."""
    there = next(each for each in (folder, *folder.absolute().parents) if os.path.exists(each))  # noqa: PTH110
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _private_folder() -> Path:
    """Return a folder for temporary files that nobody else can write, the same one each time if that can be."""
    folder = Path(tempfile.gettempdir(), f"locant-{os.geteuid() if hasattr(os, 'geteuid') else 'kernels'}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_symlink() and folder.is_dir() and _own(folder):
            return folder
    return _folder_of_this_process()


@cache
def _folder_of_this_process() -> Path:
    return Path(tempfile.mkdtemp(prefix="locant-"))


def _accepted_flags(compiler: Sequence[str], folder: Path) -> Sequence[str]:
    """Return the first flags that the compiler takes."""
    probe = folder / "probe.cpp"
    probe.write_text("int probe() { return 0; }\n")
    try:
        for more in _CHOICES[:-1]:
            with suppress(_RefusedError):
                _compile(compiler, (*_FLAGS, *more), probe)
                return (*_FLAGS, *more)
    finally:
        probe.unlink()
    return (*_FLAGS, *_CHOICES[-1])


def _compile(compiler: Sequence[str], flags: Sequence[str], source: Path) -> None:
    _run(compiler, [*flags, "-c", str(source), "-o", str(source.with_suffix(".o"))], source.name)


class _RefusedError(ConfigError):
    """The compiler has looked at what it was given and refused it."""


def _signal_name(number: int) -> str:
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")  # real-time signals have no names but the first and the last


def _run(compiler: Sequence[str], arguments: Sequence[str], what: str) -> None:
    name = shlex.join(compiler)
    try:
        # What it says may be in any encoding.
        run = subprocess.run(
            [*compiler, *arguments], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:  # no program any more, or the system starts none
        raise ConfigError(f"The C++ compiler {name} could not be started to build {what}: {error}") from error
    if run.returncode == 0:
        return
    said = (run.stderr.strip().splitlines() or ["nothing"])[0]
    if run.returncode < 0:
        killed = _signal_name(-run.returncode)
        raise ConfigError(f"The C++ compiler {name} was ended by {killed} while it built {what}.")
    message = f"The C++ compiler {name} could not build {what}. It said: {said}"
    # The part that does the work was ended, and the rest of the compiler says so.
    if re.search(
        r"terminated program|unable to execute|terminated by signal|internal compiler error|due to signal", run.stderr
    ):
        raise ConfigError(message)
    raise _RefusedError(message)


def _remove_unused(library: Path) -> None:
    """Remove builds of other versions or machines that nothing has loaded for long."""
    for other in (*library.parent.glob(f"*-{'?' * 16}.so"), *library.parent.glob(f"kernels-{'?' * 16}-{'?' * 8}.so")):
        with suppress(OSError):
            if other != library and time.time() - other.stat().st_atime > _UNUSED:
                other.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from building in a folder meanwhile, where the system can."""
    lock = FileLock(folder / "build.lock")
    with suppress(OSError):  # a file system without locks: two then build the same
        lock.acquire("building", wait=True)
    try:
        yield
    finally:
        lock.release()


def _processor() -> str:
    """Return what a build for this processor depends on, of all cores where they differ."""
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.exists() else []
    return (
        f"{platform.machine()} {platform.processor()} {sorted({line for line in lines if _INSTRUCTIONS.match(line)})}"
    )


def _c_library() -> str:
    with suppress(AttributeError, OSError, ValueError):
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    return ""
