"""The explorer in a real browser without a window: Debian's chromium, driven by Playwright."""

import csv
import math
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("dash", reason="the extra 'explore' is not installed")
pytest.importorskip("playwright.sync_api", reason="Playwright, which drives a browser, is not installed")

from playwright.sync_api import sync_playwright

from locant.analysis import introspect, token_pair
from locant.app.explorer import build_app, listen, open_server
from locant.app.explorer.model_panels import Reader
from locant.app.explorer.panels import Curves
from locant.models.blocks import Residual
from locant.translation import Translator

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found; install it or name one in CHROMIUM")

PAGES = ["/", "/context", "/compare", "/transformer", "/translate"]
SENTENCE = "two red three four"
CARDS = "[data-picture]:not([hidden])"
DRAWN = f"{CARDS} .picture svg"


@pytest.fixture(scope="module")
def address(reader: Reader) -> str:
    server = open_server(build_app(reader), listen("127.0.0.1", 0))
    threading.Thread(target=server.run, daemon=True).start()
    return f"http://127.0.0.1:{server.effective_port}"


@pytest.fixture(scope="module")
def window(address: str) -> Iterator[Any]:
    """One window for all tests, so that scripts are read once."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_context(base_url=address)
        browser.close()


@pytest.fixture(scope="module")
def tab(window: Any) -> Any:
    """One tab for all tests: what a browser has compiled in it need not be compiled anew."""
    tab = window.new_page()
    tab.set_default_timeout(30_000)
    return tab


@pytest.fixture
def page(tab: Any) -> Iterator[Any]:
    """A page of the explorer; afterwards nothing must have been asked of anybody else, and nothing gone wrong."""
    asked: list[str] = []
    wrong: list[str] = []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "pageerror": lambda error: wrong.append(str(error)),
        "console": lambda said: wrong.append(said.text) if said.type == "error" else None,
    }
    tab.set_viewport_size({"width": 1200, "height": 900})
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield tab
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    tab.goto("about:blank")
    assert asked
    addresses = [urlsplit(url) for url in asked]
    assert {part.hostname for part in addresses if part.scheme not in ("data", "blob")} == {"127.0.0.1"}
    assert not wrong


def open_page(page: Any, path: str) -> None:
    page.goto(path)
    if path == "/translate":
        page.get_by_role("textbox", name="Sentence").fill(SENTENCE)
        page.get_by_role("button", name="Translate", exact=True).click()


def show(page: Any, path: str) -> None:
    open_page(page, path)
    page.locator(CARDS).first.scroll_into_view_if_needed()
    when(page, f"document.querySelector('{DRAWN}')")


def show_all(page: Any, path: str) -> None:
    """Show a page in a window so high that all its pictures are in view.

    Nothing has to be scrolled, for which Playwright would wait until nothing moves; all pictures at once take a while.
    """
    page.set_viewport_size({"width": 1200, "height": 6000})
    open_page(page, path)
    when(page, f"document.querySelector('{DRAWN}')")
    when(page, f"[...document.querySelectorAll('{CARDS} h2')].every(title => title.textContent)")


def settled(page: Any) -> None:
    """Wait until nothing is being drawn: plotly reports an error where a picture goes away while it draws it."""
    page.evaluate(
        """() => new Promise(done => {
            let waiting = setTimeout(done, 1000);
            const again = () => { clearTimeout(waiting); waiting = setTimeout(done, 1000); };
            new MutationObserver(again).observe(document.querySelector('#page'),
                {subtree: true, childList: true, attributes: true, characterData: true});
        })"""
    )


def matrix(name: str) -> str:
    """The matrix that a picture shows, as an expression for the page."""
    return f"window.locantMatrix.shown(document.querySelector('#{name} .picture'))?.matrix"


def plot(name: str) -> str:
    """The figure of a picture that plotly draws, as an expression for the page."""
    return f"document.querySelector('#{name} .js-plotly-plot')"


def drawn(page: Any, name: str, title: str) -> None:
    """Wait until a picture with such a title is drawn."""
    when(page, f"({matrix(name)} ?? {plot(name)}?.layout)?.shown?.includes('{title}')")


def hover(page: Any, name: str, across: float, down: float) -> str:
    """Move the pointer over a picture, at shares of its width and height, until the value there is shown."""
    place = (
        "name => { const box = document.querySelector(`#${name} .cells`).getBoundingClientRect();"
        " return [box.left, box.top, box.width, box.height]; }"
    )
    when(page, f"document.querySelector('#{name} .cells')")
    shown = "(e => e && !e.hidden ? e.textContent : '')(document.querySelector('.cell-value'))"
    for _ in range(100):
        left, top, width, height = page.evaluate(place, name)
        page.mouse.move(left + width * across - 2, top + height * down)
        page.mouse.move(left + width * across, top + height * down, steps=3)
        page.wait_for_timeout(200)
        said: str = page.evaluate(shown)
        if said:
            return said
    pytest.fail("no value was shown")


def cells(page: Any, table: str) -> list[list[str]]:
    """The text of a table's cells, row by row."""
    rows = "[...document.querySelectorAll(`${table} tbody tr`)]"
    found: list[list[str]] = page.evaluate(f"table => {rows}.map(row => [...row.cells].map(e => e.textContent))", table)
    return found


