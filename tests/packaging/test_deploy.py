"""The files of ``deploy``, by the linters of their formats where these are installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
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


def test_the_unit_lets_the_service_do_little():
    """Exposure as systemd rates it, in tenths: 0 to 100; above 20 it calls a service less than safe."""
    checked(program("systemd-analyze"), "security", "--offline=true", "--threshold=20", "--no-pager", UNIT)


def test_the_unit_lets_torch_see_the_processor():
    """Without /proc/cpuinfo it takes the processor for one without vector instructions."""
    assert "ProcSubset" not in UNIT.read_text()


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


def test_the_image_is_the_same_whenever_it_is_built():
    """Bases of a full version, and packages as they are locked."""
    lines = DOCKERFILE.read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases
    assert all(re.search(r":\d+\.\d+\.\d+-|@sha256:", base) for base in bases)
    installs = [line for line in lines if "pip install" in line and not line.startswith("#")]
    assert installs
    assert all("--constraint locked.txt" in line for line in installs)


def test_what_a_service_may_take_is_limited():
    service = yaml.safe_load(COMPOSE.read_text())["services"]["locant"]
    assert {"mem_limit", "pids_limit"} <= set(service)
    assert all("size=" in place for place in service["tmpfs"])
    assert {"MemoryMax", "TasksMax", "LimitNOFILE"} <= {
        line.partition("=")[0] for line in UNIT.read_text().splitlines()
    }


def instruction(name: str) -> list[str]:
    """The words of an instruction of the Dockerfile that is there once, in its form of a list."""
    lines = DOCKERFILE.read_text().replace("\\\n", " ").splitlines()
    (found,) = [line for line in lines if line.startswith(f"{name} ")]
    words: list[str] = json.loads(found[found.index("[") :])
    return words


def test_the_port_is_the_same_everywhere():
    entry = instruction("ENTRYPOINT")
    port = entry[entry.index("--port") + 1]
    assert f"EXPOSE {port}\n" in DOCKERFILE.read_text()
    service = yaml.safe_load(COMPOSE.read_text())["services"]["locant"]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"--port {port} " in service["command"][2]


def test_the_health_check_asks_the_server(monkeypatch):
    interpreter, option, code = instruction("HEALTHCHECK")
    entry = instruction("ENTRYPOINT")
    port = entry[entry.index("--port") + 1]
    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda address, timeout: asked.append((address, timeout)))
    exec(compile(code, str(DOCKERFILE), "exec"), {})
    assert (interpreter, option) == ("python", "-c")
    assert asked == [(f"http://127.0.0.1:{port}/health", 4)]


def test_the_composition_runs_a_command_that_a_shell_can_read():
    shell, option, command = yaml.safe_load(COMPOSE.read_text())["services"]["locant"]["command"]
    assert (shell, option) == ("sh", "-c")
    # Compose writes a dollar as two; what the shell makes of the variable is one word a model.
    command = command.replace("$$", "$").replace("exec locant", "printf '%s\\n'")
    found = subprocess.run(
        [program("sh"), "-euc", command],
        env={"MODELS": "en-de de-en", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split("\n") == ["serve", "--host", "0.0.0.0", "--port", "5000", "en-de", "de-en", ""]


def test_commands_have_options_that_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    known = capsys.readouterr().out
    service = yaml.safe_load(COMPOSE.read_text())["services"]["locant"]
    texts = " ".join(service["command"]) + UNIT.read_text() + DOCKERFILE.read_text()
    options = {word.strip('",') for word in texts.split() if word.strip('",').startswith("--")}
    serve = {option for option in options if option in ("--host", "--port", "--keys", "--workers")}
    assert serve >= {"--host", "--port"}
    assert all(option in known for option in serve)
