"""The wheels that ``make wheel`` has put into the folder LOCANT_WHEELS; skipped without one.

Each variant that this processor runs is compared with the least one, those of aarch64 under an emulator
(``qemu-aarch64-static``, whose processor ``max`` has dot products and bfloat16); those with AVX-512 are only looked at
where the processor lacks it, because the emulator lacks it too.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from array import array
from itertools import groupby
from pathlib import Path

import pytest
import torch

from locant.kernels.library import VARIANTS, choose

WHEELS = os.environ.get("LOCANT_WHEELS")
DRIVER = Path(__file__).parents[1] / "kernels" / "native" / "values.cpp"
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
pytestmark = [
    pytest.mark.skipif(WHEELS is None, reason="tests the wheels of make wheel"),
    pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="wants x86-64 and Linux"),
]
ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm"}
# The largest difference of float32 results; those of narrower products, from those of float32.
TOLERANCES = {"float32": 2e-4, "bfloat16": 0.2, "int8": 0.4}


def wheel(architecture: str) -> Path:
    (found,) = Path(str(WHEELS)).glob(f"locant-*-py3-none-manylinux_2_28_{architecture}.whl")
    return found


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of the libraries of each architecture."""
    folders = {}
    for architecture in ARCHITECTURES:
        folder = tmp_path_factory.mktemp(architecture)
        with zipfile.ZipFile(wheel(architecture)) as archive:
            archive.extractall(folder)
        folders[architecture] = folder / "locant" / "kernels" / "variants"
    return folders


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_variant_is_there_and_asks_for_an_old_system(architecture: str, unpacked: dict[str, Path]) -> None:
    names = {path.stem.removeprefix("locant_kernels-") for path in unpacked[architecture].iterdir()}
    assert names == {name for name in VARIANTS if name.startswith(ARCHITECTURES[architecture])}
    run = subprocess.run(["auditwheel", "show", wheel(architecture)], capture_output=True, text=True, check=True)
    older = re.search(rf'"manylinux_2_(\d+)_{architecture}"', run.stdout)
    assert older is not None, run.stdout
    assert int(older[1]) <= 28
    for path in unpacked[architecture].iterdir():
        asked = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        needed = {line.split("[")[1].rstrip("]") for line in asked.splitlines() if "(NEEDED)" in line}
        assert all(name.startswith(("libc.", "libm.", "libpthread.", "libdl.", "ld-linux")) for name in needed)
        symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
        assert all(line.split()[-1].startswith("locant_") for line in symbols.stdout.splitlines())


def test_only_the_variant_for_tiles_has_their_instructions(unpacked: dict[str, Path]) -> None:
    for path in unpacked["x86_64"].iterdir():
        listing = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
        found = set(re.findall(r"\b(ldtilecfg|tileloadd|tilestored|tdpbusd|tdpbf16ps|tilerelease)\b", listing))
        assert len(found) == (6 if path.stem.endswith("amx") else 0), found


def values(command: list[str | Path]) -> dict[str, torch.Tensor]:
    """Run the driver; return the numbers after each of its headings, which may come several times."""
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: dict[str, list[float]] = {}
    heading = ""
    for is_heading, lines in groupby(run.stdout.splitlines(), lambda line: line.startswith("#")):
        if is_heading:
            *_, heading = lines
        else:
            found.setdefault(heading, []).extend(map(float, lines))
    return {key: torch.tensor(numbers) for key, numbers in found.items()}


def compare(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert "# step in float32" in found
    for heading, numbers in found.items():
        precision = heading.rpartition(" ")[2]
        reference = expected["# step in float32" if heading.startswith("# step") else heading]
        assert numbers.isfinite().all()
        tolerance = TOLERANCES.get(precision, TOLERANCES["float32"])
        torch.testing.assert_close(numbers, reference, atol=tolerance, rtol=1e-4, msg=lambda m, h=heading: f"{h}: {m}")


def driver(architecture: str, folder: Path) -> Path:
    program = folder / f"values-{architecture}"
    # -s as for the libraries, so that Zig takes the C++ library that it has built for them.
    command = ["python-zig", "c++", "-target", f"{architecture}-linux-gnu.2.28", "-std=c++17", "-O1", "-s", DRIVER]
    subprocess.run([*command, "-o", program, "-ldl"], check=True)
    return program


def test_variants_of_this_processor_agree(unpacked: dict[str, Path], tmp_path: Path) -> None:
    best = choose(unpacked["x86_64"])
    assert best is not None
    program = driver("x86_64", tmp_path)
    found = {}
    for path in sorted(unpacked["x86_64"].iterdir()):
        name = path.stem.removeprefix("locant_kernels-")
        if name not in best.lacking:
            found[name] = values([program, path])
    assert {"x86-64-v2", best.name} <= found.keys()
    for name in found:
        compare(found[name], found["x86-64-v2"])


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-aarch64")
def test_variants_of_aarch64_agree_under_an_emulator(unpacked: dict[str, Path], tmp_path: Path) -> None:
    expected = values([driver("x86_64", tmp_path), unpacked["x86_64"] / "locant_kernels-x86-64-v2.so"])
    program = driver("aarch64", tmp_path)
    root = os.environ.get("LOCANT_AARCH64_ROOT", "/usr/aarch64-linux-gnu")
    in_int8 = []
    for path in unpacked["aarch64"].iterdir():
        found = values([str(EMULATOR), "-L", root, "-cpu", "max", program, path])
        compare(found, expected)
        assert ("# step in int8" in found) is ("dotprod" in path.name)
        assert ("# step in bfloat16" in found) is ("bf16" in path.name)
        if "dotprod" in path.name:
            in_int8.append(found["# step in int8"])
    assert len(in_int8) == 3
    assert all(torch.equal(one, in_int8[0]) for one in in_int8), "matrices and dot products have the same sums"


def test_only_the_variants_for_matrices_have_their_instructions(unpacked: dict[str, Path]) -> None:
    """In the code of Arm's manual (DDI 0487, C7.2): all but the numbers of the three registers."""
    codes = {0x4E80A400: "smmla", 0x6E40EC00: "bfmmla"}
    for path in unpacked["aarch64"].iterdir():
        content = path.read_bytes()
        words = array("I", content[: len(content) // 4 * 4])
        found = {codes[code] for word in words if (code := word & 0xFFE0FC00) in codes}
        features = path.stem.split("-")
        assert found == {name for name, feature in (("smmla", "i8mm"), ("bfmmla", "bf16")) if feature in features}


def test_a_machine_without_a_compiler(tmp_path: Path) -> None:
    """The jobs of the README with kernels, and nothing is built."""
    venv.create(tmp_path / "venv", with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel("x86_64")],
        check=True,
    )
    # torch and the rest, which are found after what is installed here.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-I", Path(__file__).with_name("readme_jobs.py")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "the jobs of the README are done"
    assert str(site) in run.stdout
    assert not (tmp_path / "cache" / "locant" / "kernels").exists()
