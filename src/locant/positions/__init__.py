"""Positional schemes: where a token stands, told at the input embedding, on queries and keys, or on the scores.

This package needs torch alone.
"""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
