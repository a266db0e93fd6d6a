"""GGUF files and the flags of llama.cpp: reading and writing of their rotary positions."""

from locant.rotary_configs.gguf.architectures import Architecture as Architecture
from locant.rotary_configs.gguf.architectures import architecture_of as architecture_of
from locant.rotary_configs.gguf.llamacpp import read_llamacpp as read_llamacpp
from locant.rotary_configs.gguf.llamacpp import write_llamacpp as write_llamacpp
from locant.rotary_configs.gguf.reading import read_gguf as read_gguf
from locant.rotary_configs.gguf.writing import GGUFRotary as GGUFRotary
from locant.rotary_configs.gguf.writing import write_gguf as write_gguf
