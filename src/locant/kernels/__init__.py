"""C++ kernels for the CPU, each beside its source; what builds and loads them, and the switch that turns them off.

A kernel serves by itself where PyTorch's operations are slower: it is built at its first use, for the processor at
hand, and kept in the user's cache folder. :func:`enabled` switches all of them off or on.
"""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
