"""The page to translate in, in a real browser without a window: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from served import tiny_models

from locant.server import ServerSettings, build_app

pytest.importorskip("playwright.sync_api", reason="Playwright, which drives a browser, is not installed")

from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found; install it or name one in CHROMIUM")

TEXT = "alpha beta gamma.\n\ndelta epsilon zeta."
LIMITS = {"characters": 200}


@pytest.fixture(scope="module")
def models() -> Any:
    return tiny_models(("de", "en"), ("en", "de"), ("fr", "en"))


@pytest.fixture(scope="module")
def address(models: Any) -> Iterator[str]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    settings = ServerSettings.parse({"limits": LIMITS}, "test")
    server = uvicorn.Server(uvicorn.Config(build_app(models, settings), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page; afterwards nothing must have been asked of anybody else, and nothing gone wrong."""
    asked: list[str] = []
    wrong: list[str] = []
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    # An answer of status 400 is an error in the console, too, and here it is asked for.
    page.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
    page.goto("/")
    page.get_by_label("From").locator("option[value=fr]").wait_for(state="attached")
    yield page
    context.close()
    addresses = [urlsplit(url) for url in asked]
    assert {part.hostname for part in addresses if part.scheme not in ("data", "blob")} == {"127.0.0.1"}
    assert not wrong


def translation(page: Any) -> str:
    page.get_by_role("status").get_by_text("Translated.").wait_for()
    text: str = page.get_by_role("region", name="Translated text").text_content()
    return text


def choose(page: Any, source: str, target: str) -> None:
    page.get_by_label("From").select_option(source)
    page.get_by_label("To", exact=True).select_option(target)


def expected(models: Any, text: str) -> str:
    """The translation of each line into English, between the line breaks of the text."""
    (route,) = (route for way, route in models.routes.items() if tuple(way) == ("de", "en"))
    return "\n".join(route.translator.translate(line) if line else "" for line in text.split("\n"))


def test_a_text_is_translated_while_it_is_typed(page: Any, models: Any) -> None:
    choose(page, "de", "en")
    page.get_by_label("Text to translate").fill(TEXT)
    assert translation(page) == expected(models, TEXT)
    assert page.locator("#count").text_content() == f"{len(TEXT)} of 200"


def test_by_keyboard_alone(page: Any, models: Any) -> None:
    page.get_by_label("From").focus()
    page.keyboard.type("German")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.insert_text("alpha beta")
    page.keyboard.press("Control+Enter")
    assert translation(page) == expected(models, "alpha beta")
    reached = []
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert reached[:9] == ["file", "clear", "swap", "target", "translation", "translate", "copy", "save", "more"]


def test_languages_are_swapped_with_the_texts(page: Any) -> None:
    choose(page, "fr", "en")
    assert page.locator("#target option").all_text_contents() == ["English", "German"]  # German by way of English
    assert page.get_by_role("button", name="Swap the languages").is_disabled()
    choose(page, "de", "en")
    page.get_by_label("Text to translate").fill("alpha beta")
    first = translation(page)
    page.get_by_role("button", name="Swap the languages").click()
    assert page.get_by_label("Text to translate").input_value() == first
    page.locator("#translation:not(:empty)[aria-busy=false]").wait_for()
    assert [page.locator(f"#{side}").input_value() for side in ("source", "target")] == ["en", "de"]
    back = page.request.post("/translate", data={"q": first, "source": "en", "target": "de"}).json()
    assert translation(page) == back["translatedText"]
    page.reload()
    page.get_by_label("From").locator("option[value=fr]").wait_for(state="attached")
    assert [page.locator(f"#{side}").input_value() for side in ("source", "target")] == ["en", "de"]


def test_other_translations_and_copying(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    choose(page, "de", "en")
    page.get_by_label("Text to translate").fill("alpha beta")
    text = translation(page)
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == text
    page.get_by_role("button", name="Other translations").click()
    page.locator("#others li").first.wait_for()
    others = page.locator("#others li").all_text_contents()
    assert 1 <= len(others) <= 3
    assert text not in others


DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_a_file_is_dropped(page: Any, models: Any) -> None:
    choose(page, "de", "en")
    page.evaluate(DROP, ["a.txt", list(b"alpha beta")])
    assert translation(page) == expected(models, "alpha beta")
    page.evaluate(DROP, ["a.txt", [0xFF, 0xFE]])
    page.get_by_role("alert").get_by_text("a.txt is not UTF-8 text.").wait_for()
    page.evaluate(DROP, ["a.md", list(b"# alpha beta")])
    page.get_by_text("a.md is translated.").wait_for()
    page.evaluate(DROP, ["a.pdf", [0x25]])
    page.get_by_role("alert").get_by_text("file format not supported").wait_for()
    long = "alpha beta\n" * 20  # more than a text may have, so it goes as a file
    page.get_by_label("Open a file").set_input_files(
        {"name": "long.txt", "mimeType": "text/plain", "buffer": long.encode()}
    )
    page.get_by_text("long.txt is translated.").wait_for()
    with page.expect_download() as found:
        page.get_by_role("link", name="Save the translated file").click()
    assert found.value.suggested_filename.endswith("long_en.txt")
    assert Path(found.value.path()).read_text(encoding="utf-8") == expected(models, long)


def test_mistakes_are_sentences(page: Any) -> None:
    choose(page, "de", "en")
    page.get_by_label("Text to translate").fill("a" * 201)
    assert page.locator("#count.beyond").text_content() == "201 of 200"
    assert page.get_by_role("button", name="Translate", exact=True).is_disabled()
    page.route("**/translate/stream", lambda route: route.abort())
    page.get_by_label("Text to translate").fill("alpha")
    page.get_by_role("alert").get_by_text("The server does not answer.").wait_for()
    page.route("**/translate/stream", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.keyboard.press("Control+Enter")
    page.get_by_role("alert").get_by_text("status 502").wait_for()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_can_be_read(page: Any, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    choose(page, "de", "en")
    page.get_by_label("Text to translate").fill(TEXT)
    translation(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        """[...document.querySelectorAll("button, select, .button, textarea")]
           .filter(e => e.offsetParent && (e.offsetHeight < 36 || e.offsetWidth < 36)).map(e => e.id)"""
    )
    assert small == []
    for shown in ("body", "#said", "#count", "label[for=source]", "#translate", "textarea"):
        assert page.evaluate(CONTRAST, shown) >= 4.5, shown


# The ratio of WCAG 2.2, section 1.4.3, of an element's text to the nearest ground behind it.
CONTRAST = """(selector) => {
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector(selector);
  let ground = element;
  const clear = () => /, 0\\)$|transparent/.test(getComputedStyle(ground).backgroundColor);
  while (ground.parentElement && clear()) ground = ground.parentElement;
  const [a, b] = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(luminance);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""
