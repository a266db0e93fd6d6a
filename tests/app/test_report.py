import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from locant import __version__
from locant.app import (
    Code,
    Fact,
    Facts,
    Figure,
    Report,
    Section,
    Table,
    Text,
    TranslationExample,
    Translations,
    render_report,
    write_report,
)
from locant.errors import CheckpointError, MissingExtraError

ATTACK = "<script>alert('1 & 2')</script>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" role="img"><title>Loss</title><path d="M 0 0"/></svg>'
VOID = {"meta", "link", "img", "br", "hr", "input", "path"}


class Page(HTMLParser):
    """Reads a page strictly: every element that opens must close, in the right order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute of <{tag}> stands twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, *tags: str) -> list[str]:
        return [data.strip() for tag, data in self.words if tag in tags and data.strip()]


REPORT = Report(
    title="English to German",
    summary=f"A tiny model. {ATTACK}",
    sections=[
        Section("Results", [Facts([Fact("BLEU", "38.7", "test set"), Fact("Parameters", "2.6 million")])]),
        Section(
            "Data",
            [
                Text(["First paragraph.", f"Second {ATTACK}"]),
                Table(["Step", "Kept", "Share"], [["read", 29000, 1.0], [ATTACK, 28000, None]], "Cleaning"),
            ],
        ),
        Section("Training", [Figure(SVG, f"Loss {ATTACK}")]),
        Section(
            "Translations",
            [
                Translations(
                    [
                        TranslationExample(ATTACK, "ein Hund läuft", f"ein {ATTACK} läuft", 41.25),
                        TranslationExample("a", "b", "b"),
                    ],
                    "en",
                    "de",
                    "chrF",
                ),
                Translations([TranslationExample("light", "نور", "نور")], target_language="ar"),
            ],
        ),
        Section("Next", [Code('locant translate run --text "a < b"', "Try:")]),
    ],
)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render_report(REPORT))


def test_every_section_and_block_is_there(page: Page) -> None:
    assert page.text("h1") == page.text("title")[:1] == ["English to German"]
    assert page.text("h2") == ["Results", "Data", "Training", "Translations", "Next"]
    assert page.text("dt")[:2] == ["BLEU", "Parameters"]
    assert page.text("dd")[:3] == ["38.7", "test set", "2.6 million"]
    assert "First paragraph." in page.text("p")
    assert page.text("th") == ["Step", "Kept", "Share", "read", ATTACK]
    assert page.text("td") == ["29,000", "1.00", "28,000"]
    assert page.text("caption") == ["Cleaning"]
    assert len(page.all("svg")) == 1
    assert page.text("code") == ['locant translate run --text "a < b"']
    assert page.text("b") == ["41.2"]
    assert page.text("footer") == [f"Written by Locant {__version__}."]


def test_nothing_in_a_report_becomes_markup(page: Page) -> None:
    assert not page.all("script")
    assert ATTACK in " ".join(page.text("p"))
    assert ATTACK in page.text("dd")
    assert ATTACK in page.text("mark")
    attack = Report(ATTACK, "", [Section(ATTACK, [Code(ATTACK, ATTACK)])], language='en" onload="x')
    assert not Page(render_report(attack)).all("script")
    assert "onload" not in Page(render_report(attack)).all("html")[0]


def test_the_page_needs_nothing_else() -> None:
    text = render_report(REPORT)
    page = Page(text)
    outside = {"src", "srcset", "data", "action", "poster", "background"}
    assert not any(outside & attributes.keys() for _, attributes in page.elements)
    assert not page.all("link")
    links = [attributes.get("href") or "" for _, attributes in page.elements if "href" in attributes]
    assert links
    assert all(link.startswith("#") for link in links)
    assert set(re.findall(r"\w+://[^\"'\s<)]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert "url(" not in text
    (policy,) = (meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_it_can_be_read_by_everyone(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert headings == [1, 2, 2, 2, 2, 2]
    assert [cell.get("scope") for cell in page.all("th")] == ["col"] * 3 + ["row"] * 2
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [(attributes.get("href") or "")[1:] for attributes in page.all("a")]
    targets += [attributes["aria-labelledby"] or "" for attributes in page.all("section")]
    assert len(targets) == 10
    assert set(targets) <= set(ids)


def test_writing(tmp_path: Path) -> None:
    path = tmp_path / "out" / "report.html"
    write_report(path, REPORT)
    assert path.read_text(encoding="utf-8") == render_report(REPORT)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>\n")
    with pytest.raises(CheckpointError, match="could not be written"):
        write_report(path / "below" / "a file", REPORT)


def test_without_jinja(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"'jinja2'.*locant\[report\]"):
        render_report(REPORT)


def luminance(color: str) -> float:
    """Relative luminance by WCAG 2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_in_light_dark_and_print() -> None:
    """WCAG 2.2, criterion 1.4.3, asks 4.5:1 of text."""
    rules = re.findall(r":root \{(.*?)\}", render_report(REPORT), re.DOTALL)
    both = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", "".join(rules)))
    light, dark = ({name: found.split(", ")[which] for name, found in both.items()} for which in (0, 1))
    printed = light | dict(re.findall(r"--([\w-]+): (#\w{6})", rules[-1]))
    for palette in (light, dark, printed):
        for ink, paper in [(i, p) for i in ("ink", "soft", "link") for p in ("page", "raised")] + [("ink", "mark")]:
            least, most = sorted((luminance(palette[ink]), luminance(palette[paper])))
            assert (most + 0.05) / (least + 0.05) >= 4.5, (ink, paper)
