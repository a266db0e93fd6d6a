"""The server: translations over HTTP, with the interface of LibreTranslate."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
