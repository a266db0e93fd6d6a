"""Dialects of the field: readers and writers between a rotary configuration and what other software says.

A writer writes what its dialect can say exactly, and raises ConfigError for the rest. A reader takes every entry that
is about rotary positions, or raises ConfigError; what may mean something else than it says comes as findings.
"""

from locant.positions.dialects.ctranslate2 import read_ctranslate2, write_ctranslate2
from locant.positions.dialects.gguf import read_gguf
from locant.positions.dialects.gguf_writer import GGUFRotary, write_gguf
from locant.positions.dialects.huggingface import read_huggingface
from locant.positions.dialects.huggingface_writer import write_huggingface
from locant.positions.dialects.llamacpp import read_llamacpp, write_llamacpp
from locant.positions.dialects.reading import Finding, Reading
from locant.positions.dialects.vllm import read_vllm
from locant.positions.dialects.vllm_writer import derived_max_model_len, write_vllm

__all__ = [
    "Finding",
    "GGUFRotary",
    "Reading",
    "derived_max_model_len",
    "read_ctranslate2",
    "read_gguf",
    "read_huggingface",
    "read_llamacpp",
    "read_vllm",
    "write_ctranslate2",
    "write_gguf",
    "write_huggingface",
    "write_llamacpp",
    "write_vllm",
]
