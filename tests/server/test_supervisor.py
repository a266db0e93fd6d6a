"""The process above the workers, where a worker hangs."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from pathlib import Path

import pytest

from locant.server import ServerSettings, supervisor
from locant.server.logs import json_log
from locant.server.supervisor import Supervisor

LOG = logging.getLogger("locant.server")
PATIENCE = 60  # seconds


def supervise(log):
    """Workers that ignore what they are told; those of the second models never answer."""
    supervisor._GRACE = 0.2
    settings = ServerSettings.parse({"limits": {"begin_seconds": 0.5, "request_seconds": 0.1}}, "test")
    loaded = []

    def load(settings):
        loaded.append(settings)
        return len(loaded)

    def work(number, settings, lifeline, ready):
        for told in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(told, signal.SIG_IGN)
        if number != 2:
            os.write(ready, b"1")
        while True:
            signal.pause()

    with log.open("w") as stream, json_log(stream), socket.create_server(("127.0.0.1", 0)) as listener:
        Supervisor(listener, lambda: settings, load, work, lambda: LOG.info("begun")).run()


def test_workers_that_hang_are_killed(tmp_path):
    log = tmp_path / "log"
    process = multiprocessing.get_context("fork").Process(target=supervise, args=(log,))
    process.start()

    def wait_for(event, count=1):
        latest = time.monotonic() + PATIENCE
        while True:
            lines = log.read_text().splitlines() if log.exists() else []
            if [json.loads(line)["event"] for line in lines].count(event) >= count:
                return
            assert time.monotonic() < latest, lines
            time.sleep(0.02)

    try:
        wait_for("begun")
        # One that does not begin leaves the others as they are, and another reload can follow.
        os.kill(process.pid, signal.SIGHUP)
        wait_for("not reloaded")
        wait_for("a worker hangs")
        os.kill(process.pid, signal.SIGHUP)
        wait_for("reloaded")
        # One that does not retire is ended.
        wait_for("a worker hangs", 2)
        # One that does not end is ended.
        os.kill(process.pid, signal.SIGTERM)
        process.join(PATIENCE)
        assert process.exitcode == 0
        wait_for("a worker hangs", 3)
    finally:
        process.kill()


@pytest.mark.parametrize("there", [True, False])
def test_numbers_of_workers_are_kept_in_memory_where_there_is_a_folder_for_it(there, tmp_path, monkeypatch):
    """Files that are mapped, on a disk that is full, would end every worker."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    disk.mkdir()
    if there:
        memory.mkdir()
    monkeypatch.setattr(supervisor, "_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    with supervisor.RunFolder() as folder:
        numbers = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
        assert numbers.is_dir()
        assert numbers.is_relative_to(memory if there else disk)
        assert folder.files.is_dir()
        assert folder.files.is_relative_to(disk)
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
    assert not list(disk.iterdir())
    assert not numbers.exists()
