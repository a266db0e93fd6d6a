"""`locant serve` as processes: begin, answer, reload, replace a worker, drain and end."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from contextlib import closing, contextmanager

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from processes import start_locant
from served import tiny_translator

FIELDS = {"q": "alpha beta", "source": "de", "target": "en"}
PATIENCE = 120  # seconds that anything here may take on a busy machine


class Server:
    """A running server."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    @property
    def entries(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def wait_for(self, condition):
        latest = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < latest, self.log.read_text()
            time.sleep(0.02)
        return found

    @property
    def address(self):
        found = self.wait_for(lambda: re.search(r"The server is at (http\S+) ", self.log.read_text()))
        return found[1].rstrip("/")

    def events(self, name):
        return [entry for entry in self.entries if entry["event"] == name]

    def workers(self):
        return [entry["process"] for entry in self.events("worker begins")]

    def signal(self, number):
        os.kill(self.process.pid, number)

    def ask(self, **fields):
        return httpx.post(f"{self.address}/translate", json={**FIELDS, **fields}, timeout=PATIENCE)


@contextmanager
def running(folder, log, *options):
    arguments = ["serve", folder, "--port", 0, "--engine", "pytorch", "--device", "cpu", *options]
    log.touch()
    process = start_locant(arguments, log)
    server = Server(process, log)
    try:
        yield server
    finally:
        if process.is_alive():
            server.signal(signal.SIGTERM)
            process.join(PATIENCE)
        process.kill()
        process.join(PATIENCE)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "de-en"
    tiny_translator().save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "de-en")


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_lives_through_reload_and_a_killed_worker_and_drains(folder, tmp_path):
    with running(folder, tmp_path / "log", "--rows", 2) as server:
        before = tiny_translator().translate("alpha beta")
        assert server.ask().json() == {"translatedText": before}
        first = server.workers()
        assert len(first) == 1

        # A client that was written for LibreTranslate.
        client = LibreTranslateAPI(server.address)
        assert client.translate("alpha beta", "de", "en") == before
        assert client.languages()[0]["code"] == "de"
        assert client.detect("Ein Mann reitet auf einem Pferd.")[0]["language"] == "de"

        # A worker that is killed is replaced.
        os.kill(first[0], signal.SIGKILL)
        server.wait_for(lambda: len(server.workers()) == 2)
        assert server.ask().json() == {"translatedText": before}

        # A model that cannot be read leaves everything as it is.
        config = (folder / "config.json").read_text()
        (folder / "config.json").write_text("{")
        server.signal(signal.SIGHUP)
        server.wait_for(lambda: any("keeping worker" in entry["event"] for entry in server.entries))
        assert server.ask().json() == {"translatedText": before}

        # Another model takes over, and no request fails meanwhile.
        (folder / "config.json").write_text(config)
        tiny_translator(seed=1).save_pretrained(folder)
        after = tiny_translator(seed=1).translate("alpha beta")
        assert after != before
        answers, failures, stop = [], [], threading.Event()

        def ask_again():
            with httpx.Client(timeout=PATIENCE) as client:
                while not stop.is_set():
                    try:
                        answer = client.post(f"{server.address}/translate", json=FIELDS)
                        answers.append((answer.status_code, answer.json().get("translatedText")))
                    except httpx.HTTPError as error:
                        failures.append(repr(error))
                    time.sleep(0.02)

        asking = threading.Thread(target=ask_again)
        asking.start()
        server.signal(signal.SIGHUP)
        server.wait_for(lambda: server.ask().json() == {"translatedText": after})
        server.wait_for(lambda: not any(map(is_alive, first)))
        stop.set()
        asking.join(PATIENCE)
        assert not failures
        assert {status for status, _ in answers} == {200}
        assert {text for _, text in answers} <= {before, after}

        # On SIGTERM what is there is finished, and what is new refused.
        answers.clear()
        long = threading.Thread(target=lambda: answers.append(server.ask(q=different_sentences(100))))
        long.start()
        address = server.address
        server.wait_for(lambda: working(address))
        server.signal(signal.SIGTERM)
        long.join(PATIENCE)
        assert answers[0].status_code == 200
        server.process.join(PATIENCE)
        assert server.process.exitcode == 0
    assert "alpha" not in (tmp_path / "log").read_text()