def when(page: Any, condition: str) -> None:
    """Wait for a condition; Playwright's own way would evaluate a string in the page, which the explorer forbids."""
    for _ in range(300):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(200)
    pictures = "[...document.querySelectorAll('.picture')].map(e => [e.clientWidth, e.firstChild?.tagName])"
    widths = f"[innerWidth, ...{pictures}]"
    pytest.fail(f"never came true: {condition}; the window and its pictures are {page.evaluate(widths)} wide")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", PAGES)
def test_every_page(page: Any, path: str) -> None:
    show_all(page, path)
    heading = {"/": "Encodings"}.get(path, path[1:].capitalize())
    assert page.locator("h1").inner_text() == heading
    number = {"/": 7, "/context": 4, "/compare": 13, "/transformer": 9, "/translate": 4}[path]
    when(page, f"document.querySelectorAll('.card:not([hidden]) h2:not(:empty)').length === {number}")
    when(page, "!document.querySelector('.card:not([hidden]) h2:empty')")
    when(page, f"document.querySelector('nav a.current')?.textContent === '{heading}'")
    assert page.get_by_role("alert").and_(page.locator(":visible")).count() == 0
    for field in page.locator("input:not([type=range], [aria-hidden]), textarea").all():
        assert field.evaluate("e => e.labels.length") == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", PAGES)
def test_a_narrow_screen(page: Any, path: str) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    show(page, path)
    # Pictures follow the width of their cards, but for those that cannot be read when they are narrower, which scroll.
    room = "Math.max(360, parseFloat(getComputedStyle(svg.closest('.picture')).minWidth) || 0)"
    when(page, f"[...document.querySelectorAll('{DRAWN}')].every(svg => svg.getBoundingClientRect().width <= {room})")
    when(page, "document.documentElement.scrollWidth <= 360")


def test_a_page_that_does_not_exist(page: Any) -> None:
    page.goto("/nothing")
    page.get_by_text("No such page").wait_for()


def test_a_knob_redraws(page: Any) -> None:
    show(page, "/")
    assert page.evaluate(matrix("encodings-heatmap"))["columns"] == 64
    page.get_by_label("Width d").fill("32")
    when(page, f"{matrix('encodings-heatmap')}?.columns === 32")
    page.get_by_label("alibi").check()
    when(page, f"{matrix('encodings-heatmap')}?.rowNames?.length === 8")
    page.locator("#encodings-waves-card").wait_for(state="hidden")


