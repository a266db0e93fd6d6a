"""Existing models with rotary positions: what their configuration means, and what is wrong with it."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
