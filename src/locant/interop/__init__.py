"""Models to and from other ecosystems: Marian and M2M-100 in Hugging Face, CTranslate2 (also as an engine), ONNX."""

from locant.interop.ctranslate2 import export_ctranslate2
from locant.interop.ctranslate2_engine import CTranslate2Translator
from locant.interop.engine import load_translator
from locant.interop.m2m100_import import import_m2m100_weights
from locant.interop.marian_export import export_huggingface
from locant.interop.marian_import import import_marian
from locant.interop.onnx_export import export_onnx

__all__ = [
    "CTranslate2Translator",
    "export_ctranslate2",
    "export_huggingface",
    "export_onnx",
    "import_m2m100_weights",
    "import_marian",
    "load_translator",
]
