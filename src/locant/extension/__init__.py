"""Existing models with rotary positions: inspected, extended to longer texts, and evaluated by length."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
