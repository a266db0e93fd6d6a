"""Rotary configurations of other software: read, write, explain and recognise them. Needs torch alone."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