def different_sentences(number):
    """Return sentences that differ, for equal ones are translated once."""
    words = itertools.product(("alpha", "beta", "gamma", "delta"), repeat=6)
    return "".join(" ".join(each) + ".\n" for each in itertools.islice(words, number))


def working(address):
    """Whether a sentence is being translated or waits."""
    page = httpx.get(f"{address}/metrics", timeout=PATIENCE).text
    return sum(map(float, re.findall(r"locant_waiting_sentences\{\S+\} (\S+)", page))) > 0


def test_who_goes_away_leaves_the_queue_and_a_second_signal_ends(folder, tmp_path):
    head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with running(folder, tmp_path / "log", "--rows", 2) as server:
        host, port = server.address.removeprefix("http://").split(":")
        body = json.dumps({**FIELDS, "q": different_sentences(2_000)}).encode()
        with closing(socket.create_connection((host, int(port)))) as gone:
            gone.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_for(lambda: working(server.address))
        server.wait_for(lambda: not working(server.address))
        with closing(socket.create_connection((host, int(port)))) as busy:
            busy.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_for(lambda: working(server.address))
            server.signal(signal.SIGTERM)
            server.wait_for(lambda: server.events("draining"))
            server.wait_for(lambda: server.ask().status_code == 503)
            server.signal(signal.SIGTERM)
            server.process.join(PATIENCE)
            assert not server.process.is_alive()


def test_many_clients_lose_nothing_when_the_server_ends(folder, tmp_path):
    """What was sent before the signal is answered; after it there are answers and 503, and then no connection."""
    with running(folder, tmp_path / "log", "--rows", 2, "--workers", 2) as server:
        answers, lost, stop = [], [], threading.Event()
        address = server.address

        def ask():
            with httpx.Client(timeout=PATIENCE) as client:
                while not stop.is_set():
                    try:
                        answers.append(client.post(f"{address}/translate", json=FIELDS).status_code)
                    except httpx.HTTPError as error:
                        if not (isinstance(error, httpx.ConnectError) and "refused" in str(error).lower()):
                            lost.append(repr(error))
                        return  # nobody listens any more

        asking = [threading.Thread(target=ask) for _ in range(12)]
        for thread in asking:
            thread.start()
        server.wait_for(lambda: len(answers) > 50)
        page = httpx.get(f"{address}/metrics", timeout=PATIENCE).text  # any worker tells the numbers of all of them
        counted = re.findall(r'locant_requests_total\{route="/translate",status="200"\} (\S+)', page)
        assert sum(map(float, counted)) > 50
        assert len(server.workers()) == 2
        server.signal(signal.SIGTERM)
        server.process.join(PATIENCE)
        stop.set()
        for thread in asking:
            thread.join(PATIENCE)
        assert server.process.exitcode == 0
        assert not lost
        assert set(answers) <= {200, 503}


def test_another_engine_answers_and_workers_end_with_the_process_above_them(folder, tmp_path):
    pytest.importorskip("ctranslate2")
    with running(folder, tmp_path / "log", "--engine", "ctranslate2", "--request-seconds", 60) as server:
        assert server.ask().status_code == 200
        other = {"host": "evil.example"}
        answer = httpx.post(f"{server.address}/translate", json=FIELDS, headers=other, timeout=PATIENCE)
        assert answer.status_code == 403
        (worker,) = server.workers()
        server.signal(signal.SIGKILL)
        server.wait_for(lambda: not is_alive(worker))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{model}", "{model}"], "Both"),
        (["{model}", "--characters", "0"], "characters"),
        (["{model}", "--keys", "{model}/config.json"], "config.json"),
        (["{model}", "--port", "{port}"], "{port}"),
    ],
)
def test_mistakes_are_said_before_anything_is_served(folder, tmp_path, arguments, words):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"model": folder, "port": taken.getsockname()[1]}
        given = [argument.format(**names) for argument in arguments]
        process = start_locant(["serve", *given, "--engine", "pytorch"], tmp_path / "log")
        process.join(PATIENCE)
    assert process.exitcode in (1, 2)
    printed = (tmp_path / "log").read_text()
    assert words.format(**names) in printed
    assert "Traceback" not in printed
