"""Models to and from other ecosystems: Marian and M2M-100 in Hugging Face, CTranslate2, ONNX."""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
