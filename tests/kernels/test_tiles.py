"""Products on AMX tiles: their machine code, and what they give where instructions that are missing are emulated."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from with_kernels import needs_compiler

from locant.kernels import library
from locant.kernels.library import find_compiler

NATIVE = Path(__file__).parent / "native"
KERNELS = Path(library.__file__).parent
CPUINFO = Path("/proc/cpuinfo")

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(
        platform.system() != "Linux" or platform.machine() != "x86_64", reason="AMX is used by Linux on x86-64"
    ),
]

# As Intel's manual (volume 2) encodes them: a prefix of three bytes, in whose last one is the tile of weights, the
# operation, and the operands. Addresses are those of a function's first two arguments.
MACHINE_CODE = {
    "LDTILECFG [rdi]": "c4e2784907",
    "TILERELEASE": "c4e27849c0",
    "TILEZERO tmm3": "c4e27b49d8",
    "TILELOADD tmm5, [rdi + rsi]": "c4e27b4b2c37",
    "TILESTORED [rdi + rsi], tmm2": "c4e27a4b1437",
    "TDPBUSD tmm0, tmm4, tmm6": "c4e2495ec4",
    "TDPBF16PS tmm3, tmm5, tmm7": "c4e2425cdd",
}
INSTRUCTIONS = ("__AVX512VNNI__", "__AVX512BF16__", "__AMX_INT8__", "__AMX_BF16__")


def built(name: str, to: Path, flags: Sequence[str]) -> Path:
    compiler = find_compiler()
    assert compiler is not None
    common = ["-std=c++17", "-O1", "-fopenmp-simd", "-Wno-psabi", f"-I{KERNELS}", f"-I{NATIVE}"]
    subprocess.run([*compiler, *common, *flags, NATIVE / name, "-o", to], check=True)
    return to


def test_instructions_are_encoded_as_the_manual_says(tmp_path: Path) -> None:
    """Which operand is which no emulation shows: activations have no sign, weights have one."""
    flags = ["-c", "-O2", "-fcf-protection=none", *(f"-D{name}=1" for name in INSTRUCTIONS)]
    code = built("tile_code.cpp", tmp_path / "code.o", flags).read_bytes()
    for instruction, expected in MACHINE_CODE.items():
        assert bytes.fromhex(f"{expected}c3") in code, instruction  # and the function returns


@pytest.mark.slow
def test_tiles_give_what_avx512_gives(tmp_path: Path) -> None:
    flags = ["-march=native", "-DLOCANT_EMULATED_TILES"]
    if not {"avx512_vnni", "avx512_bf16"} <= set(CPUINFO.read_text().split()):
        flags += ["-include", str(NATIVE / "emulated_avx512.h")]
    program = built("tiles.cpp", tmp_path / "tiles", flags)
    run = subprocess.run([program, "1", "150"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert run.stdout == "150 rounds of seed 1\n"
