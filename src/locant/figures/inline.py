"""Figures as text to be placed in a page."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING

from locant.figures.style import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # None leaves an entry out


def svg(figure: Figure, *, name: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element that refers to nothing outside itself.

    Letters become outlines, so that it looks the same wherever it is read. The same figure gives the same text.

    Args:
        figure: A matplotlib figure.
        name: Begins every id in the element; must be unique in a page. Letters, digits and hyphens.
        description: What the figure shows, for those who cannot see it.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: ``name`` cannot begin an id.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name):
        raise ValueError(f"A figure's name must be letters, digits and hyphens, letter first; got {name!r}.")
    with drawing():
        import matplotlib

        text = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
            figure.savefig(text, format="svg", metadata=_METADATA)
    # The XML declaration and document type before the element have no place inside a page.
    element = text.getvalue()
    element = element[element.index("<svg") :].strip()
    element = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", element)
    # A style sheet in the element would apply to the whole page; what it says can be inherited just as well.
    element = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", element, count=1, flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    title = f'<title id="{name}-title">{html.escape(description)}</title>'
    return f'{opening} style="stroke-linejoin: round" role="img" aria-labelledby="{name}-title">{title}{rest}'
