"""The build of the translation engine for browsers, by Zig: C++ to WebAssembly.

It needs nothing but Python and Zig, because ``hatch_build.py`` uses it as well.
"""

from __future__ import annotations

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


def _run(command: Sequence[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"The engine for browsers cannot be built: {shlex.join(command)}\n{run.stderr}")
