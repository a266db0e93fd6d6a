"""Pictures: numbers in, figures out. Needs the extra ``report``."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
