"""Hatchling's hook that builds the C++ kernels into a wheel, once for each kind of processor and once for browsers.

The package chooses among them when it runs (``src/locant/kernels/library.py``). Where there is no compiler the wheel
has the sources alone. An editable installation is left as it is: its kernels are built when they are first needed. The
engine for browsers is built by Zig, where that is the compiler or installed.

Environment variables: ``CXX``, the compiler, with arguments where it needs some; ``LOCANT_WHEEL_PLATFORM``, the
platform tag of a wheel for another machine than this one, as in ``manylinux_2_28_aarch64``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FLAGS = ("-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
_POSITION_INDEPENDENT = () if sys.platform == "win32" else ("-fPIC", "-pthread")

_V2 = ("-msse3", "-mssse3", "-msse4.1", "-msse4.2", "-mpopcnt", "-mcx16", "-msahf")
_V3 = (*_V2, "-mavx", "-mavx2", "-mbmi", "-mbmi2", "-mf16c", "-mfma", "-mlzcnt", "-mmovbe")
_V4 = (*_V3, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512")
# What each variant may use; the names are those of library.py.
_X86 = {
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "x86-64-v4-vnni": (*_V4, "-mavx512vnni"),
    "x86-64-v4-vnni-bf16": (*_V4, "-mavx512vnni", "-mavx512bf16"),
    "x86-64-v4-vnni-bf16-amx": (*_V4, "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
}
_ARM = {
    "armv8": ("-march=armv8-a",),
    "armv8-dotprod": ("-march=armv8.2-a+dotprod",),
    "armv8-dotprod-bf16": ("-march=armv8.2-a+dotprod+bf16",),
    "armv8-dotprod-bf16-i8mm": ("-march=armv8.2-a+dotprod+bf16+i8mm",),
}
# The same for Zig, which names processors in its own way.
_ARM_OF_ZIG = {
    "armv8": ("-mcpu=generic",),
    "armv8-dotprod": ("-mcpu=generic+v8_2a+dotprod",),
    "armv8-dotprod-bf16": ("-mcpu=generic+v8_2a+dotprod+bf16",),
    "armv8-dotprod-bf16-i8mm": ("-mcpu=generic+v8_2a+dotprod+bf16+i8mm",),
}


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Builds the variants and adds them to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, unless the installation is editable."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._folder = Path(mkdtemp(prefix="locant-kernels-"))
        self._add_web_engine(build_data)
        compiler = _find_compiler()
        platform = os.environ.get("LOCANT_WHEEL_PLATFORM") or sysconfig.get_platform()
        variants = _variants(platform, zig="zig" in " ".join(compiler or ()))
        if compiler is None or not variants:
            why = "no C++ compiler was found" if variants else f"none are known for {platform}"
            self.app.display_warning(f"Locant is installed without its compiled kernels, because {why}.")
            return
        sources = sorted(
            Path(self.root, "src", "locant", "kernels").glob("*.cpp"), key=lambda path: -path.stat().st_size
        )
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            built = [_build(threads, compiler, flags, sources, self._folder / name) for name, flags in variants.items()]
            for name, library in zip(variants, built, strict=True):
                try:
                    path = library()
                except RuntimeError as error:
                    if "LOCANT_WHEEL_PLATFORM" in os.environ:
                        threads.shutdown(cancel_futures=True)
                        shutil.rmtree(self._folder, ignore_errors=True)
                        raise
                    self.app.display_warning(f"Locant is installed without its kernels for {name}. {error}")
                    continue
                place = f"locant/kernels/variants/locant_kernels-{name}{path.suffix}"
                build_data["force_include"][str(path)] = place
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"

    def _add_web_engine(self, build_data: dict[str, Any]) -> None:
        kernels = Path(self.root, "src", "locant", "kernels")
        if not list(kernels.glob("web/*.cpp")):
            return
        spec = spec_from_file_location("web_engine", kernels / "web_engine.py")
        assert spec is not None
        assert spec.loader is not None
        building = module_from_spec(spec)
        spec.loader.exec_module(building)
        zig = building.find_zig(os.environ.get("CXX", ""))
        if zig is None:
            self.app.display_warning(
                "Locant is installed without its translation engine for browsers, because Zig was not found (ziglang)."
            )
            return
        for name in building.MODULES:
            building.build_engine(zig, name, self._folder / name)
            build_data["force_include"][str(self._folder / name)] = f"locant/kernels/web/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel now has."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder, ignore_errors=True)


def _find_compiler() -> list[str] | None:
    for command in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        parts = shlex.split(command)
        if parts and shutil.which(parts[0]):
            return [*parts, *shlex.split(os.environ.get("ARCHFLAGS", ""))]  # the architecture, on macOS
    return None


def _variants(platform: str, *, zig: bool) -> dict[str, tuple[str, ...]]:
    if platform.endswith(("x86_64", "amd64")):
        return _X86
    if platform.endswith(("aarch64", "arm64")):
        return _ARM_OF_ZIG if zig else _ARM
    return {}


def _build(
    threads: ThreadPoolExecutor, compiler: list[str], flags: tuple[str, ...], sources: list[Path], stem: Path
) -> Any:
    """Begin to compile the sources; return what waits for that and links them."""
    stem.mkdir()
    objects = [stem / f"{source.stem}.o" for source in sources]
    compiling = [
        threads.submit(_run, [*compiler, *_FLAGS, *_POSITION_INDEPENDENT, *flags, "-c", str(source), "-o", str(to)])
        for source, to in zip(sources, objects, strict=True)
    ]

    def link() -> Path:
        for done in compiling:
            done.result()
        library = stem.with_suffix({"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so"))
        more = ["-O3"] if sys.platform == "win32" else ["-O3", "-pthread"]
        if sys.platform == "linux":
            # Nothing but the functions that Python calls: the C++ library's own may be another's in the same process.
            exported = stem / "exported.map"
            exported.write_text("{ global: locant_*; local: *; };\n")
            more += ["-s", f"-Wl,--version-script={exported}"]
        _run([*compiler, "-shared", *more, *map(str, objects), "-o", str(library)])
        return library

    return link


def _run(command: list[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"The C++ kernels cannot be built: {shlex.join(command)}\n{run.stderr}")
