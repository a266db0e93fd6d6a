"""The check of the built site: every link, image and anchor leads somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements and attributes that a browser follows by itself.
_FETCHED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
_FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "manifest", "apple-touch-icon"}
_IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class _Page(HTMLParser):
    """What a page refers to."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name) and (name == "id" or tag == "a")}
        self.fetched += _addresses(given.get("style", ""))
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and _FETCHED_LINKS & set(given.get("rel", "").lower().split()):
            self.fetched.append(given.get("href", ""))
        elif tag == "link" and "href" in given:
            self.links.append(given["href"])
        for name in _FETCHED.get(tag, ()):
            if name in given:
                several = name == "srcset"
                self.fetched += [each.split()[0] for each in given[name].split(",")] if several else [given[name]]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.fetched += _addresses(data)


def _addresses(style: str) -> list[str]:
    return [first or second for first, second in _IN_STYLES.findall(style)]


def check_site(folder: Path) -> list[str]:
    """Return what is wrong in a built site, a line each.

    Args:
        folder: The site; pages are its files ``*.html``, style sheets ``*.css``, and images ``*.svg`` are read as well.
    """
    pages = {path: _read(path) for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".svg")}
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        wrong += [f"{name}: {problem}" for link in page.links if (problem := _broken(folder, path, link, pages))]
        wrong += [f"{name}: {problem}" for each in page.fetched if (problem := _foreign(folder, path, each, pages))]
    for path in sorted(folder.rglob("*.css")):
        name = path.relative_to(folder).as_posix()
        found = _addresses(path.read_text(encoding="utf-8"))
        wrong += [f"{name}: {problem}" for each in found if (problem := _foreign(folder, path, each, pages))]
    return wrong


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def _foreign(folder: Path, path: Path, target: str, pages: dict[Path, _Page]) -> str:
    parts = urlsplit(target)
    if parts.scheme == "data":
        return ""
    if parts.scheme or parts.netloc:
        return f"{target} is fetched from elsewhere"
    return _broken(folder, path, target, pages)


def _broken(folder: Path, path: Path, target: str, pages: dict[Path, _Page]) -> str:
    parts = urlsplit(target)
    if parts.scheme in ("http", "https", "mailto", "data") or parts.netloc:
        return ""
    if parts.scheme:
        return f"{target} is no address for a reader"
    if parts.path.startswith("/"):
        return f"{target} leads to the root of the server"
    file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if file.is_dir():
        file /= "index.html"
    if not file.is_relative_to(folder):
        return f"{target} leads out of the site"
    if not file.exists():
        return f"{target} leads nowhere"
    anchor = unquote(parts.fragment)
    if anchor and file in pages and anchor not in pages[file].anchors:
        return f"{target}: no such place on that page"
    return ""
