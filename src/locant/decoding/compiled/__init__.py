"""Translation through kernels of Locant's own in C++, for the CPU."""

from locant.decoding.compiled.transformer import PRECISIONS, CompiledTransformer, supports

__all__ = ["PRECISIONS", "CompiledTransformer", "supports"]
