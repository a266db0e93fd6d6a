"""Documents: whole texts and files in many formats, translated with everything around their sentences as it was."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
