"""The site: the pages it is made of, what Sphinx makes of them, and the check of what came out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from check_site import check_site
from make_site import run_sphinx
from pages import PAGES, ROOT
from site_crosslinks import crosslink
from site_folder import SiteFolder
from site_gallery import section
from site_interactive import PAGES as EXPLORED
from site_reference import exported, rooms, write_reference
from site_sources import links, write_navigation, write_sources

import locant
from locant.app.explore import page_model
from locant.figures import FIGURES
from locant.figures.errata import TOPICS
from locant.models.model_folder import load_model_folder
from locant.translation import Translator


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> SiteFolder:
    """The pages of the repository, with navigation, without those that are computed."""
    folder = SiteFolder(tmp_path_factory.mktemp("site"))
    write_sources(ROOT, folder)
    write_navigation(folder)
    folder.finish()
    return folder


def in_navigation(folder: SiteFolder) -> list[str]:
    """The pages that the pages list, in the order of the site."""
    found = []

    def visit(page: str) -> None:
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```", folder.texts[Path(f"{page}.md")], re.MULTILINE | re.DOTALL
        ):
            for entry in (line for line in tree.splitlines() if line and not line.startswith(":")):
                found.append(Path(page).parent.joinpath(entry).as_posix())
                visit(found[-1])

    visit("index")
    return found


def test_every_page_of_the_documentation_is_in_the_navigation_once(sources):
    listed = in_navigation(sources)
    pages = [path.relative_to(ROOT).with_suffix("").as_posix().replace("README", "index") for path in PAGES]
    assert sorted(listed) == sorted(set(pages) - {"index"})
    assert ":caption: More" not in sources.texts[Path("index.md")], "every page has a caption of its own kind"


def test_links_are_replaced_outside_code_only():
    text = "[![a](a.png)](b.md) `c`\n\n```\n[d](e.md)\n```\n[f](g.md#h)\n"
    assert links(text, str.upper) == "[![a](A.PNG)](B.MD) `c`\n\n```\n[d](e.md)\n```\n[f](G.MD#H)\n"


def test_links_to_folders_lead_to_their_pages(sources):
    assert "](docs/results/index.md)" in sources.texts[Path("index.md")]
    records = sources.texts[Path("docs/results/quality/index.md")]
    for file in re.findall(r"\]\((.*?)\)", records):
        assert (sources.path / "docs/results/quality" / file).read_bytes() == (
            ROOT / "docs/results/quality" / file
        ).read_bytes()


def test_what_did_not_change_is_left_alone_and_what_has_gone_is_removed(tmp_path):
    page, other, picture = Path("page.md"), Path("in", "other.md"), tmp_path / "picture.svg"
    picture.write_text("<svg/>")
    for text, copies, gone in (("one", True, False), ("two", True, False), ("two", False, True)):
        folder = SiteFolder(tmp_path / "pages")
        folder.write(page, text)
        folder.write(other, "the same")
        if copies:
            folder.copy(picture, Path("picture.svg"))
        before = (folder.path / other).stat().st_mtime_ns if (folder.path / other).exists() else None
        assert folder.finish() is gone
        assert (folder.path / page).read_text() == text
        assert (folder.path / "picture.svg").exists() is copies
        assert before in (None, (folder.path / other).stat().st_mtime_ns)


def test_every_public_name_stands_in_the_reference_once(tmp_path):
    folder = SiteFolder(tmp_path)
    write_reference(folder)
    described = [
        name
        for page in folder.texts.values()
        for name in re.findall(
            r"^\.\. (?:auto|py:)(?:class|exception|function|data):: locant\.\w+\.(\w+)$", page, re.MULTILINE
        )
    ]
    values = {}
    for room in (getattr(locant, name) for name in rooms()):
        values |= {id(getattr(room, name)): getattr(room, name) for name in exported(room)}
    assert len(described) == len(values)
    assert {"Rotary", "LocantError", "check_scheme", "FIGURES"} <= set(described)
    # Values have no docstring that the language keeps: theirs is the string below the assignment.
    assert "Every figure by name." in folder.texts[Path("reference/figures.rst")]


def test_pages_about_one_figure_lead_to_each_other(tmp_path):
    folder = SiteFolder(tmp_path)
    folder.write(
        Path("gallery.md"), "# All\n\n" + section(FIGURES["clocks"]) + "\n" + section(FIGURES["heatmaps"]) + "\n"
    )
    folder.write(Path("docs/errata.md"), "# Errors\n\nShown by [`clocks`](figures.md), [`heads`](figures.md).\n")
    folder.write(Path("docs/course/1.md"), "# One\n\n![Clocks](../images/clocks.png)\n\n![None](../images/none.png)\n")
    crosslink(folder, ["clocks", "heatmaps"])
    texts = {str(path): text for path, text in folder.texts.items()}
    played = "[Watch positions]({}interactive.md)"
    assert "Shown by [`clocks`](../gallery.md#clocks), [`heads`](figures.md)." in texts["docs/errata.md"]
    with_knobs = f"With knobs: {played.format('../../')}."
    assert texts["docs/course/1.md"].count("With knobs") == 1
    assert f"![Clocks](../images/clocks.png)\n\n{with_knobs}\n\n![None]" in texts["docs/course/1.md"]
    clocks, heatmaps = texts["gallery.md"].split("(heatmaps)=")
    assert played.format("") in clocks
    assert "With knobs" not in heatmaps
    shown = [entry.key.lower() for topic in TOPICS for entry in topic.entries if "heatmaps" in entry.figures]
    assert shown
    assert re.findall(r"docs/errata\.md#(\w+)", heatmaps) == shown


PAGE = """# Pages

