"""The explorer: a local web page whose knobs show what positional schemes do. Needs the extra ``explore``."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
