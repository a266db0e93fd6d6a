"""Errors about positions and the Transformer that tutorials repeat, each with the values that refute it."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
