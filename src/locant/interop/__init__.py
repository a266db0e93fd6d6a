"""Models to and from other ecosystems: Marian in Hugging Face, CTranslate2."""

from locant.interop.ctranslate2 import export_ctranslate2
from locant.interop.marian_export import export_huggingface
from locant.interop.marian_import import import_marian

__all__ = ["export_ctranslate2", "export_huggingface", "import_marian"]
