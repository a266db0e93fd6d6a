"""Which variant of the library a processor gets."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from with_kernels import needs_compiler

from locant.errors import ConfigError
from locant.kernels import library
from locant.kernels.library import VARIANTS, Library, choose, features, find_compiler, variant_path

SOURCE = Path(library.__file__).parent / "processor.cpp"
NATIVE = Path(__file__).parent / "native"
LINUX_NAMES = {  # of what Linux calls otherwise
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "cmpxchg16b": "cx16",
    "lahf": "lahf_lm",
    "lzcnt": "abm",
}
on_linux = pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="asks Linux for the processor's features")
on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="loads libraries for x86-64")

# Where Intel's manual (volume 2A, CPUID) has the bits, by the number of processor.cpp.
V2 = {0: (0, 9, 13, 19, 20, 23, 27), 1: (0,)}
V3 = {0: (*V2[0], 12, 22, 28, 29), 1: (0, 5), 2: (3, 5, 8)}
V4 = V3 | {2: (*V3[2], 16, 17, 28, 30, 31)}
VNNI_BF16 = V4 | {3: (11,), 5: (5,)}
AMX = VNNI_BF16 | {4: (22, 24, 25), 7: (0,)}
SSE, YMM, ZMM, TILES = 0x03, 0x07, 0xE7, 0x600E7  # of XCR0, ibid. volume 1, section 13.3


def numbers_of(bits: dict[int, tuple[int, ...]], xcr0: int = 0) -> list[int]:
    numbers = [sum(1 << bit for bit in bits.get(number, ())) for number in range(8)]
    numbers[6] = xcr0
    return numbers


@pytest.mark.parametrize(
    ("bits", "xcr0", "variant"),
    [
        (V2, YMM, "x86-64-v2"),
        (V3, ZMM, "x86-64-v3"),
        (V4, ZMM, "x86-64-v4"),
        (V4 | {3: (11,)}, ZMM, "x86-64-v4-vnni"),
        (V4 | {5: (5,)}, ZMM, "x86-64-v4"),
        (VNNI_BF16, ZMM, "x86-64-v4-vnni-bf16"),
        (AMX, TILES, "x86-64-v4-vnni-bf16-amx"),
        # The system must keep the registers.
        (VNNI_BF16, YMM, "x86-64-v3"),
        (VNNI_BF16, ZMM - 0x80, "x86-64-v3"),
        (VNNI_BF16, SSE, "x86-64-v2"),
        (VNNI_BF16, 0, "x86-64-v2"),
        (AMX, ZMM, "x86-64-v4-vnni-bf16"),
        (AMX, TILES - 0x20000, "x86-64-v4-vnni-bf16"),
        (AMX, TILES - 0x40000, "x86-64-v4-vnni-bf16"),
    ],
)
def test_each_kind_of_processor(bits: dict[int, tuple[int, ...]], xcr0: int, variant: str) -> None:
    has = features(numbers_of(bits, xcr0), arm=False)
    assert [name for name, needed in VARIANTS.items() if name[0] == "x" and has.issuperset(needed)][-1] == variant


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_feature_counts(number: int) -> None:
    for bit in V4[number]:
        less = V4 | {number: tuple(other for other in V4[number] if other != bit)}
        has = features(numbers_of(less, ZMM), arm=False)
        system = (number, bit) == (0, 27)  # the system's word that it has set XCR0, which is then read
        assert has.issuperset(VARIANTS["x86-64-v4"]) is system


def test_arm() -> None:
    """The bits are those of Linux (arch/arm64/include/uapi/asm/hwcap.h)."""
    dot_products = (1, 7, 8, 12, 20)
    assert features(numbers_of({0: (0, 1, 7)}), arm=True) == {"asimd", "crc32"}
    assert features(numbers_of({0: dot_products}), arm=True) == set(VARIANTS["armv8-dotprod"])
    assert features(numbers_of({0: dot_products, 1: (14,)}), arm=True) == set(VARIANTS["armv8-dotprod-bf16"])
    assert features(numbers_of({0: dot_products, 1: (13, 14)}), arm=True) == set(VARIANTS["armv8-dotprod-bf16-i8mm"])


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that says what processor this is."""
    path = tmp_path_factory.mktemp("processor") / "processor.so"
    compiler = find_compiler()
    assert compiler is not None
    subprocess.run([*compiler, "-shared", "-fPIC", str(SOURCE), "-o", str(path)], check=True)
    return path


def linux_flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next(line for line in lines if line.startswith(("flags", "Features"))).partition(":")[2].split())


