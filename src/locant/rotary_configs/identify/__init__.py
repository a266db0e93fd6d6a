"""Identification of what produced a table of positions or a vector of frequencies found in a checkpoint."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
