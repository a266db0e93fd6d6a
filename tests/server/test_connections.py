"""Connections: what may come outside of bodies, how long a head may take, and how they end."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from served import tiny_models

from locant.server import build_app, serving
from locant.server.serving import Connection

PATIENCE = 60  # seconds that anything here may take on a busy machine
HEAD = b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
BODY = b'{"q": "alpha"}'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class Running:
    """A server in a thread of this process."""

    def __init__(self):
        app = build_app(tiny_models())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.server = uvicorn.Server(uvicorn.Config(app, http=Connection, log_config=None, proxy_headers=False))
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],), daemon=True)
        self.address = self.listener.getsockname()

    def connect(self):
        found = socket.create_connection(self.address)
        found.settimeout(PATIENCE)
        return found

    def ask(self, *parts):
        """Return the status of the answer to what is sent on a connection of its own; 0 where it is closed."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return status(connection)


def status(connection):
    try:
        words = connection.recv(65_536).split()
    except ConnectionResetError:
        words = []
    return int(words[1]) if words else 0


@contextmanager
def running():
    found = Running()
    found.thread.start()
    try:
        yield found
    finally:
        found.server.should_exit = True
        found.thread.join(PATIENCE)


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "_HEAD_SECONDS", 1)
        with running() as found:
            yield found


LARGE = b"a" * 600_000


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([HEAD + b"Content-Length: 14\r\nX: " + LARGE[:30_000] + b"\r\n\r\n" + BODY], 200),
        ([HEAD + b"X: " + LARGE], 400),
        ([b"GET /" + LARGE], 400),
        ([HEAD + b"".join(b"X: a\r\n" for _ in range(99_000))], 400),
        ([CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\n\r\n"], 200),
        ([CHUNKED, b"e;" + LARGE], 400),
        ([HEAD.replace(b"HTTP/1.1", b"") + b"\r\n"], 400),
    ],
)
def test_what_is_no_body_is_limited(server, parts, expected):
    assert server.ask(*parts) == expected


def test_a_silent_connection_is_closed_and_one_that_asks_is_not(server):
    with server.connect() as silent, server.connect() as slow, server.connect() as lively:
        slow.sendall(b"GET /hea")
        latest = time.monotonic() + 2.5
        while time.monotonic() < latest:
            lively.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert status(lively) == 200
            time.sleep(0.3)
        assert status(silent) == status(slow) == 0
        # A head that begins after an answer has its time, too.
        lively.sendall(b"GET /hea")
        assert status(lively) == 0


def test_a_connection_that_is_open_at_the_end_is_answered_once_more():
    with running() as server, server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status(connection) == 200
        server.server.should_exit = True
        while not server.listener._closed:
            time.sleep(0.01)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        assert connection.recv(100) == b""
