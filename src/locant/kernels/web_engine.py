"""The translation engines for browsers: as they came with the package, or built by Zig, from C++ to WebAssembly.

``hatch_build.py`` builds them too, where Locant cannot be imported yet.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCES = Path(__file__).parent / "web"
"""Where the C++ files are that are compiled; they include others of the kernels."""

MODULES = {"locant_translation_relaxed.wasm": ["-mrelaxed-simd"], "locant_translation.wasm": []}
"""What the built engines are called, the fastest first, and what the compiler is told for each.

In a wheel they are beside their sources. The first needs a newer browser and a processor that multiplies bytes at once,
the last neither.
"""

_COMPILED = [
    "-target",
    "wasm32-wasi",
    "-std=c++17",
    "-O3",
    "-msimd128",
    "-mbulk-memory",
    "-mnontrapping-fptoint",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fopenmp-simd",
    "-fno-threadsafe-statics",
    "-fvisibility=hidden",
    "-fno-sanitize=all",
    "-g0",
]
"""WASI has the headers of the C and C++ libraries, which are not linked."""

_LINKED = [
    "-target",
    "wasm32-freestanding",
    "-O3",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--gc-sections",
    "-Wl,--strip-all",
    "-Wl,-z,stack-size=262144",
]


def find_zig(compiler: str = "") -> list[str] | None:
    """Return the command of Zig, or ``None`` where there is none.

    Args:
        compiler: The command of a C++ compiler, which may be Zig's.
    """
    words = shlex.split(compiler)
    if "c++" in words[1:] and "zig" in compiler:
        return words[: words.index("c++")]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang"]
    found = shutil.which("zig")
    return [found] if found else None


def build_engine(zig: Sequence[str], name: str, to: Path) -> None:
    """Compile and link an engine, one of :data:`MODULES`, by Zig; a RuntimeError has what Zig says where it fails."""
    with TemporaryDirectory(prefix="locant-web-") as folder:
        objects = []
        for source in sorted(SOURCES.glob("*.cpp")):
            objects.append(str(Path(folder, f"{source.stem}.o")))
            _run([*zig, "c++", *_COMPILED, *MODULES[name], "-c", str(source), "-o", objects[-1]])
        _run([*zig, "c++", *_LINKED, *objects, "-o", str(to)])


def engine_modules() -> list[bytes]:
    """Return the WebAssembly modules, the fastest first; a browser takes the first that it can run.

    Where none came with the package they are built, unless they are in the cache folder already.

    Raises:
        ConfigError: There is neither a module nor Zig, or Zig fails, or there is no cache folder.
        CheckpointError: The cache folder cannot be written.
    """
    packaged = [SOURCES / name for name in MODULES]
    if all(path.is_file() for path in packaged):
        return [path.read_bytes() for path in packaged]
    return [_built(name) for name in MODULES]


def _built(name: str) -> bytes:
    from locant.errors import ConfigError
    from locant.files import cache_folder, replacing_file
    from locant.kernels.library import sources

    content = {**sources(), **{path.name: path.read_bytes() for path in SOURCES.glob("*.cpp")}}
    content["web_engine.py"] = Path(__file__).read_bytes()
    digest = hashlib.sha256(repr(sorted(content.items())).encode()).hexdigest()[:16]
    built = cache_folder() / f"web-{digest}-{name}"
    if not built.is_file():
        zig = find_zig()
        if zig is None:
            raise ConfigError(
                "The translation engine for browsers is part of Locant's wheels, and this installation lacks it. "
                "Install Locant from a wheel, or what builds it in some seconds: pip install 'locant[web]'"
            )
        try:
            with replacing_file(built) as temporary:
                build_engine(zig, name, temporary)
        except RuntimeError as error:
            raise ConfigError(str(error)) from None
    return built.read_bytes()


def _run(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"The engine for browsers cannot be built: {shlex.join(command)}\n{run.stderr}")
