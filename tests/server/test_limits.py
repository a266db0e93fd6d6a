"""The limits of the server, and clients that do not keep to them."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import logging
import os
import tempfile
import time
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import serving, tiny_models
from starlette.testclient import TestClient

from locant.errors import ConfigError
from locant.server import ServerSettings, build_app, clients, routes
from locant.server.clients import Rates
from locant.server.errors import busy
from locant.server.files import FileStore
from locant.server.serving import JsonFormatter
from locant.server.settings import read_keys

FIELDS = {"q": "alpha beta", "source": "de", "target": "en"}
KEY, OTHER = "a-key-nobody-guesses", "another-key-like-that"


@pytest.fixture(scope="module")
def client():
    with serving(limits={"characters": 200, "texts": 3, "body_bytes": 4_000, "file_bytes": 500}) as found:
        yield found


SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "path": "/translate",
    "raw_path": b"/translate",
    "query_string": b"",
    "headers": [(b"host", b"testserver"), (b"content-type", b"application/json")],
    "client": ("192.0.2.1", 5_000),
    "server": ("testserver", 80),
    "scheme": "http",
}


def error(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    sentence = answer.json()["error"]
    assert sentence
    for word in ("Traceback", "/src/", ".py", "locant.server"):
        assert word not in answer.text
    return sentence


def test_sizes_are_limited(client):
    assert "exceeds text limit (200) of characters" in error(
        client.post("/translate", json={**FIELDS, "q": "a" * 201}), 400
    )
    assert "(3) of texts" in error(client.post("/translate", json={**FIELDS, "q": ["a"] * 4}), 400)
    assert "at most 4,000 bytes" in error(client.post("/translate", json={**FIELDS, "q": "a" * 5_000}), 413)
    assert "too large" in error(client.post("/translate", content=b"x" * 10_000_000), 413)
    files = {"file": ("a.txt", b"a" * 501)}
    assert "500 bytes" in error(client.post("/translate_file", data=FIELDS, files=files), 413)


def test_a_refusal_says_when_to_come_back(monkeypatch, client):
    async def full(*arguments, **options):
        raise busy()

    monkeypatch.setattr(client.app.service, "translate", full)
    answer = client.post("/translate", json=FIELDS)
    assert "more to translate than it can take" in error(answer, 503)
    assert answer.headers["retry-after"] == "2"


def test_a_request_of_more_sentences_than_wait_at_a_time_is_refused():
    with serving(limits={"waiting_sentences": 40, "characters": 400_000, "body_bytes": 1_000_000}) as client:
        words = ["".join(letters) for letters in itertools.product("abcdefghijklm", repeat=4)]
        for text in (" ".join(f"{word.title()}." for word in words[:31]), "\n".join(words[:31]), "\n".join(words)):
            assert "30" in error(client.post("/translate", json={**FIELDS, "q": text}), 400)
        fields = {**FIELDS, "q": "".join(f"<p>{word}" for word in words[:31]), "format": "html"}
        assert "30" in error(client.post("/translate", json=fields), 400)
        # What is the same is translated once.
        assert client.post("/translate", json={**FIELDS, "q": "a\n" * 31}).status_code == 200


def test_a_body_without_length_is_counted_as_it_comes(client):
    """Asked without the test client, which gathers bodies before it sends them."""
    read, sent = [], []

    async def receive():
        read.append(1_000)
        return {"type": "http.request", "body": b"x" * 1_000, "more_body": True}

    async def send(message):
        sent.append(message)

    client.portal.call(client.app, dict(SCOPE), receive, send)
    assert sent[0]["status"] == 413
    assert sum(read) <= 6_000


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"[" * 3_000, "application/json", 400),
        (b'{"q": "\xff"}', "application/json", 400),
        ('{"q": "a"}'.encode("utf-16"), "application/json", 400),
        (b'{"q": ' + b"9" * 3_900 + b"}", "application/json", 400),
        (b'{"q": NaN}', "application/json", 400),
        (b"&".join([b"a=b"] * 999), "application/x-www-form-urlencoded", 400),
        (b"a&" * 1_001, "application/x-www-form-urlencoded", 400),
        (b"q=a", "text/plain", 415),
        (b"<q>a</q>", "application/xml", 415),
        (b"--x\r\n", "multipart/form-data; boundary=x", 400),
        (b"--x\r\n", "multipart/form-data", 400),
        (b"", "application/json", 400),
    ],
)
def test_broken_bodies_are_refused(client, body, kind, status):
    error(client.post("/translate", content=body, headers={"content-type": kind}), status)


def test_files_that_are_not_what_they_are_called_are_refused(monkeypatch, client):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", b" " * 100_000)
    for name, content in [
        ("a.docx", b"PK\x03\x04"),
        ("a.odt", b""),
        ("a.json", b"{"),
        ("a.srt", b"alpha"),
        ("a.po", b"alpha"),
        ("a.md", b"\xff"),
        ("a.txt", b"a\0b"),
        ("a.txt", b"\xff\xfe\x00a"),
        ("a.zip", b"PK\x03\x04"),
        ("a.pdf", b"%PDF-1.7"),
        ("a", b"a"),
    ]:
        error(client.post("/translate_file", data=FIELDS, files={"file": (name, content)}), 400)
    monkeypatch.setattr(routes, "_MOST_UNPACKED", 50_000)
    files = {"file": ("a.docx", bomb.getvalue())}
    assert "at most" in error(client.post("/translate_file", data=FIELDS, files=files), 400)


def test_names_of_files_lead_nowhere(client):
    for name in ["../../etc/passwd.txt", "..\\x.txt", "a/b/.hidden.txt", "\u202e.txt", "x" * 300 + ".txt"]:
        answer = client.post("/translate_file", data=FIELDS, files={"file": (name, b"alpha")})
        address = answer.json()["translatedFileUrl"]
        kept = address.rpartition("/")[2]
        assert kept[32] == "."
        assert set(kept) <= set("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-")
        assert client.get(address).status_code == 200
    for path in ["..%2f..%2fetc%2fpasswd", "%2e%2e", "." * 40, "a" * 32 + ".", "%00", "..\\"]:
        error(client.get(f"/download_file/{path}"), 404)


@pytest.mark.parametrize(
    "path", ["/nothing", "/nothing//", "/translate/", "/%00", "/page/../app.py", "/" + "a" * 5_000, "/languages%2f"]
)
def test_other_addresses_lead_nowhere(client, path):
    error(client.get(path, follow_redirects=False), 404)


def test_other_methods_are_refused(client):
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = client.request(method, "/translate")
        error(answer, 405)
        assert "POST" in answer.headers["allow"]
    error(client.post("/suggest", json={"q": "a", "s": "b"}), 403)


def test_answers_have_the_headers_of_a_careful_server(client):
    for answer in (client.get("/languages"), client.get("/nothing"), client.post("/translate", content=b"x")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:5000"}, 200),
        ({"host": "127.0.0.1:5000", "origin": "http://127.0.0.1:5000"}, 200),
        ({"host": "[::1]:5000", "origin": "moz-extension://some-id"}, 200),
        ({"host": "localhost", "origin": "https://app.example"}, 200),
        ({"host": "evil.example"}, 403),
        ([("host", "localhost"), ("host", "evil.example")], 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 403),
        ({"host": "192.0.2.7"}, 403),
        ({"host": "localhost:5000", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:5000", "origin": "http://localhost:8000"}, 403),
        ({"host": "localhost:5000", "origin": "null"}, 403),
    ],
)
def test_a_server_of_this_machine_does_not_answer_pages_of_other_sites(headers, status):
    app = build_app(tiny_models(), ServerSettings(cors_origins=("https://app.example",)), local=True)
    with TestClient(app) as client:
        assert client.post("/translate", data=FIELDS, headers=headers).status_code == status
        assert client.get("/metrics", headers=headers).status_code == status


def test_other_origins_may_ask_when_they_are_named():
    with serving(cors_origins=["https://app.example"]) as client:
        asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
        assert client.options("/translate", headers=asked).headers["access-control-allow-origin"] == asked["origin"]
        answer = client.post("/translate", json=FIELDS, headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


def test_keys_open_and_wrong_ones_do_not():
    with serving(keys={"mobile": KEY, "web": OTHER}) as client:
        assert "API key is needed" in error(client.post("/translate", json=FIELDS), 400)
        for key in (KEY, OTHER):
            assert client.post("/translate", json={**FIELDS, "api_key": key}).status_code == 200
        assert client.post("/detect", data={"q": "alpha", "api_key": KEY}).status_code == 200
        assert client.post("/translate", json=FIELDS, headers={"authorization": f"Bearer {KEY}"}).status_code == 200
        for key in ("wrong", KEY[:-1], KEY + "x", KEY.upper(), "\u00e4" * 20):
            assert error(client.post("/translate", json={**FIELDS, "api_key": key}), 403) == "Invalid API key"
        error(client.get("/metrics"), 400)
        assert client.get("/metrics", headers={"authorization": f"Bearer {KEY}"}).status_code == 200
        assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_keys_cannot_be_tried_out():
    with serving(keys={"mobile": KEY, "web": OTHER}) as client:
        assert client.post("/translate", json={**FIELDS, "api_key": OTHER}).status_code == 200
        statuses = [
            client.post("/translate", json={**FIELDS, "api_key": f"guess {number}"}).status_code for number in range(12)
        ]
        assert statuses == [403] * 10 + [429] * 2
        answer = client.post("/translate", json={**FIELDS, "api_key": KEY})
        error(answer, 429)
        assert 1 <= int(answer.headers["retry-after"]) <= 120
        # Who was let in from the same address before is not locked out.
        assert client.post("/translate", json={**FIELDS, "api_key": OTHER}).status_code == 200


def test_requests_a_minute_are_counted_by_address():
    models = tiny_models()
    with serving(models, limits={"requests_per_minute": 3}) as client:
        statuses = [client.post("/translate", json=FIELDS).status_code for _ in range(5)]
        assert statuses == [200] * 3 + [429] * 2
        answer = client.post("/translate", json=FIELDS, headers={"x-forwarded-for": "203.0.113.9"})
        assert "at most 3 requests a minute" in error(answer, 429)
        assert client.get("/languages").status_code == 200
    with serving(models, limits={"requests_per_minute": 1}, trusted_proxies=["192.0.2.0/24"]) as client:
        for address in ("203.0.113.9", "203.0.113.10"):
            # Whatever a client writes before the address that the proxy adds is not believed.
            headers = {"x-forwarded-for": f"198.51.100.7, {address}"}
            statuses = [client.post("/translate", json=FIELDS, headers=headers).status_code for _ in range(2)]
            assert statuses == [200, 429]


def test_a_translation_that_takes_too_long_is_given_up():
    with serving(limits={"request_seconds": 0.001, "characters": 100_000}) as client:
        answer = client.post("/translate", json={**FIELDS, "q": "alpha beta gamma. " * 500})
        assert "longer than 0.001 seconds" in error(answer, 504)
        (scheduler,) = client.app.service.schedulers
        latest = time.monotonic() + 60
        while not scheduler.is_idle:
            assert time.monotonic() < latest
            client.get("/health")


def test_the_time_of_a_request_counts_from_its_arrival():
    """The body comes when the time is over: what would be translated in no time is refused."""
    sent = []

    async def receive():
        await asyncio.sleep(0.3)
        return {"type": "http.request", "body": json.dumps(FIELDS).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    with serving(limits={"request_seconds": 0.2}) as client:
        client.portal.call(client.app, dict(SCOPE), receive, send)
    assert sent[0]["status"] == 504
    assert b"longer than 0.2 seconds" in sent[1]["body"]


def test_metrics_count(client):
    client.post("/translate", json=FIELDS)
    client.post("/translate", json={**FIELDS, "q": "a" * 201})
    page = client.get("/metrics").text
    assert 'locant_requests_total{route="/translate",status="200"}' in page
    assert 'locant_refused_total{reason="characters"}' in page
    assert 'locant_sentences_total{model="de-en"}' in page
    assert "locant_request_seconds_bucket" in page
    assert "alpha" not in page


def test_the_log_says_what_happened_and_no_texts(client, caplog):
    with caplog.at_level("INFO", logger="locant.server"):
        client.post("/translate?q=secretword", json={**FIELDS, "q": "alpha secretword"})
        client.get("/secretword")
    records = [vars(record) for record in caplog.records if record.name == "locant.server"]
    assert [(record["route"], record["status"]) for record in records] == [("/translate", 200), ("other", 404)]
    assert records[0]["characters"] == 16
    assert "secretword" not in json.dumps(records, default=str)


def test_an_entry_of_the_log_is_json_without_texts_of_other_packages():
    record = logging.LogRecord("locant.server", logging.INFO, "", 0, "request", (), None)
    record.client = 'phones "\\ä\u2028'
    line = JsonFormatter().format(record)
    assert line.isascii()
    found = json.loads(line)
    assert (found["event"], found["client"], found["process"]) == ("request", record.client, os.getpid())
    assert datetime.now(UTC) - datetime.fromisoformat(found["time"]) < timedelta(seconds=60)
    failure = KeyError("secretword")
    raised = (KeyError, failure, None)
    line = JsonFormatter().format(logging.LogRecord("asyncio", logging.ERROR, "", 0, "%r", (failure,), raised))
    assert json.loads(line)["error"] == "KeyError"
    assert "secretword" not in line


def test_files_are_kept_for_some_time(tmp_path):
    store = FileStore(tmp_path)
    first, second = store.keep(b"a", "a.txt", "one"), store.keep(b"b", "b.txt", "one")
    path, name = store.find(first)
    assert (path.read_bytes(), name) == (b"a", "a.txt")
    assert path.stat().st_mode & 0o077 == 0
    before = path.stat().st_mtime - 31 * 60
    os.utime(path, (before, before))
    assert store.find(first) is None
    store.keep(b"c", "c.txt", "one")
    assert len(list(tmp_path.iterdir())) == 2
    assert store.find(second)


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2_000_000)), max_size=25))
def test_no_client_takes_the_room_of_the_others(requests):
    """Whoever has less than a fair share of what is kept loses nothing, and there is never more than there may be."""
    with tempfile.TemporaryDirectory() as folder:
        store, kept = FileStore(Path(folder), most_bytes=6_000_000), []
        for client, size in requests:
            kept.append((client, size, store.keep(b"x" * size, "a.txt", client)))
            assert store.find(kept[-1][2])
        there = [(client, size) for client, size, name in kept if store.find(name)]
        assert len(there) <= 12
        assert sum(size for _, size in there) <= 6_000_000
        for client in "abc":
            sizes = [max(size, 500_000) for owner, size, _ in kept if owner == client]
            if sum(sizes) <= 2_000_000:
                assert len(sizes) == sum(owner == client for owner, _ in there)


def test_a_full_disk_is_no_failure_of_the_server(monkeypatch, client):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    answer = client.post("/translate_file", data=FIELDS, files={"file": ("a.txt", b"alpha")})
    assert "no room" in error(answer, 503)


def test_rates_are_those_of_a_minute(monkeypatch):
    now, rates = [6000.0], Rates()
    monkeypatch.setattr(clients, "time", SimpleNamespace(time=lambda: now[0]))
    assert [rates.count("a", 2) for _ in range(3)] == [0, 0, 60]
    now[0] += 2
    wait = rates.count("a", 2, add=False)
    assert wait == 58
    assert rates.count("b", 2) == 0
    now[0] += wait
    assert [rates.count("a", 1) for _ in range(2)] == [0, 60]


def test_keys_are_read_from_a_file_and_the_environment(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# ours\nmobile {KEY}  # phones\n\n{OTHER}\n", encoding="utf-8")
    assert read_keys(path, "a-third-key-like-that") == {
        "mobile": KEY,
        "key-2": OTHER,
        "key-3": "a-third-key-like-that",
    }
    assert read_keys(None, None) == {}
    for text, words in [
        ("short\n", "has 5 characters"),
        ("", "holds no key"),
        (f"{KEY}\n{KEY}\n", "there already"),
        (f"a b {KEY}", "3 words"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=words):
            read_keys(path, None)
    with pytest.raises(ConfigError, match="No such file"):
        read_keys(tmp_path / "none", None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"limits": {"charakters": 5}}, "characters"),
        ({"limits": {"characters": 0}}, "characters"),
        ({"port": 70_000}, "port"),
        ({"trusted_proxies": ["proxy"]}, "not a valid IPv4 or IPv6 network"),
        ({"limits": {"file_bytes": 5_000_000}}, "raise body_bytes"),
    ],
)
def test_wrong_settings_are_said(settings, words):
    with pytest.raises(ConfigError, match=words):
        ServerSettings.parse(settings, "serve")
