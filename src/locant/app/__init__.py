"""Pages: the reports of runs, comparisons and evaluations by length, and the gallery. Needs the extra ``report``."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
