"""The variants of the kernels' library that come with the package, and which of them a processor runs."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from locant.errors import ConfigError

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
