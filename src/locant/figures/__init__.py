"""Figures: each one file with its numbers and its drawing. Needs the extra ``report``.

The functions that draw take numbers and return a :class:`FigureData`; :func:`draw_figure` computes the numbers as well.
"""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
