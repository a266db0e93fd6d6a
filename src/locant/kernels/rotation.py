"""Rotation of pairs of features in one pass over the memory."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from locant.kernels.library import Kernel
from locant.kernels.tensors import SMALLEST, suits_kernels

_FUNCTIONS = {torch.float32: "locant_rotate_float32", torch.bfloat16: "locant_rotate_bfloat16"}
KERNEL = Kernel(
    "rotation",
    dict.fromkeys(_FUNCTIONS.values(), ([ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_float], None)),
)


def serves(features: Sequence[Tensor], cosine: Tensor, sine: Tensor, *, smallest: int = SMALLEST) -> bool:
    """Return whether the kernel rotates these tensors by these angles, which are as :func:`rotate` takes them.

    Only where the features are of one dtype and those of a head lie next to each other, and the angles are constants.
    The first one has at least ``smallest`` elements.
    """
    return (
        suits_kernels(*features, smallest=smallest)
        and cosine.shape == sine.shape
        and all(x.dtype == torch.float32 and x.stride(-1) == 1 and not x.requires_grad for x in (cosine, sine))
        and all(x.dtype == features[0].dtype and _fits(x, cosine) for x in features)
        and KERNEL.usable()
    )


def rotate(
    features: Sequence[Tensor], cosine: Tensor, sine: Tensor, *, interleaved: bool, backwards: bool = False
) -> tuple[Tensor, ...]:
    """Rotate tensors ``[B, H, L, D]``, of any strides over a row, by angles of ``[L, n]`` or ``[B, 1, L, n]``.

    Args:
        features: As :func:`serves` asks for, though of any size; B and H may differ among them.
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
    function = getattr(KERNEL.library, _FUNCTIONS[features[0].dtype])
    works = array("q", numbers)
    function(works.buffer_info()[0], len(features), interleaved, -1.0 if backwards else 1.0)
    return rotated


def _fits(x: Tensor, table: Tensor) -> bool:
    """Whether features are ``[B, H, L, D]`` for a table ``[L, n]`` or ``[1 or B, 1, L, n]``."""
    if x.dim() != 4 or x.stride(3) != 1 or table.shape[-2:-1] != x.shape[2:3] or 2 * table.shape[-1] > x.shape[3]:
        return False
    return table.dim() == 2 or (table.dim() == 4 and table.shape[1] == 1 and table.shape[0] in (1, x.shape[0]))


def _batch_and_row_stride(table: Tensor) -> tuple[int, int]:
    shared = table.dim() == 2 or table.shape[0] == 1
    return (0 if shared else table.stride(0)), table.stride(-2)
