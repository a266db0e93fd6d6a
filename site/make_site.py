"""The command behind ``make site``: pages from Markdown, docstrings and figures, Sphinx, and a check of the outcome."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from check_site import check_site
from site_crosslinks import crosslink
from site_folder import SiteFolder
from site_gallery import write_gallery
from site_interactive import write_interactive
from site_notebooks import write_notebooks
from site_reference import write_reference
from site_sources import write_navigation, write_sources

HERE = Path(__file__).parent


def main() -> int:
    """Build the site; 1 where something in it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write; the site is in its folder html")
    folder = parser.parse_args().folder
    pages, html = SiteFolder(folder / "pages"), folder / "html"
    with _timed("Markdown"):
        write_sources(HERE.parent, pages)
    with _timed("notebooks"):
        write_notebooks(HERE.parent, pages, folder / "notebooks")
    with _timed("figures"):
        drawn = write_gallery(pages, folder / "figures")
    with _timed("figures with knobs"):
        write_interactive(pages, folder / "scripts")
    with _timed("docstrings"):
        write_reference(pages)
    crosslink(pages, drawn)
    write_navigation(pages)
    if pages.finish():
        shutil.rmtree(html, ignore_errors=True)
        shutil.rmtree(folder / "doctrees", ignore_errors=True)
    with _timed("Sphinx"):
        status = run_sphinx(pages.path, html)
    if status:
        return status
    shutil.copytree(folder / "scripts", html / "interactive", dirs_exist_ok=True)
    with _timed("check"):
        wrong = check_site(html)
    if wrong:
        print(*wrong, f"{len(wrong)} things are wrong in {html}.", sep="\n", file=sys.stderr)
        return 1
    print(f"Open {html / 'index.html'} in a browser.")
    return 0


def run_sphinx(pages: Path, html: Path) -> int:
    """Build a site from its pages; warnings are errors, for a link that leads nowhere is one."""
    from sphinx.cmd.build import main as sphinx

    doctrees, begun = html.with_name("doctrees"), html.with_name("begun")
    if begun.exists():
        # The last build was interrupted: Sphinx would not look again at pages without their images that it has written.
        shutil.rmtree(html, ignore_errors=True)
        shutil.rmtree(doctrees, ignore_errors=True)
    begun.touch()
    options = ["-b", "html", "-c", str(HERE), "-d", str(doctrees), "-j", "2"]
    status = sphinx([*options, "-W", "--keep-going", "-q", str(pages), str(html)])
    begun.unlink()
    return status


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
