"""The lab: fair comparisons of positional schemes. Tasks, trials, records, tables."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
