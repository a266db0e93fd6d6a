"""Builds, loads and calls the CPU kernel of the rotation, ``rotation.cpp``."""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

from locant.compiler import load_library

_FUNCTIONS = {torch.float32: "locant_rotate_float32", torch.bfloat16: "locant_rotate_bfloat16"}
_Layout = ctypes.c_int64 * 15


@cache
def load_kernel() -> ctypes.CDLL:
    """Build the kernel, unless that was done before, and load it.

    Raises:
        ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written.
    """
    library = load_library("locant.positions.rotary", "rotation.cpp")
    for name in _FUNCTIONS.values():
        getattr(library, name).argtypes = [ctypes.c_void_p] * 4 + [_Layout, ctypes.c_int]
    return library


def serves(x: Tensor) -> bool:
    """Return whether the kernel can rotate ``x``: float32 or bfloat16 on the CPU, the features next to each other."""
    return x.device.type == "cpu" and x.dtype in _FUNCTIONS and x.dim() == 4 and x.stride(3) == 1


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, *, interleaved: bool) -> Tensor:
    """Rotate ``x [B, H, L, D]``, of any strides over a row of features, by angles of ``[L, n]`` or ``[B, 1, L, n]``.

    Args:
        x: As :func:`serves` asks for.
        cosine: Cosines, float32, next to each other in the last dimension.
        sine: Sines, likewise.
        interleaved: Whether pairs are neighbours, or halves apart.

    Returns:
        The rotated features, of the shape and dtype of ``x``; those beyond the pairs are copied.
    """
    out = torch.empty_like(x)
    if not x.numel():
        return out
    batch, heads, length, features = x.shape
    tables = [_batch_and_row_stride(table) for table in (cosine, sine)]
    layout = _Layout(
        batch, heads, length, features, cosine.shape[-1], *x.stride()[:3], *out.stride()[:3], *tables[0], *tables[1]
    )
    function = getattr(load_kernel(), _FUNCTIONS[x.dtype])
    function(x.data_ptr(), out.data_ptr(), cosine.data_ptr(), sine.data_ptr(), layout, interleaved)
    return out


def _batch_and_row_stride(table: Tensor) -> tuple[int, int]:
    shared = table.dim() == 2 or table.shape[0] == 1
    return (0 if shared else table.stride(0)), table.stride(-2)
