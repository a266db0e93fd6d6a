"""HTTP as it comes over a connection: heads without an end, requests that two readers could read in two ways."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
import uvicorn
from starlette.requests import Request

from locant.server import LimitSettings
from locant.server.envelope import json_error
from locant.server.protocol import GatheringTransport, bounded_protocol
from locant.server.reading import RequestError, read_body
from locant.server.worker import close_silent

MOST = 4_000
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body of a request."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    for start in range(0, len(body), 65_536):
        await send({"type": "http.response.body", "body": body[start : start + 65_536], "more_body": True})
    await send({"type": "http.response.body"})


async def limited(scope: Any, receive: Any, send: Any) -> None:
    """Refuses bodies of more than a thousand bytes."""
    request = Request(scope, receive)
    try:
        await read_body(request, 1_000, 30)
    except RequestError as error:
        await json_error(error.status, str(error), {"connection": "close"})(scope, receive, send)


@contextmanager
def running(kind: type[uvicorn.Server], app: Any = echo) -> Iterator[tuple[str, int]]:
    """Run a server in a thread and yield its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    protocol = bounded_protocol(MOST)
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_config=None, server_header=False)
    server = kind(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield listening.getsockname()
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with running(uvicorn.Server) as found:
        yield found


def answers(address: tuple[str, int], *parts: bytes) -> bytes:
    """Return all that comes back for what is sent, until the connection is closed."""
    found = b""
    with socket.create_connection(address) as connection:
        connection.settimeout(30)
        for number, part in enumerate(parts):
            if number:
                time.sleep(0.05)  # for it to arrive by itself
            connection.sendall(part)
        while data := connection.recv(65_536):
            found += data
    return found


def test_whoever_does_not_read_the_answer_loses_the_connection():
    closed = threading.Event()

    class Closing(uvicorn.Server):
        async def startup(self, sockets=None):
            self.closing = asyncio.create_task(close_silent(self, LimitSettings(head_seconds=0.6)))
            self.watching = asyncio.create_task(self.watch())
            await super().startup(sockets)

        async def watch(self):
            for expected in (True, False):  # one comes, and is gone
                while bool(self.server_state.connections) != expected:
                    await asyncio.sleep(0.01)
            closed.set()

    with running(Closing) as (host, port), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(30)
        connection.connect((host, port))
        size = 16_000_000  # more than the system takes in between
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
        assert closed.wait(60)
        found = 0
        with suppress(ConnectionResetError):
            while data := connection.recv(1 << 20):
                found += len(data)
        assert found < size  # what the system had taken


def test_whoever_sends_too_much_reads_why_it_is_refused():
    size = HEAD + b"Content-Length: 8000000\r\n"
    with running(uvicorn.Server, limited) as address:
        # The second waits to be asked for the body.
        for sent in (size + b"\r\n" + bytes(8_000_000), size + b"Expect: 100-continue\r\n\r\n"):
            found = answers(address, sent)
            assert found.startswith(b"HTTP/1.1 413 ")
            assert b"at most 1,000 bytes" in found


def test_one_request_after_another_is_answered(address):
    whole = HEAD + b"Content-Length: 2\r\n\r\n{}"
    last = HEAD + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc"
    found = answers(address, whole + whole, last)
    assert found.count(b"HTTP/1.1 200") == 3
    assert found.endswith(b"abc")


def test_a_body_may_be_longer_than_a_head(address):
    body = b"a" * 50_000
    close = b"Connection: close\r\n"
    found = answers(address, HEAD + close + b"Content-Length: %d\r\n\r\n" % len(body), body[:20_000], body[20_000:])
    assert found.endswith(body)
    chunks = b"".join(b"%x\r\n%s\r\n" % (5_000, body[:5_000]) for _ in range(10))
    found = answers(address, HEAD + close + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert found.endswith(body)


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        (HEAD + b"X: ", b"a" * 2 * MOST),
        (HEAD, b"X: a\r\n" * MOST),
        (b"GET /", b"a" * 2 * MOST),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"a" * 2 * MOST),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: a\r\n" * MOST),
        (CHUNKED + b"2;", b"a" * 2 * MOST),
    ],
    ids=["header", "headers", "address", "trailer", "trailers", "chunk"],
)
def test_what_has_no_end_is_refused(address, begins, goes_on):
    assert answers(address, begins, goes_on).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "request_",
    [
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
        CHUNKED + b"ZZ\r\n",
        CHUNKED + b"f" * 30 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n a: folded\r\nA\0b: c\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"<xml/>\r\n\r\n",
    ],
)
def test_what_may_be_read_in_two_ways_is_refused(address, request_):
    found = answers(address, request_)
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1") == 1


def test_head_and_body_of_an_answer_are_one_packet():
    written: list[bytes] = []

    class Connection:
        write = staticmethod(written.append)
        close = staticmethod(lambda: written.append(b"closed"))

    async def answer() -> None:
        gathering: Any = GatheringTransport(cast(Any, Connection()), asyncio.get_running_loop())
        gathering.write(b"head ")
        gathering.write(b"body")
        assert not written
        await asyncio.sleep(0)
        assert written == [b"head body"]
        gathering.write(bytes(100_000))  # what is large waits for nothing, or nobody would see that it is not read
        assert len(written) == 2
        gathering.write(b"end")
        gathering.close()
        assert written[2:] == [b"end", b"closed"]

    asyncio.run(answer())
