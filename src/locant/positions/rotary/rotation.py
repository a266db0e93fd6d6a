"""Rotation of pairs of features by given angles, in the two layouts of the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

RotaryLayout = Literal["half", "interleaved"]

# Elements that are rotated at a time without a compiler, few enough to stay in the caches between the steps.
_ELEMENTS_AT_ONCE = 1 << 18

_compiled: dict[int, Callable[[Tensor, Tensor, Tensor], Tensor]] = {}
_compiles = False


def compile_rotations(enabled: bool = True) -> None:
    """Let rotations in the layout ``half`` run through a compiled kernel of their own from now on, or no longer.

    One pass over the memory instead of several. The first call of each size of heads and dtype takes some seconds and
    needs what ``torch.compile`` needs, on CPU a C++ compiler. A model that is compiled as a whole has no use for it,
    and the layout ``interleaved`` is a complex multiplication, which is as fast without.

    Args:
        enabled: Whether to compile, in this process.
    """
    global _compiles
    _compiles = enabled
    _compiled.clear()


def rotate_pairs(x: Tensor, sine: Tensor, cosine: Tensor, layout: RotaryLayout) -> Tensor:
    """Rotate the pairs of the leading features of ``x``; the others pass.

    Layouts: ``half`` pairs feature ``i`` with ``i + n`` (GPT-NeoX, Llama in Hugging Face), ``interleaved`` pairs ``2i``
    with ``2i + 1`` (the paper, GPT-J, Llama as published)::

        a' = a cos - b sin
        b' = a sin + b cos

    Args:
        x: ``[B, H, L, D]`` with ``D >= 2n``; any floating dtype.
        sine: Sines of the angles, float32, ``[..., L, n]``, to broadcast with the pairs of ``x``.
        cosine: Cosines, likewise.
        layout: Which features form a pair.

    Returns:
        The rotated features in the shape and dtype of ``x``; the arithmetic is float32 (float64 for float64).
    """
    if torch.compiler.is_compiling():
        return _fused(x, sine, cosine) if layout == "half" else _rotated(x, sine, cosine, layout)
    return _Rotation.apply(x, sine, cosine, layout)  # type: ignore[no-untyped-call]


class _Rotation(torch.autograd.Function):
    """Its gradient is the rotation backwards, for which nothing but the angles is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sine: Tensor, cosine: Tensor, layout: RotaryLayout) -> Tensor:
        ctx.save_for_backward(sine, cosine)
        ctx.layout = layout
        return _turn(x, sine, cosine, layout)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        sine, cosine = ctx.saved_tensors
        return _turn(gradients[0], -sine, cosine, ctx.layout), None, None, None


def _turn(x: Tensor, sine: Tensor, cosine: Tensor, layout: RotaryLayout) -> Tensor:
    if not _compiles or layout == "interleaved":
        return _rotated(x, sine, cosine, layout)
    # One function for each size of heads: a size that is only known at run time would not be vectorised.
    size = x.shape[-1]
    if size not in _compiled:
        _compiled[size] = torch.compile(_fused)
    return _compiled[size](x, sine, cosine)


def _rotated(x: Tensor, sine: Tensor, cosine: Tensor, layout: RotaryLayout) -> Tensor:
    pairs = sine.shape[-1]
    dtype = torch.promote_types(x.dtype, torch.float32)
    sine, cosine = sine.to(dtype), cosine.to(dtype)
    if layout == "interleaved":
        turned = _multiplied(x[..., : 2 * pairs], sine, cosine)
        return turned if turned.shape == x.shape else torch.cat((turned, x[..., 2 * pairs :]), dim=-1)
    result = torch.empty_like(x)
    result[..., 2 * pairs :] = x[..., 2 * pairs :]
    step = max(1, _ELEMENTS_AT_ONCE // max(1, x[:, :1].numel()))
    for start in range(0, x.shape[1], step):
        part = x[:, start : start + step, :, : 2 * pairs].to(dtype)
        a, b = part[..., :pairs], part[..., pairs:]
        turned = result[:, start : start + step, :, : 2 * pairs]
        turned[..., :pairs] = (a * cosine).addcmul_(b, sine, value=-1)
        turned[..., pairs:] = (a * sine).addcmul_(b, cosine)
    return result


def _multiplied(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Rotate neighbours as the complex numbers that they are."""
    numbers = torch.view_as_complex(x.to(sine.dtype).reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(numbers * torch.complex(cosine, sine)).flatten(-2).to(x.dtype)


def _fused(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Rotate halves in a form that a compiler turns into one vectorised pass: both halves are one axis of size two."""
    pairs = sine.shape[-1]
    halves = x[..., : 2 * pairs].to(sine.dtype).reshape(*x.shape[:-1], 2, pairs)
    signed = torch.stack((-sine, sine), dim=-2)
    turned = (halves * cosine.unsqueeze(-2) + halves.flip(-2) * signed).flatten(-2).to(x.dtype)
    return turned if turned.shape == x.shape else torch.cat((turned, x[..., 2 * pairs :]), dim=-1)
