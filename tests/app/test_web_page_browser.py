"""An exported page in real browsers without a window: as a file, from a server, and without either."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsers import BROWSERS, Browser, Tab, running
from tiny_models import WORDS, tiny_model, tiny_tokenizers
from web_node import has_web_engine

from locant.app import export_web
from locant.kernels.translation import supports
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_folder import save_model_folder
from locant.translation import Translator

pytest.importorskip("playwright.sync_api", reason="Playwright, which drives a browser, is not installed")
pytestmark = pytest.mark.skipif(
    not has_web_engine(), reason="the engine for browsers is not built, and Zig is not installed (ziglang)"
)

SENTENCES = [" ".join(WORDS[(i * j + i) % len(WORDS)] for j in range(1, 2 + i % 9)) for i in range(12)]
TEXT = "\n".join(SENTENCES[:6]) + "\n\n" + "\n".join(SENTENCES[6:])

TRANSLATE = """async text => {
    const at = (id) => document.getElementById(id);
    const when = async (ready) => {
        while (!ready()) await new Promise((done) => setTimeout(done, 20));
    };
    at("text").value = text;
    at("text").dispatchEvent(new Event("input"));
    await when(() => at("said").textContent === "Translated." || !at("error").hidden);
    return at("error").hidden ? at("translation").textContent : at("error").textContent;
}"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "run"
    model = tiny_model(36, d_model=48, d_ff=80, encoder_layers=2, sharpness=8.0)
    decoding = DecodingSettings(beam=3, max_length_extra=8)
    save_model_folder(folder, model, tiny_tokenizers(), decoding, source_language="de", target_language="en")
    return folder


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "page"
    export_web(run, folder)
    return folder


@pytest.fixture(scope="module")
def expected(run: Path) -> str:
    """The text translated line by line by the native engine."""
    if not supports("int8"):
        pytest.skip("this processor has no fast int8 arithmetic")
    native = Translator.from_pretrained(run, engine="compiled", compute_type="int8", device="cpu")
    found = iter(native.translate(SENTENCES))
    return "\n".join(next(found) if line else "" for line in TEXT.split("\n"))


class Server:
    """The folder on a web server of this machine.

    Attributes:
        address: Where the folder is.
        asked: What was asked for.
        refusals: What browsers report of the page's own policy.
    """

    def __init__(self, folder: Path, policy: str = "") -> None:
        asked: list[str] = []
        refusals: list[str] = []
        self.asked, self.refusals = asked, refusals

        class Handler(SimpleHTTPRequestHandler):
            def end_headers(self) -> None:
                if policy and self.path == "/":
                    self.send_header("Content-Security-Policy-Report-Only", f"{policy}; report-uri /refused")
                super().end_headers()

            def do_POST(self) -> None:
                asked.append(self.path)
                refusals.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                asked.append(self.path)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(30)


@pytest.fixture
def server(exported: Path) -> Iterator[Server]:
    page = (exported / "index.html").read_text(encoding="utf-8")
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert found
    started = Server(exported, found[1])
    yield started
    started.stop()


# A browser takes seconds to start; one of them is enough to see that a page works.
@pytest.fixture(scope="module", params=["chromium", pytest.param("firefox", marks=pytest.mark.slow)])
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    if BROWSERS[request.param] is None:
        pytest.skip(f"no {request.param} was found; install it or name one in {request.param.upper()}")
    with running(request.param) as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    opened = browser.tab()
    yield opened
    opened.close()


def test_opened_as_a_file_it_translates_as_the_command_does(tab: Tab, exported: Path, expected: str) -> None:
    tab.go((exported / "index.html").as_uri())
    assert tab.run(TRANSLATE, TEXT) == expected
    assert tab.run("() => document.querySelector('h1').textContent") == "German to English"


def test_the_module_for_all_browsers_translates_alike(tab: Tab, exported: Path, expected: str, tmp_path: Path) -> None:
    # Above, a browser takes the other one where its products are exact on this processor.
    shutil.copytree(exported, tmp_path / "page")
    page = tmp_path / "page" / "index.html"
    whole = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r'(id="engines">)[^<]*\n', r"\1", whole), encoding="utf-8")
    assert page.stat().st_size < len(whole) - 50_000
    tab.go(page.as_uri())
    assert tab.run(TRANSLATE, TEXT) == expected


def test_once_loaded_it_needs_no_network(browser: Browser, server: Server, expected: str) -> None:
    first = browser.tab()
    first.go(server.address)
    assert first.run("() => navigator.serviceWorker.ready.then(found => found.active !== null)")
    server.stop()
    # Another page, which has neither the server nor anything of the first one.
    other = browser.tab()
    first.close()
    other.go(server.address)
    assert other.run("() => navigator.serviceWorker.controller !== null")
    assert other.run(TRANSLATE, TEXT) == expected
    other.close()


SENDING = {
    "fetch": "to => fetch(to)",
    "request": """to => new Promise((done, fail) => {
        const one = Object.assign(new XMLHttpRequest(), { onload: done, onerror: fail });
        one.open("POST", to);
        one.send("text");
    })""",
    "image": "to => new Promise((done, fail) => Object.assign(new Image(), { onload: done, onerror: fail, src: to }))",
    "socket": """to => new Promise((done, fail) =>
        Object.assign(new WebSocket(to.replace("http", "ws")), { onopen: done, onerror: fail }))""",
}
SPOILING = """elsewhere => {
    window.refused = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective: rule }) => window.refused.push(rule));
    const made = (name, given) => document.body.appendChild(Object.assign(document.createElement(name), given));
    const write = (text) => document.body.insertAdjacentHTML("beforeend", text);
    for (const spoil of [
        () => write("<p onclick='window.ran = `a click`'>text</p>"),
        () => document.body.lastElementChild.click(),
        () => setTimeout("window.ran = 'a text'"),
        () => write("<style>body { color: rgb(255, 0, 0) }</style>"),
        () => made("link", { rel: "stylesheet", href: elsewhere }),
        () => made("iframe", { src: elsewhere }),
        () => made("form", { action: elsewhere, method: "post" }).submit(),
        () => navigator.sendBeacon(elsewhere, "text"),
    ]) {
        try {
            spoil();
        } catch {} // a browser may throw besides reporting
    }
}"""
RULES = {"connect-src", "frame-src", "form-action", "script-src", "script-src-attr", "style-src-elem"}
REPORTED = """async rules => {
    const until = performance.now() + 5000;
    while (rules.some(rule => !window.refused.includes(rule)) && performance.now() < until) {
        await new Promise(done => setTimeout(done, 20));
    }
    return window.refused;
}"""


def test_nothing_can_be_sent_or_run_that_is_not_its_own(tab: Tab, server: Server, tmp_path: Path) -> None:
    tab.go(server.address)
    tab.run(TRANSLATE, TEXT)
    assert not server.refusals
    stranger = Server(tmp_path)
    elsewhere = f"{stranger.address}stranger"
    for how, send in SENDING.items():
        for to in (elsewhere, f"{server.address}index.html"):
            if how == "image" and to != elsewhere:
                continue  # the page has one of its own
            sent = "async (to) => { try { await (%s)(to); return true; } catch { return false; } }"
            assert tab.run(sent % send, to) is False, how
    tab.run(SPOILING, elsewhere)
    assert set(tab.run(REPORTED, sorted(RULES))) >= RULES
    assert tab.run("() => window.ran ?? null") is None
    assert tab.run("() => getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    stranger.stop()
    assert not stranger.asked
    # Browsers do report what the page's policy refuses, so that none of it was in what came before.
    assert server.refusals
