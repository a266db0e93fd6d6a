"""Models to and from other ecosystems: Marian and M2M-100 in Hugging Face, CTranslate2 (also as an engine), ONNX."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locant.interop.ctranslate2 import export_ctranslate2
    from locant.interop.ctranslate2_engine import CTranslate2Translator
    from locant.interop.engine import load_translator
    from locant.interop.huggingface_import import import_model
    from locant.interop.m2m100_import import import_m2m100, import_m2m100_weights
    from locant.interop.marian_export import export_huggingface
    from locant.interop.marian_import import import_marian
    from locant.interop.onnx_export import export_onnx

__all__ = [
    "CTranslate2Translator",
    "export_ctranslate2",
    "export_huggingface",
    "export_onnx",
    "import_m2m100",
    "import_m2m100_weights",
    "import_marian",
    "import_model",
    "load_translator",
]

_HOMES = {
    "CTranslate2Translator": "ctranslate2_engine",
    "export_ctranslate2": "ctranslate2",
    "export_huggingface": "marian_export",
    "export_onnx": "onnx_export",
    "import_m2m100": "m2m100_import",
    "import_m2m100_weights": "m2m100_import",
    "import_marian": "marian_import",
    "import_model": "huggingface_import",
    "load_translator": "engine",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import what is asked for then: who translates needs none of the exports."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
