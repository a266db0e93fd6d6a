"""The page about a new scheme, done as it says: its blocks run, and a package with its entry point is found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "new-scheme.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder on the path like one that pip has installed the page's package into."""
    (tmp_path / "window_bias.py").write_text(blocks("python")[0], encoding="utf-8")
    (entry,) = re.findall(r"^(window-bias) = \"(.*)\"$", blocks("toml")[0], re.MULTILINE)
    write_entry_points(tmp_path, f"{entry[0]} = {entry[1]}")
    return tmp_path


def write_entry_points(folder: Path, *lines: str) -> None:
    info = folder / "window_bias-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: window-bias\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(("[locant.schemes]", *lines)) + "\n", encoding="utf-8")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(folder), *sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


def test_forty_lines_are_enough() -> None:
    for block in blocks("python")[:2]:
        assert len([line for line in block.splitlines() if line.strip()]) <= 40


@pytest.mark.slow
def test_an_installed_package_is_known_to_the_commands(package: Path) -> None:
    found = run(package, "-m", "locant", "positions", "window-bias", "--json")
    assert found.returncode == 0, found.stderr
    described = json.loads(found.stdout)["window-bias"]
    assert (described["paper"], described["options"], described["places"]) == (
        "Locant 2026",
        {"window": 64},
        ["scores"],
    )
    code = (
        "from locant.lab.variants import all_schemes, position_fields\n"
        "assert 'window-bias' in all_schemes()\n"
        "print(position_fields('window-bias', head_dim=8, trained=40, longest=100))\n"
    )
    assert run(package, "-c", code).stdout == "{'position': 'window-bias', 'position_options': {'window': 40}}\n"


def test_an_entry_point_that_fails_is_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n", encoding="utf-8")
    write_entry_points(
        tmp_path, "mended = broken:Scheme", "alibi = locant.positions.scores.shaw:Shaw", "wrong = json:dumps"
    )
    code = "from locant.positions import SCHEMES; print('mended' in SCHEMES, SCHEMES['alibi'].title)"
    found = run(tmp_path, "-c", code)
    assert (found.returncode, found.stdout) == (0, "False ALiBi\n")
    assert "'mended' of the package window-bias cannot be used" in found.stderr
    assert "broken:Scheme failed with ModuleNotFoundError: No module named 'no_such_module'" in found.stderr
    assert "There is a positional scheme 'alibi' already: locant.positions.scores.alibi.ALiBi" in found.stderr
    assert "'wrong' must be a class derived from PositionScheme" in found.stderr