def test_hovering_shows_the_value(page: Any) -> None:
    show(page, "/")
    # The cell of position 40 and feature 1, which is cos(40).
    said = hover(page, "encodings-heatmap", 1.5 / 64, 40.5 / 64)
    assert said.startswith("position 40, feature 1: value ")
    assert float(said.split()[-1]) == pytest.approx(math.cos(40), abs=1e-4)


@pytest.mark.slow
def test_a_large_matrix_tells_its_numbers_when_the_pointer_comes(page: Any) -> None:
    show(page, "/")
    page.get_by_label("Width d").fill("512")
    page.get_by_label("Length").fill("512")
    heatmap = matrix("encodings-heatmap")
    when(page, f"{heatmap}?.columns === 512 && {heatmap}.rows === 512")
    assert "values" not in page.evaluate(heatmap)
    said = hover(page, "encodings-heatmap", 1 / 3, 1 / 4)
    position, feature, value = (float(one.strip(",:")) for one in said.split()[1::2])
    assert position == pytest.approx(128, abs=4)
    assert feature == pytest.approx(170, abs=4)
    angle = position * 10000 ** -(feature // 2 / 256)
    assert value == pytest.approx(math.cos(angle) if feature % 2 else math.sin(angle), abs=1e-4)


def test_a_picture_out_of_view_waits(page: Any) -> None:
    page.set_viewport_size({"width": 1200, "height": 500})
    show(page, "/")
    title = page.locator("#encodings-circle-title")
    assert title.inner_text() == ""
    page.locator("#encodings-circle-card").scroll_into_view_if_needed()
    page.locator("#encodings-circle-title", has_text="k = 2").wait_for()
    page.get_by_label("Offset k").fill("3")  # scrolls up
    page.locator("#encodings-circle-card").scroll_into_view_if_needed()
    page.locator("#encodings-circle-title", has_text="k = 3").wait_for()
    drawn(page, "encodings-circle", "k = 3")
    written = page.evaluate(f"{plot('encodings-circle')}.layout.annotations.at(-1).text")
    expected = f"M<sub>3</sub> PE(16) = ({math.sin(19):+.3f}  {math.cos(19):+.3f}) = PE(19)"
    assert expected in written.replace("\N{MINUS SIGN}", "-")


@pytest.mark.slow
def test_the_odometer(page: Any) -> None:
    show_all(page, "/")
    digits = page.locator("#encodings-odometer .textpoint")
    when(page, "document.querySelectorAll('#encodings-odometer .textpoint').length === 13 * (2 + 6)")
    assert set(digits.all_text_contents()) <= set("0123456789")
    page.get_by_label("Marked position").fill("17")
    page.locator("#encodings-odometer-title", has_text="Position 17").wait_for()


@pytest.mark.slow
def test_turning_pages_back(page: Any) -> None:
    show(page, "/")
    for name in ("Compare", "Encodings", "Encodings"):
        page.locator("nav").get_by_role("link", name=name).click()
        page.get_by_role("heading", name=name, exact=True).wait_for()
        page.wait_for_timeout(300)  # a link to the page that is shown may build it anew
        when(page, f"document.querySelector('{CARDS} h2')?.textContent.includes('code of every position')")


def test_a_bad_value_is_explained_and_the_pictures_stay(page: Any) -> None:
    show(page, "/")
    page.get_by_label("Length").fill("-1")
    alert = page.locator("#encodings-message")
    said = "Length must be a whole number from 2 to 1,024; got -1."
    when(page, f"document.querySelector('#encodings-message:not([hidden])')?.textContent === '{said}'")
    assert alert.get_attribute("role") == "alert"
    assert page.locator(DRAWN).first.is_visible()
    page.get_by_label("Length").fill("1000000000")
    page.get_by_text("got 1000000000").wait_for()
    page.get_by_label("Length").fill("32")
    alert.wait_for(state="hidden")


def test_the_data_of_a_picture(page: Any, tmp_path: Path) -> None:
    show(page, "/")
    page.get_by_label("Width d").fill("8")
    when(page, f"{matrix('encodings-heatmap')}?.columns === 8")
    with page.expect_download() as waiting:
        page.locator("#encodings-heatmap-csv").click()
    assert waiting.value.suggested_filename == "encodings-heatmap.csv"
    waiting.value.save_as(tmp_path / "data.csv")
    rows = list(csv.reader((tmp_path / "data.csv").open(encoding="utf-8")))
    numbers = np.array(rows[1:], dtype=float)
    assert numbers.shape == (64, 9)
    np.testing.assert_allclose(numbers[:, 1], np.sin(np.arange(64)), atol=1e-7)
    np.testing.assert_allclose(numbers[:, 8], np.cos(np.arange(64) / 1000), atol=1e-7)


def test_without_a_mouse(page: Any) -> None:
    show(page, "/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if page.evaluate("document.activeElement.type") == "radio":
            page.keyboard.press("ArrowDown")  # the next scheme
            page.get_by_text("training shapes them").wait_for()
        if seen[-1] == "encodings-width":
            page.keyboard.press("ArrowUp")
            when(page, f"{matrix('encodings-heatmap')}?.columns === 66")
            break
    assert seen[:5] == ["Encodings", "Context", "Compare", "Transformer", "Translate"]
    assert seen[-1] == "encodings-width"
    settled(page)
    page.locator("nav a").nth(1).focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Context").wait_for()


def test_the_context_of_a_model(page: Any) -> None:
    show(page, "/context")
    page.get_by_label("Wanted length").fill("8192")
    when(page, "document.querySelector('#context-slowed')?.textContent.includes('2 times')")
    page.locator("#context-summary tbody tr").first.wait_for()
    names = ["no scaling", "PI", "NTK-aware", "dynamic NTK", "NTK-by-parts", "YaRN", "LongRoPE", "Llama 3"]
    assert [row[0] for row in cells(page, "#context-summary")] == names
    config = '{"model_type": "llama", "head_dim": 128, "rope_theta": 10000.0, "max_position_embeddings": 32768, '
    page.get_by_label("Paste a config.json").fill(config + '"rope_scaling": {"type": "linear", "factor": 8.0}}')
    page.get_by_role("button", name="Explain").click()
    meaning = page.locator("#context-meaning")
    meaning.get_by_text("declared for 32,768 tokens").wait_for()
    assert "262144" in meaning.inner_text()  # the length that vLLM serves
    assert "scaling linear" in meaning.inner_text()
    meaning.locator(".main-svg").first.wait_for()
    page.get_by_label("Paste a config.json").fill("{]")
    page.get_by_role("button", name="Explain").click()
    meaning.get_by_text("The pasted text cannot be read as JSON").wait_for()
    page.evaluate("document.querySelector('#context-config').focus()")
    page.get_by_label("Paste a config.json").fill("x" * 1_500_000)
    page.get_by_role("button", name="Explain").click()
    meaning.get_by_text("longer than 1,000,000 characters").wait_for()


@pytest.mark.slow
def test_two_schemes_side_by_side(page: Any) -> None:
    show_all(page, "/compare")
    page.get_by_role("group", name="Right scheme").get_by_label("alibi").check()
    page.locator("#compare-right-heatmap-title", has_text="ALiBi").wait_for()
    page.get_by_label("Length").fill("20")
    for side in ("left", "right"):
        when(page, f"document.querySelector('#compare-{side}-distance .js-plotly-plot')?.calcdata?.[0]?.length === 20")
    for picture in ("heatmap", "distance"):
        boxes = f"['left', 'right'].map(side => document.querySelector(`#compare-${{side}}-{picture}-card`)"
        left, right = page.evaluate(boxes + ".getBoundingClientRect().toJSON())")
        assert left["right"] <= right["left"]
        assert left["top"] == right["top"]


@pytest.mark.slow
def test_dragging_a_slider(page: Any) -> None:
    show(page, "/")
    slider = page.locator("#encodings-width-slider")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    place = float(slider.input_value()) / 1000
    assert place == pytest.approx(math.log(64 / 2) / math.log(1024 / 2), abs=0.001)
    across, down = box["x"] + 8 + place * (box["width"] - 16), box["y"] + box["height"] / 2
    page.mouse.move(across, down)
    page.mouse.down()
    page.mouse.move(across - 20, down, steps=4)
    page.mouse.up()
    when(page, "document.querySelector('#encodings-width').value < 64")
    when(
        page,
        f"{matrix('encodings-heatmap')}?.columns === +document.querySelector('#encodings-width').value",
    )
    page.get_by_label("Width d").fill("1024")
    when(page, "document.querySelector('#encodings-width-slider').value === '1000'")


LINKS = [
    ("/", "encodings-heatmap", "?scheme=alibi&width=32&length=20&base=10000&position=16&offset=2"),
    ("/context", "context-slowed", "?head=64&base=10000&trained=4096&wanted=65536"),
    ("/transformer", "transformer-attention", "&sentence=two+red+one&scheme=rotary&mask=causal&padding=1&heads=2&"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("path", "picture", "state"), LINKS)
def test_a_link_shows_the_same_in_another_browser(
    page: Any, window: Any, address: str, path: str, picture: str, state: str
) -> None:
    show_all(page, path)
    if path == "/":
        page.get_by_label("alibi").check()
        page.get_by_label("Width d").fill("32")
        page.get_by_label("Length").fill("20")
    elif path == "/context":
        page.get_by_label("Head size").fill("64")
        page.get_by_label("Wanted length").fill("65536")
    else:
        page.get_by_label("Sentence").fill("two red one")
        page.get_by_label("causal").check()
        page.get_by_label("Padding tokens").fill("1")
        page.get_by_label("rotary", exact=True).check()
    when(page, f"location.search.includes('{state}')")
    link = page.evaluate("location.pathname + location.search")
    other = window.browser.new_context(base_url=address, viewport=page.viewport_size).new_page()
    other.goto(link)
    title = f"document.querySelector('#{picture}-title')?.innerText"
    for _ in range(150):
        page.wait_for_timeout(200)
        shown = [
            one.evaluate(f"JSON.stringify([{matrix(picture)} ?? {plot(picture)}?.data, {title}])")
            for one in (page, other)
        ]
        if shown[0] == shown[1] and not shown[0].startswith("[null"):
            break
    other.context.close()
    assert shown[0] == shown[1]
    assert not shown[0].startswith("[null")
    assert link in page.url


def test_an_address_that_is_wrong(page: Any) -> None:
    page.goto("/?width=wide&scheme=alibi")
    page.get_by_text("Width d must be a whole number from 2 to 1,024; got 'wide'.").wait_for()
    when(page, f"{matrix('encodings-heatmap')}?.rowNames?.length === 8")


def test_following_a_token_by_click(page: Any) -> None:
    show_all(page, "/transformer?model=small+example")
    drawn(page, "transformer-attention", "layer 1, head 1")
    box = page.locator("#transformer-attention .cells").bounding_box()
    for _ in range(20):
        page.mouse.move(box["x"] + box["width"] / 2 - 3, box["y"] + box["height"] * 0.9)
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.9)  # the last row
        page.wait_for_timeout(300)
        if page.get_by_role("group", name="Follow").get_by_label("man").is_checked():
            break
    drawn(page, "transformer-scores", "“man”")
    page.get_by_role("group", name="Stack").get_by_label("decoder").check()
    drawn(page, "transformer-attention", "decoder")
    page.locator("#transformer-cross-title", has_text="in the source").wait_for()
    assert page.get_by_label("causal").is_checked()
    page.get_by_role("group", name="Model").get_by_label("trained run").check()
    drawn(page, "transformer-path", "layer 1")
    when(page, "document.querySelector('#transformer-about').innerText.includes('trained weights')")
    page.set_viewport_size({"width": 360, "height": 9000})
    when(page, f"document.querySelector('#transformer-path svg').clientWidth < 400 && {matrix('transformer-path')}")
    assert 1 < page.locator("#transformer-path .below text").count() < 16
    assert page.locator("#transformer-path .below text[transform]").count() == 0


def cells_of(page: Any, name: str) -> Any:
    """Where the cells of a matrix are, in the window."""
    page.locator(f"#{name}").scroll_into_view_if_needed()
    return page.locator(f"#{name} .cells").bounding_box()


def names_below(page: Any, name: str) -> Any:
    return page.evaluate("name => [...document.querySelectorAll(`#${name} .below text`)].map(e => e.textContent)", name)


@pytest.mark.slow
def test_a_frame_in_a_matrix_is_shown_alone_until_the_axes_change(page: Any) -> None:
    show_all(page, "/transformer?model=small+example")
    drawn(page, "transformer-attention", "head 1")
    assert names_below(page, "transformer-attention") == ["the", "dog", "bites", "the", "man"]
    box = cells_of(page, "transformer-attention")
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.7, steps=4)
    page.mouse.up()
    assert names_below(page, "transformer-attention") == ["dog", "bites"]
    assert page.get_by_role("group", name="Follow").get_by_label("dog").is_checked()  # it was no click
    page.get_by_role("group", name="Head", exact=True).get_by_label("2").check()
    drawn(page, "transformer-attention", "head 2")
    assert names_below(page, "transformer-attention") == ["dog", "bites"]
    assert page.locator("#transformer-attention .mark").count() == 1
    page.get_by_role("group", name="Follow").get_by_label("man").check()  # a row beyond the frame
    when(page, "!document.querySelector('#transformer-attention .mark')")
    page.locator("#transformer-attention").get_by_role("button", name="Whole matrix").click()
    assert len(names_below(page, "transformer-attention")) == 5
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5, steps=4)
    page.mouse.up()
    assert len(names_below(page, "transformer-attention")) == 3
    page.get_by_label("Padding tokens").fill("1")  # a token more along the axes
    when(page, f"{matrix('transformer-attention')}.columns === 6")
    assert len(names_below(page, "transformer-attention")) == 6


