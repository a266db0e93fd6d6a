"""Builds, loads and calls the CPU kernel of the rotation, ``rotation.cpp``."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from locant.kernels.library import load_library

_FUNCTIONS = {torch.float32: "locant_rotate_float32", torch.bfloat16: "locant_rotate_bfloat16"}


@cache
def load_kernel() -> ctypes.CDLL:
    """Build the kernel, unless that was done before, and load it.

    Raises:
        ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written.
    """
    library = load_library("rotation.cpp")
    for name in _FUNCTIONS.values():
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_float]
    return library


def serves(features: Sequence[Tensor]) -> bool:
    """Return whether the kernel can rotate these: float32 or bfloat16 on the CPU, features next to each other."""
    dtype = features[0].dtype
    return dtype in _FUNCTIONS and all(
        x.dtype == dtype and x.device.type == "cpu" and x.dim() == 4 and x.stride(3) == 1 for x in features
    )


def rotate(
    features: Sequence[Tensor], cosine: Tensor, sine: Tensor, *, interleaved: bool, backwards: bool = False
) -> tuple[Tensor, ...]:
    """Rotate tensors ``[B, H, L, D]``, of any strides over a row, by angles of ``[L, n]`` or ``[B, 1, L, n]``.

    Args:
        features: As :func:`serves` asks for; B and H may differ among them.
        cosine: Cosines, float32, next to each other in the last dimension.
        sine: Sines, likewise.
        interleaved: Whether pairs are neighbours, or halves apart.
        backwards: Whether to rotate by the opposite angles.

    Returns:
        The rotated features, of the shapes and the dtype of the given ones; those beyond the pairs are copied.
    """
    rotated = tuple(torch.empty_like(x) for x in features)
    tables = *_batch_and_row_stride(cosine), *_batch_and_row_stride(sine)
    addresses = cosine.data_ptr(), sine.data_ptr()
    numbers: list[int] = []
    for x, out in zip(features, rotated, strict=True):
        numbers += (x.data_ptr(), out.data_ptr(), *addresses, *x.shape, cosine.shape[-1])
        numbers += (*x.stride()[:3], *out.stride()[:3], *tables)
    function = getattr(load_kernel(), _FUNCTIONS[features[0].dtype])
    works = array("q", numbers)
    function(works.buffer_info()[0], len(features), interleaved, -1.0 if backwards else 1.0)
    return rotated


def _batch_and_row_stride(table: Tensor) -> tuple[int, int]:
    shared = table.dim() == 2 or table.shape[0] == 1
    return (0 if shared else table.stride(0)), table.stride(-2)
