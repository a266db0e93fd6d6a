"""The report page. Needs the extra ``report``."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
