"""The explorer as a page of the site."""

from __future__ import annotations

from pathlib import Path

from site_folder import SiteFolder

from locant.app.explore import save_page

PAGES = {
    "Watch positions": ("heatmap", "waves", "dot-products", "distance", "clocks", "turning-pairs", "bias"),
    "Swap two words": ("masks",),
    "Stretch a context": ("spectrum",),
    "Translate": ("attention", "attention-steps", "teacher-forcing"),
}
"""Pages of the explorer by title, and the figures of :data:`~locant.figures.FIGURES` about the same."""

_PAGE = """# Play with it

```{raw} html
<iframe src="interactive/explorer.html" title="The explorer" style="width: 100%; height: 80vh; border: 0"></iframe>
<p>The same <a href="interactive/explorer.html">on a page of its own</a>: it needs no server and fetches nothing.
With <a href="interactive/german-english.html">a translator from German into English</a>: 3.9 million parameters, 6 MB,
trained for half an hour on two Bibles.</p>
```

[`locant explore`](docs/figures.md) shows a model of your own in it.
"""


def write_interactive(folder: SiteFolder, pages: Path) -> None:
    """Write the page, and to a folder of its own the explorer that it shows, with each of two models."""
    pages.mkdir(parents=True, exist_ok=True)
    save_page(pages / "explorer.html")
    save_page(pages / "german-english.html", Path(__file__).parent / "german-english")
    folder.write(Path("interactive.md"), _PAGE)