The angle is $m \\cdot \\theta_i$, and the frequencies are

```math
\\theta_i = b^{-2i/d}
```

See [the record](record.json), [below](#below) and [a paper](https://arxiv.org/abs/1706.03762).

```output
3.14159 -> "text" that is no program
```

## Below

"""


def test_pages_become_html_that_fetches_nothing(tmp_path):
    folder = SiteFolder(tmp_path / "pages")
    (tmp_path / "record.json").write_text("{}")
    for name in ("waves-light.svg", "waves-dark.svg"):
        (tmp_path / name).write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
        folder.copy(tmp_path / name, Path("figures", name))
    folder.copy(tmp_path / "record.json", Path("record.json"))
    folder.write(Path("index.md"), PAGE + section(FIGURES["waves"]))
    folder.finish()
    html = tmp_path / "html"
    assert run_sphinx(folder.path, html) == 0
    assert check_site(html) == []
    page = (html / "index.html").read_text()
    assert page.count("<math") == 2
    assert 'href="record.json"' in page
    assert (html / "record.json").read_text() == "{}"
    assert FIGURES["waves"].caption.formula in page
    assert '<img alt="' in page
    assert "https://arxiv.org/abs/1706.03762" in page
    # An interrupted build leaves pages without their images, which the next one must not take for finished.
    shutil.rmtree(html / "_images")
    html.with_name("begun").touch()
    assert run_sphinx(folder.path, html) == 0
    assert check_site(html) == []


def test_pages_of_the_explorer_name_figures_that_there_are():
    assert {name for figures in EXPLORED.values() for name in figures} <= set(FIGURES)


def test_the_model_of_the_site_reads_who_loves_whom_and_fits_into_a_page():
    folder = ROOT / "site" / "german-english"
    translator = Translator.from_pretrained(folder, device="cpu")
    found = translator.translate(["Den König liebt der Prophet.", "Der König liebt den Propheten."])
    assert [text.split()[1] for text in found] == ["prophet", "king"]
    assert page_model(load_model_folder(folder, device="cpu"))["config"]["position"] == "rotary"


def test_a_link_that_leads_nowhere_fails(tmp_path, capfd):
    folder = SiteFolder(tmp_path / "pages")
    folder.write(Path("index.md"), "# Pages\n\n[One](one.md), [two](#two)\n")
    folder.finish()
    assert run_sphinx(folder.path, tmp_path / "html") == 1
    said = capfd.readouterr().err
    assert "'one.md'" in said
    assert "'two'" in said


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="two.html#there">', ""),
        ('<a href="in/">', ""),
        ('<a href="#here" id="here">', ""),
        ('<a href="https://arxiv.org/abs/1706.03762">', ""),
        ('<img src="data:image/png;base64,AAAA">', ""),
        ('<img src="one%20picture.png?v=1">', ""),
        ('<a href="three.html">', "three.html leads nowhere"),
        ('<a href="two.html#gone">', "two.html#gone: no such place on that page"),
        ('<a href="#gone">', "#gone: no such place on that page"),
        ('<a href="../two.html">', "../two.html leads out of the site"),
        ('<a href="/two.html">', "/two.html leads to the root of the server"),
        ('<a href="file:///two.html">', "file:///two.html is no address for a reader"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<img srcset="gone.png 2x, one%20picture.png">', "gone.png leads nowhere"),
        ('<img src="https://example.org/a.png">', "https://example.org/a.png is fetched from elsewhere"),
        ('<script src="//example.org/a.js"></script>', "//example.org/a.js is fetched from elsewhere"),
        (
            '<link rel="stylesheet" href="https://example.org/a.css">',
            "https://example.org/a.css is fetched from elsewhere",
        ),
        ('<p style="background: url(https://example.org/a)">', "https://example.org/a is fetched from elsewhere"),
        ("<style>@import 'https://example.org/a.css';</style>", "https://example.org/a.css is fetched from elsewhere"),
        ('<svg><image xlink:href="https://example.org/a"/></svg>', "https://example.org/a is fetched from elsewhere"),
    ],
)
def test_the_check_finds_what_is_wrong(html, problem, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "index.html").write_text("")
    (tmp_path / "two.html").write_text('<p id="there">')
    (tmp_path / "one picture.png").write_bytes(b"")
    (tmp_path / "one.html").write_text(html)
    assert check_site(tmp_path) == ([f"one.html: {problem}"] if problem else [])


def test_the_check_reads_style_sheets(tmp_path):
    (tmp_path / "a.css").write_text("p { background: url('gone.png') } @font-face { src: url(https://example.org/a) }")
    assert check_site(tmp_path) == [
        "a.css: gone.png leads nowhere",
        "a.css: https://example.org/a is fetched from elsewhere",
    ]
