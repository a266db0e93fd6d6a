"""Rotation of pairs of features in one pass over the memory; its gradient is a rotation backwards."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from locant.kernels.library import LIBRARY, require_done
from locant.kernels.operator import operator
from locant.kernels.tensors import DTYPES, is_usable, suits_kernels

_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int)
_FUNCTIONS = {torch.float32: "locant_rotate_float32", torch.bfloat16: "locant_rotate_bfloat16"}
LIBRARY.declare(dict.fromkeys(_FUNCTIONS.values(), (_ARGUMENTS, ctypes.c_char_p)))


def serves(features: Sequence[Tensor], cosine: Tensor, sine: Tensor, *, of_any_size: bool = False) -> bool:
    """Return whether the kernel rotates these tensors by these angles, which are as :func:`rotate` takes them.

    Only where nothing has gradients, the features are of one dtype and those of a head lie next to each other. Small
    ones are left to PyTorch, unless they may be ``of_any_size``.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (*features, cosine, sine)):
        return False
    return suits_kernels(*features, of_any_size=of_any_size) and _fit(features, cosine, sine)


def rotate(features: Sequence[Tensor], cosine: Tensor, sine: Tensor, *, interleaved: bool) -> tuple[Tensor, ...]:
    """Rotate tensors ``[B, H, L, D]``, of any strides over a row, by angles of ``[L, n]`` or ``[B, 1, L, n]``.

    The features are as :func:`serves` asks for, though of any size; B and H may differ among them. Cosines and sines
    are float32, next to each other in the last dimension; pairs are neighbours where ``interleaved``, or halves apart.

    Returns the rotated features, of the shapes and the dtype of the given ones, without gradients; those beyond the
    pairs are copied.
    """
    return tuple(ROTATION(list(features), cosine, sine, interleaved))


def _kernel(features: list[Tensor], cosine: Tensor, sine: Tensor, interleaved: bool) -> list[Tensor]:
    rotated = [torch.empty_like(x) for x in features]
    tables = *_batch_and_row_stride(cosine), *_batch_and_row_stride(sine)
    addresses, pairs = (cosine.data_ptr(), sine.data_ptr()), cosine.shape[-1]
    numbers: list[int] = []
    for x, out in zip(features, rotated, strict=True):
        *steps, step = out.stride()
        if step != 1:  # rows of x overlap, and those of its like are laid out in another order
            return _plain(features, cosine, sine, interleaved)
        numbers += (x.data_ptr(), out.data_ptr(), *addresses, *x.shape, pairs)
        numbers += (*x.stride()[:3], *steps, *tables)
    function = getattr(LIBRARY.load(), _FUNCTIONS[features[0].dtype])
    works = array("q", numbers)
    require_done(function(works.buffer_info()[0], len(features), interleaved, torch.get_num_threads()))
    return rotated


def _plain(features: list[Tensor], cosine: Tensor, sine: Tensor, interleaved: bool) -> list[Tensor]:
    return [torch.ops.aten.copy(torch.empty_like(x), _rotated(x, cosine, sine, interleaved)) for x in features]


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool) -> Tensor:
    wide, pairs = torch.promote_types(x.dtype, torch.float32), cosine.shape[-1]
    turned, rest = x[..., : 2 * pairs].to(wide), x[..., 2 * pairs :]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :pairs], turned[..., pairs:])
    parts = a * cosine - b * sine, a * sine + b * cosine
    found = torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)
    return torch.cat((found.to(x.dtype), rest), dim=-1)


def _reads(features: list[Tensor], cosine: Tensor, sine: Tensor, interleaved: bool) -> bool:
    del interleaved
    dtype = features[0].dtype if features else None
    here = all(x.is_cpu for x in features)
    return dtype in DTYPES and here and _fit(features, cosine, sine)


ROTATION = operator(
    "rotate(Tensor[] features, Tensor cosine, Tensor sine, bool interleaved) -> Tensor[]",
    kernel=_kernel,
    plain=_plain,
    reads=_reads,
)


def _fit(features: Sequence[Tensor], cosine: Tensor, sine: Tensor) -> bool:
    if cosine.shape != sine.shape:
        return False
    for table in (cosine, sine):
        if table.dtype != torch.float32 or table.stride(-1) != 1 or not table.is_cpu:
            return False
    dtype, shape = features[0].dtype, cosine.shape
    fit = len(shape) in (2, 4)
    for x in features:
        fit = fit and x.dtype == dtype and _fits(x, shape)
    return fit and is_usable()


def _fits(x: Tensor, table: torch.Size) -> bool:
    """Whether features are ``[B, H, L, D]`` for a table of the shape ``[L, n]`` or ``[1 or B, 1, L, n]``."""
    shape = x.shape
    if len(shape) != 4 or x.stride(3) != 1:
        return False
    rows, _, length, width = shape
    if table[-2] != length or 2 * table[-1] > width:
        return False
    return len(table) == 2 or (table[1] == 1 and table[0] in (1, rows))


def _batch_and_row_stride(table: Tensor) -> tuple[int, int]:
    shared = table.dim() == 2 or table.shape[0] == 1
    return (0 if shared else table.stride(0)), table.stride(-2)
