from locant.rotary_configs.config_json import read_huggingface as read_huggingface
from locant.rotary_configs.config_json import write_huggingface as write_huggingface
from locant.rotary_configs.ctranslate2 import write_ctranslate2 as write_ctranslate2
from locant.rotary_configs.fields import Finding as Finding
from locant.rotary_configs.gguf.llamacpp import read_llamacpp as read_llamacpp
from locant.rotary_configs.gguf.llamacpp import write_llamacpp as write_llamacpp
from locant.rotary_configs.gguf.reading import read_gguf as read_gguf
from locant.rotary_configs.gguf.writing import GGUFRotary as GGUFRotary
from locant.rotary_configs.gguf.writing import write_gguf as write_gguf
from locant.rotary_configs.identify import Identification as Identification
from locant.rotary_configs.identify import identify as identify
from locant.rotary_configs.reading import LayerType as LayerType
from locant.rotary_configs.reading import NoRotaryPositionsError as NoRotaryPositionsError
from locant.rotary_configs.reading import ParsedConfig as ParsedConfig
from locant.rotary_configs.scaling import Form as Form
from locant.rotary_configs.scaling import register_form as register_form
from locant.rotary_configs.vllm import served_length as served_length
from locant.rotary_configs.vllm import write_sglang as write_sglang
from locant.rotary_configs.vllm import write_vllm as write_vllm

__all__ = [
    "Form",
    "LayerType",
    "ParsedConfig",
    "identify",
    "read_gguf",
    "read_huggingface",
    "read_llamacpp",
    "register_form",
    "write_ctranslate2",
    "write_gguf",
    "write_huggingface",
    "write_llamacpp",
    "write_sglang",
    "write_vllm",
]
