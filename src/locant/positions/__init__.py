"""Positional schemes: the position of a token, at the input embedding, on queries and keys, or on the scores.

This package needs torch alone.
"""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
