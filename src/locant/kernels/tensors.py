"""Tensors that kernels work on."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from locant.kernels.library import LIBRARY
from locant.kernels.operator import is_under_transforms

DTYPES = (torch.float32, torch.bfloat16)
"""What kernels read and write; their arithmetic is float32."""

SMALLEST = 1 << 12
"""Elements from which kernels serve. Below, nothing takes long, and no kernel need be built for it. The rule looks at
sizes alone, so that the same computation takes the same way each time."""


def suits_kernels(*tensors: Tensor, of_any_size: bool = False) -> bool:
    """Return whether tensors are such as kernels read: of :data:`DTYPES`, on the CPU, in plain memory.

    The first one has at least :data:`SMALLEST` elements, unless they may be ``of_any_size``; one of a free size that is
    exported is taken for large. Never while ``torch.jit`` traces, for forward-mode differentiation, or under transforms
    of ``torch.func``: these see PyTorch's own operations.
    """
    if torch.compiler.is_compiling():
        return _suit_where_traced(tensors, of_any_size)
    if not (of_any_size or tensors[0].numel() >= SMALLEST):
        return False
    for x in tensors:  # a loop, because a generator costs as much as the checks of one token's tensors
        if not x.is_cpu or x.dtype not in DTYPES or type(x) not in _PLAIN:
            return False
    return not lack_rules(*tensors) and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]


def lack_rules(*tensors: Tensor) -> bool:
    """Return whether operators have no rules for these: under transforms of ``torch.func``, and in forward mode."""
    return is_under_transforms() or any(unpack_dual(x).tangent is not None for x in tensors)  # type: ignore[no-untyped-call]


def is_usable() -> bool:
    """Return whether kernels can be used.

    Compilers and exporters, which cannot trace loading, take them for usable until loading has failed: operators load
    them, or do without.
    """
    return LIBRARY.expected() if torch.compiler.is_compiling() else LIBRARY.usable()


def address(x: Tensor | None) -> int | None:
    """Return where a tensor's elements begin in memory, for a pointer of C; ``None`` is its null."""
    return None if x is None else x.data_ptr()


def int64s(*values: int) -> ctypes.Array[ctypes.c_int64]:
    """Return whole numbers of 64 bits one after the other in memory, for a pointer of C."""
    return (ctypes.c_int64 * len(values))(*values)


def always(condition: bool | torch.SymBool) -> bool:
    """Return whether a condition on sizes holds; where free sizes are exported, for all that they may be."""
    if isinstance(condition, torch.SymBool) and _is_exporting():
        from torch.fx.experimental.symbolic_shapes import statically_known_true  # takes long to import

        return statically_known_true(condition)
    return bool(condition)


def _is_exporting() -> bool:
    """Whether a program is exported. The compiler of torch 2.8 takes ``torch.compiler.is_exporting()`` for true."""
    return torch.compiler._is_exporting_flag


def _suit_where_traced(tensors: tuple[Tensor, ...], of_any_size: bool) -> bool:
    if torch.onnx.is_in_onnx_export():  # ONNX knows no operators of Locant
        return False
    if not _is_exporting() and is_under_transforms():
        return False
    plain = torch.compiler.is_dynamo_compiling()  # else tensors are of classes of the exporter's
    for x in tensors:
        if not x.is_cpu or x.dtype not in DTYPES or (plain and type(x) not in _PLAIN):
            return False
    return of_any_size or not always(tensors[0].numel() < SMALLEST)


_PLAIN = (Tensor, torch.nn.Parameter)
