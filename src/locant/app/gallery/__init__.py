"""The gallery: positional schemes in figures, one by one or as a page. Needs the extra ``report``."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