@pytest.mark.slow
def test_zoomed_lines_stay_zoomed(page: Any) -> None:
    show_all(page, "/")
    lines = plot("encodings-distance")
    when(page, f"{lines}?.layout?.xaxis?.range")
    page.evaluate(f"window.Plotly.relayout({lines}, {{'xaxis.range': [10, 20]}})")
    page.get_by_label("Base").fill("500")
    when(
        page, "document.querySelector('#encodings-distance-title').textContent && location.search.includes('base=500')"
    )
    settled(page)
    assert page.evaluate(f"{lines}.layout.xaxis.range") == [10, 20]
    page.get_by_label("Length").fill("100")
    when(page, f"{lines}.layout.xaxis.range[0] !== 10")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["encodings-heatmap", "encodings-distance"])
def test_a_picture_as_a_file(page: Any, name: str, tmp_path: Path) -> None:
    from PIL import Image

    show_all(page, "/")
    when(page, f"document.querySelector('#{name} .picture svg')")
    with page.expect_download() as waiting:
        if name == "encodings-heatmap":
            page.locator(f"#{name}").get_by_role("button", name="PNG").click()
        else:
            page.locator(f"#{name} .modebar-btn").first.click()
    waiting.value.save_as(tmp_path / "picture.png")
    image = np.asarray(Image.open(tmp_path / "picture.png").convert("RGBA"))
    assert image.shape[0] >= 380
    assert (image[..., 3] == 255).all()  # letters for a dark page would be lost without the page
    assert len(np.unique(image.reshape(-1, 4), axis=0)) > 50


