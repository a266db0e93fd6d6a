"""The page of all figures, as ``locant figures --all`` draws them, with their captions."""

from __future__ import annotations

import re
from pathlib import Path

from site_folder import SiteFolder

from locant.figures import FIGURES, RegisteredFigure, draw_figure
from locant.figures.drawing import svg_text

_BEGIN = """# Where a word stands

A Transformer sees its words all at once and would not know their order. These figures show how it is told, and what it
does then. All numbers are computed by Locant. `locant figures --all -o figures` draws the same, and with `--run` also
the figures of a trained model; [Figures](docs/figures.md) says what options they have. Some of them
[can be played with](interactive.md).

"""


def write_gallery(folder: SiteFolder, images: Path) -> list[str]:
    """Draw every figure that needs no trained model, write the page that shows them, and return their names.

    Args:
        folder: Where to write the page and the images.
        images: Folder for the images until they are copied.
    """
    images.mkdir(parents=True, exist_ok=True)
    names = [name for name, figure in FIGURES.items() if not figure.needs_run]
    for name in names:
        drawn = draw_figure(name)
        for colours in ("light", "dark"):
            path = images / f"{name}-{colours}.svg"
            path.write_text(svg_text(drawn, dark=colours == "dark"), encoding="utf-8")
            folder.copy(path, Path("figures", path.name))
    folder.write(Path("gallery.md"), _BEGIN + "\n".join(section(FIGURES[name]) for name in names) + "\n")
    return names


def section(figure: RegisteredFigure) -> str:
    """Return the part of the page about a figure, in MyST Markdown."""
    caption = figure.caption
    formula = ["```{raw} html", f'<p class="formula">{caption.formula}</p>', "```", ""] if caption.formula else []
    lines = [
        f"({figure.name})=",
        f"## {_plain(caption.title)}",
        "",
        _plain(caption.text),
        "",
        *formula,
        "````{container} figure-card",
        *(
            line
            for colours in ("light", "dark")
            for line in (
                f"```{{image}} figures/{figure.name}-{colours}.svg",
                f":alt: {' '.join(caption.text.split())}",
                f":class: only-{colours}",
                "```",
            )
        ),
        "````",
        "",
        f"Alone: `locant figures {figure.name} -o figures`",
        "",
        *[f"- {_plain(point)}" for point in caption.points],
        "",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return a text whose signs have no meaning in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>$#|~])", r"\\\1", " ".join(text.split()))
