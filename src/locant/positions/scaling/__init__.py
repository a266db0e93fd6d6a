"""Scalings of rotary frequencies, by which a model reads longer texts than it was trained for."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