def test_light_and_dark(page: Any) -> None:
    show(page, "/")
    colour = "getComputedStyle(document.body).backgroundColor"
    button, seen = page.get_by_role("button", name="Light / dark"), []
    for expected in ("light", "dark", "light"):
        assert page.evaluate("document.documentElement.dataset.colours") == expected
        seen.append(page.evaluate(colour))
        button.click()
    page.reload()
    when(page, "document.documentElement.dataset.colours === 'dark'")  # it is remembered
    assert page.evaluate(colour) == seen[1]
    button.click()
    assert seen[0] == seen[2] != seen[1]


@pytest.mark.slow
def test_the_tools_of_a_picture_cover_nothing(page: Any) -> None:
    show(page, "/context")
    picture = plot("context-slowed")
    when(page, f"{picture}?.querySelector('.modebar-btn') && {picture}.querySelector('.legend')")
    place = f"name => {picture}.querySelector(name).getBoundingClientRect().toJSON()"
    assert page.evaluate(place, ".modebar")["bottom"] <= page.evaluate(place, ".legend")["top"]


def test_a_translation_with_its_attention(page: Any, translator: Translator) -> None:
    show_all(page, "/translate")
    best = translator.translate_n_best([SENTENCE], n_best=4, beam=4)[0]
    page.locator("#translate-found tbody tr").first.wait_for()
    assert cells(page, "#translate-found") == [[f"{one.score:.4f}", one.text] for one in best]
    page.get_by_role("spinbutton", name="Layer").fill("1")
    page.get_by_role("spinbutton", name="Head").fill("2")
    drawn(page, "translate-attention", "cross, layer 1, head 2")
    pair = token_pair(translator.tokenizers, SENTENCE, best[0].text)
    expected = introspect(translator.model, pair.source, pair.target).cross_attention[0][1]
    sent = page.evaluate(matrix("translate-attention"))
    axes = ("rowNames", "columnNames")
    read = {names: " ".join(sent[names]).replace(" -", "").replace("␣", "").strip() for names in axes}
    assert read == {"rowNames": f"(begin) {best[0].text}".strip(), "columnNames": f"{SENTENCE} (end)"}
    decode = "text => Array.from(new Float32Array(Uint8Array.from(atob(text), sign => sign.charCodeAt(0)).buffer))"
    shown = np.array(page.evaluate(decode, sent["values"])).reshape(expected.shape)
    np.testing.assert_allclose(shown, expected, atol=1e-6)
    np.testing.assert_allclose(shown.sum(1), 1, atol=1e-5)
    page.get_by_role("spinbutton", name="Layer").fill("9")
    page.get_by_text("Layer of the cross attention must be a whole number from 1 to 2; got 9.").wait_for()
    page.get_by_role("spinbutton", name="Layer").fill("1")
    page.get_by_role("textbox", name="Sentence").fill("one " * 400)
    page.get_by_role("button", name="Translate", exact=True).click()
    page.locator("#translate-message", has_text="200 is the most that is read here").wait_for()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_positions_with_and_without_residual_connections(reader: Reader, translator: Translator, part: str) -> None:
    pictures = reader.pictures(SENTENCE, 4, part, 1, 1)
    panels = [pictures[name].panel() for name in ("layers", "positions", "positions-bare")]
    layers, positions, bare = (panel for panel in panels if isinstance(panel, Curves))
    # Neither the words nor what the first layer receives has passed a residual connection.
    for name in ("words alone", "told positions"):
        np.testing.assert_allclose(positions.lines[name], bare.lines[name], atol=1e-9)
    with_them, without = layers.lines[part], layers.lines[f"{part}, no residuals"]
    np.testing.assert_allclose(with_them[:2], without[:2], atol=1e-9)
    assert not np.allclose(with_them[2], without[2])
    # Post-norm without its residual connection: LayerNorm(Sublayer(x)).
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Residual, "forward", lambda self, x, sublayer: self.norm(sublayer(x)))
        tokens = reader.read(SENTENCE, 4).tokens
        seen = introspect(translator.model, tokens.source, tokens.target)
    states = getattr(seen, part).layers[1]
    assert reader.bare_probe is not None
    linear = getattr(reader.bare_probe, part).layers[1]
    np.testing.assert_allclose(bare.lines["layer 1"], states.double() @ linear.weight + linear.bias, atol=1e-5)
