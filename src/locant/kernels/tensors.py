"""Tensors that kernels work on."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

DTYPES = (torch.float32, torch.bfloat16)
"""What kernels read and write; their arithmetic is float32."""

SMALLEST = 1 << 12
"""Elements from which kernels serve. Below, nothing takes long, and no kernel need be built for it. The rule looks at
sizes alone, so that the same computation takes the same way each time."""


def suits_kernels(*tensors: Tensor, of_any_size: bool = False) -> bool:
    """Return whether tensors are such as kernels read: of :data:`DTYPES`, on the CPU, in plain memory.

    The first one has at least :data:`SMALLEST` elements, unless they may be ``of_any_size``. Never under
    ``torch.compile``, export, tracing, the transforms of ``torch.func`` or forward-mode differentiation, which see only
    PyTorch's own operations.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing() or not (of_any_size or tensors[0].numel() >= SMALLEST):
        return False
    for x in tensors:  # a loop, because a generator costs as much as the checks of one token's tensors
        if not x.is_cpu or x.dtype not in DTYPES or type(x) not in _PLAIN:
            return False
    return not torch._C._are_functorch_transforms_active() and forward_ad._current_level < 0


def address(x: Tensor | None) -> int | None:
    """Return where a tensor's elements begin in memory, for a pointer of C; ``None`` is its null."""
    return None if x is None else x.data_ptr()


_PLAIN = (Tensor, torch.nn.Parameter)
