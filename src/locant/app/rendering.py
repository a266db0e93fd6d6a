"""Templates of the pages, filled with what a page shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from locant.figures.palette import PROPERTIES
from locant.lazy import require_package
from locant.version import __version__


def render_template(
    name: str, what: str, *, filters: dict[str, Callable[..., Any]] | None = None, **values: Any
) -> str:
    """Return a page from a template; all text in it is escaped.

    Args:
        name: File of the template in ``templates``.
        what: What is being written, for the error.
        filters: Functions that the template uses.
        values: What the template shows, besides the ``version`` of Locant and its ``colours``.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    require_package("jinja2", f"Writing {what}")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("locant.app"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(filters or {})
    return environment.get_template(name).render(version=__version__, colours=PROPERTIES, **values)
