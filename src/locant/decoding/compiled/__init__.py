"""Translation through kernels of Locant's own in C++, for the CPU."""

from locant.decoding.compiled.transformer import PRECISIONS, CompiledTransformer, has_int8

__all__ = ["PRECISIONS", "CompiledTransformer", "has_int8"]
