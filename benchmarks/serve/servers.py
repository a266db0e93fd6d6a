"""Servers of translations as processes on the loopback address: Locant's and LibreTranslate."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from locant.interop import export_argos

HOST = "127.0.0.1"
START_SECONDS = 180.0
_RULES = "import spacy, sys; spacy.blank('xx').to_disk(sys.argv[1])"


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        name: Whose it is.
        address: Where it answers.
        process: Its first process.
    """

    name: str
    address: str
    process: psutil.Process

    def megabytes(self) -> float:
        """Return the memory of all its processes; what they share counts once (PSS, on Linux)."""
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in processes) / 1e6

    def processor_seconds(self) -> float:
        """Return the processor time that its processes have taken."""
        times = [process.cpu_times() for process in (self.process, *self.process.children(recursive=True))]
        return sum(each.user + each.system for each in times)


@contextmanager
def locant(model: Path, source: str, target: str, *options: str) -> Iterator[Server]:
    """Run ``locant serve`` until the block ends."""
    command = [sys.executable, "-m", "locant", "serve", f"{source}-{target}={model}", "--host", HOST, *options]
    with _running("Locant", [*command, "--port"]) as server:
        yield server


@contextmanager
def libretranslate(program: Path, model: Path, source: str, target: str, work: Path) -> Iterator[Server]:
    """Run LibreTranslate with the weights of a model until the block ends.

    LibreTranslate downloads models of its own unless it finds two, so the package is there in both directions. What
    cuts text into sentences it fetches, too, unless it should use spaCy and each package brings an empty
    pipeline of spaCy's: then it cuts at full stops by spaCy's rules, which takes less time than a model.
    """
    store = work / "packages"
    store.mkdir(parents=True, exist_ok=True)
    for one, other in ((source, target), (target, source)):
        package = work / f"{one}-{other}.argosmodel"
        export_argos(model, package, source_language=one, target_language=other)
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(package), str(store)], check=True)
    for folder in store.iterdir():
        rules = [str(program.with_name("python")), "-c", _RULES, str(folder / "spacy")]
        subprocess.run(rules, check=True, capture_output=True)
    cached = work / "cache" / "argos-translate" / "spacy" / "senter" / "model"
    cached.parent.mkdir(parents=True)
    cached.touch()  # or it looks for a model that no package here asks for
    command = [str(program), "--host", HOST, "--disable-files-translation", "--threads", "64"]
    own = {f"XDG_{kind.upper()}_HOME": str(work / kind) for kind in ("cache", "data", "config")}
    variables = {**own, "ARGOS_PACKAGES_DIR": str(store), "ARGOS_CHUNK_TYPE": "SPACY"}
    with _running("LibreTranslate", [*command, "--port"], **variables) as server:
        yield server


@contextmanager
def _running(name: str, command: list[str], **environment: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    started = subprocess.Popen(
        [*command, str(port)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = Server(name, f"http://{HOST}:{port}", psutil.Process(started.pid))
    try:
        end = time.monotonic() + START_SECONDS
        while not _answers(f"{server.address}/languages"):
            if started.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{name} did not start: {' '.join(command)}")
            time.sleep(0.2)
        yield server
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
