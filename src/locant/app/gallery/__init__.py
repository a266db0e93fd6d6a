"""The gallery: positional schemes in figures, one by one or as a page. Needs the extra ``report``."""

from locant.app.gallery.catalogue import ENTRIES, Entry, draw
from locant.app.gallery.page import FORMATS, render_page, write_figures, write_gallery

__all__ = ["ENTRIES", "FORMATS", "Entry", "draw", "render_page", "write_figures", "write_gallery"]
