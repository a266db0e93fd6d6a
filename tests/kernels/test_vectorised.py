"""Every loop that is marked to be vectorised is, in every variant: GCC says which it could not."""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).parents[2]
_KERNELS = _ROOT / "src" / "locant" / "kernels"
_SAID = re.compile(r"(?:.*/)?([\w.]+):(\d+):\d+: (?:optimized|missed): +(.*)")


def _hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", _ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marked_loops(source: str) -> list[tuple[int, int]]:
    """Return the first and last line of each loop behind `omp simd`."""
    lines, found = source.splitlines(), []
    for number, line in enumerate(lines):
        if "#pragma omp simd" not in line:
            continue
        depth, end = 0, number
        while True:
            end += 1
            for sign in lines[end]:
                depth += (sign in "({") - (sign in ")}")
            if depth == 0 and lines[end].rstrip().endswith((";", "}")):
                break
        found.append((number + 2, end + 1))
    return found


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("g++") is None, reason="needs GCC on x86-64")
@pytest.mark.parametrize("variant", _hook()._X86)
def test_every_marked_loop_is_vectorised(variant: str, tmp_path: Path) -> None:
    hook = _hook()
    flags = [*hook._FLAGS, *hook._POSITION_INDEPENDENT, *hook._X86[variant], "-fopt-info-vec", "-fopt-info-vec-missed"]

    def compiled(source: Path) -> str:
        command = ["g++", *flags, "-c", str(source), "-o", str(tmp_path / f"{source.stem}.o")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr

    said: dict[str, list[tuple[int, str]]] = defaultdict(list)
    with ThreadPoolExecutor(2) as threads:
        for lines in threads.map(compiled, _KERNELS.glob("*.cpp")):
            for found in filter(None, map(_SAID.match, lines.splitlines())):
                said[found[1]].append((int(found[2]), found[3]))
    missed = []
    for file in sorted([*_KERNELS.glob("*.cpp"), *_KERNELS.glob("*.h")]):
        for first, last in marked_loops(file.read_text(encoding="utf-8")):
            inside = [sentence for line, sentence in said[file.name] if first <= line <= last]
            is_slow = any("couldn't vectorize loop" in each or "gather" in each for each in inside)
            if is_slow or not any("loop vectorized" in each for each in inside):
                missed.append(f"{file.name}:{first}")
    assert not missed
