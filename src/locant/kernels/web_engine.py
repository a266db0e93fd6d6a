"""The translation engine for browsers: as it came with the package, or built where Zig is."""

from __future__ import annotations

import hashlib
from pathlib import Path

from locant.errors import ConfigError
from locant.files import cache_folder, replacing_file
from locant.kernels.building import sources
from locant.kernels.web_build import FILE, SOURCES, build_engine, find_zig


def engine_module() -> bytes:
    """Return the WebAssembly module.

    Where none came with the package it is built, unless that is in the cache folder already.

    Raises:
        ConfigError: There is neither the module nor Zig, or Zig fails, or there is no cache folder.
        CheckpointError: The cache folder cannot be written.
    """
    packaged = SOURCES / FILE
    if packaged.is_file():
        return packaged.read_bytes()
    built = built_engine()
    if not built.is_file():
        zig = find_zig()
        if zig is None:
            raise ConfigError(
                "The translation engine for browsers is part of Locant's wheels, and this installation lacks it. "
                "Install Locant from a wheel, or what builds it in some seconds: pip install 'locant[web]'"
            )
        try:
            with replacing_file(built) as temporary:
                build_engine(zig, temporary)
        except RuntimeError as error:
            raise ConfigError(str(error)) from None
    return built.read_bytes()


def built_engine() -> Path:
    """Return where the build of these sources is kept, or will be.

    Raises:
        ConfigError: There is no cache folder.
    """
    content = {**sources(), **{path.name: path.read_bytes() for path in SOURCES.glob("*.cpp")}}
    content["web_build.py"] = SOURCES.with_name("web_build.py").read_bytes()
    return cache_folder() / f"web-{hashlib.sha256(repr(sorted(content.items())).encode()).hexdigest()[:16]}.wasm"
