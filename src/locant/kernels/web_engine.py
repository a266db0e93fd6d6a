"""The translation engines for browsers: as they came with the package, or built where Zig is."""

from __future__ import annotations

import hashlib

from locant.errors import ConfigError
from locant.files import cache_folder, replacing_file
from locant.kernels.library import sources
from locant.kernels.web_build import MODULES, SOURCES, build_engine, find_zig


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
    content = {**sources(), **{path.name: path.read_bytes() for path in SOURCES.glob("*.cpp")}}
    content["web_build.py"] = SOURCES.with_name("web_build.py").read_bytes()
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
