"""Products on AMX tiles, whose instructions are emulated in plain C++: they are there on few machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from with_kernels import needs_compiler

from locant.kernels import variants
from locant.kernels.building import find_compiler

NATIVE = Path(__file__).parent / "native"
KERNELS = Path(variants.__file__).parent
CPUINFO = Path("/proc/cpuinfo")


def has_narrow_products() -> bool:
    return CPUINFO.exists() and {"avx512_vnni", "avx512_bf16"} <= set(CPUINFO.read_text().split())


@needs_compiler
@pytest.mark.skipif(not has_narrow_products(), reason="compares with AVX-512 VNNI and BF16")
def test_tiles_give_what_avx512_gives(tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    program = tmp_path / "tiles"
    flags = ["-std=c++17", "-O1", "-march=native", "-fopenmp-simd", "-DLOCANT_EMULATED_TILES", f"-I{KERNELS}"]
    subprocess.run([*compiler, *flags, f"-I{NATIVE}", NATIVE / "tiles.cpp", "-o", program], check=True)
    run = subprocess.run([program, "1", "150"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert run.stdout == "150 rounds of seed 1\n"
