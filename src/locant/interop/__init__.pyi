from locant.interop.argos import export_argos as export_argos
from locant.interop.argos import import_argos as import_argos
from locant.interop.ctranslate2 import export_ctranslate2 as export_ctranslate2
from locant.interop.importing import import_model as import_model
from locant.interop.marian import export_huggingface as export_huggingface
from locant.interop.onnx_export import export_onnx as export_onnx

__all__ = [
    "export_argos",
    "export_ctranslate2",
    "export_huggingface",
    "export_onnx",
    "import_model",
]