@needs_compiler
@on_linux
def test_this_processor_has_what_linux_says(asking: Path) -> None:
    numbers = (ctypes.c_uint64 * 8)()
    ctypes.CDLL(str(asking)).locant_processor(numbers)
    arm = platform.machine() == "aarch64"
    flags = linux_flags()
    known = {name for needed in VARIANTS.values() for name in needed}
    expected = {name for name in known if LINUX_NAMES.get(name, name) in flags}
    assert features(list(numbers), arm=arm) == expected


@needs_compiler
@on_linux
@on_x86
def test_the_best_one_that_is_there_and_runs(asking: Path, tmp_path: Path) -> None:
    assert choose(tmp_path) is None
    runs = [
        name
        for name, needed in VARIANTS.items()
        if name.startswith("x86") and linux_flags().issuperset(LINUX_NAMES.get(feature, feature) for feature in needed)
    ]
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni-bf16", "x86-64-v4-vnni-bf16-amx"):
        shutil.copy(asking, variant_path(name, tmp_path))
        there = choose(tmp_path)
        assert there is not None
        assert there.path == variant_path(there.name, tmp_path)
        assert there.name == [other for other in runs if variant_path(other, tmp_path).exists()][-1]
        assert there.runs == tuple(other for other in runs if variant_path(other, tmp_path).exists())
        if name in runs:
            assert (there.name, there.lacking) == (name, {})
        else:
            lacking = [feature for feature in VARIANTS[name] if LINUX_NAMES.get(feature, feature) not in linux_flags()]
            assert there.lacking[name] == lacking


@needs_compiler
@on_linux
@on_x86
@pytest.mark.parametrize(
    ("xcr0", "error", "said"),
    [
        (TILES, 0, "1 1 0x1023 18"),
        (TILES, -1, "0 1 0x1023 18"),
        (ZMM, 0, "0 0 0 0"),
    ],
    ids=["lent", "refused", "not kept"],
)
def test_the_system_is_asked_for_tiles(tmp_path: Path, xcr0: int, error: int, said: str) -> None:
    """The numbers are those of Linux (Documentation/arch/x86/xstate.rst): ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA."""
    program = tmp_path / "asking"
    compiler = find_compiler()
    assert compiler is not None
    source = NATIVE / "asking.cpp"
    subprocess.run([*compiler, f"-I{SOURCE.parent}", source, "-o", program], check=True)
    run = subprocess.run([program, str(xcr0), str(error)], capture_output=True, text=True, check=True)
    assert run.stdout == f"{said}\n"


@needs_compiler
@on_linux
@on_x86
def test_the_environment_takes_another_one(asking: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCANT_KERNELS_VARIANT", "x86-64-v2")
    with pytest.raises(ConfigError, match="LOCANT_KERNELS_VARIANT"):
        choose(tmp_path)
    shutil.copy(asking, variant_path("x86-64-v2", tmp_path))
    best = choose(tmp_path)
    for name in ("x86-64-v3", "x86-64-v4-vnni-bf16"):
        shutil.copy(asking, variant_path(name, tmp_path))
    there = choose(tmp_path)
    assert best is not None
    assert there is not None
    assert there.name == best.name == "x86-64-v2"
    assert there.path == variant_path("x86-64-v2", tmp_path)
    assert not set(there.lacking) & set(there.runs)
    monkeypatch.setenv("LOCANT_KERNELS_VARIANT", "armv8")
    with pytest.raises(ConfigError, match=r"armv8.*x86-64-v2, x86-64-v3, "):
        choose(tmp_path)
    if "avx2" in linux_flags():
        monkeypatch.setenv("LOCANT_KERNELS_VARIANT", "x86-64-v3")
        assert choose(tmp_path).path == variant_path("x86-64-v3", tmp_path)
    monkeypatch.setattr(library, "features", lambda numbers, arm: {"sse3"})
    for asked in ("x86-64-v2", ""):
        monkeypatch.setenv("LOCANT_KERNELS_VARIANT", asked)
        with pytest.raises(ConfigError, match=r"ssse3, sse4\.1, "):
            choose(tmp_path)


@pytest.mark.parametrize("asked", ["", "x86-64-v2"])
def test_a_package_that_has_variants_builds_nothing(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "__defaults__", (tmp_path,))
    monkeypatch.setattr("locant.kernels.library.built_path", lambda: pytest.fail("something is built"))
    monkeypatch.setenv("LOCANT_KERNELS_VARIANT", asked)
    variant_path("x86-64-v2", tmp_path).write_bytes(b"half of a libra")
    fresh = Library()
    with pytest.raises(ConfigError, match=str(tmp_path)):
        fresh.load()
    assert not fresh.usable()
    monkeypatch.setenv("LOCANT_KERNELS_VARIANT", "armv8")
    with pytest.raises(ConfigError, match="armv8"):
        fresh.load()
