"""Locant's positions in models of Hugging Face's transformers, which the extra ``extension`` brings."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
