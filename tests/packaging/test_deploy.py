"""The files of ``deploy``, by the linters of their formats where these are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from locant.cli import main

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT, DOCKERFILE, COMPOSE = (DEPLOY / name for name in ("locant.service", "Dockerfile", "compose.yaml"))


def program(name: str) -> str:
    found = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def checked(*command: str | Path) -> None:
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert not found.stderr.strip(), found.stderr


def test_the_unit_is_one_for_systemd(tmp_path):
    # The program need not be installed to check its unit.
    unit = UNIT.read_text().replace("/opt/locant/bin/locant", sys.executable)
    (tmp_path / UNIT.name).write_text(unit)
    checked(program("systemd-analyze"), "verify", tmp_path / UNIT.name)


def test_the_dockerfile_passes_hadolint():
    checked(program("hadolint"), DOCKERFILE)


def test_the_composition_fits_its_schema():
    checked(program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_the_image_has_all_that_is_built_from():
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for line in DOCKERFILE.read_text().splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--"):
            copied |= {word.removeprefix("./") for word in words[1:-1]}
    assert copied == kept
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_commands_have_options_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    known = capsys.readouterr().out
    service = yaml.safe_load(COMPOSE.read_text())["services"]["locant"]
    told = " ".join(service["command"]) + UNIT.read_text() + DOCKERFILE.read_text()
    options = {word.strip('",') for word in told.split() if word.strip('",').startswith("--")}
    serve = {option for option in options if option in ("--host", "--port", "--keys", "--workers")}
    assert serve >= {"--host", "--port"}
    assert all(option in known for option in serve)
