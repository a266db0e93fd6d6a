"""Rotation of pairs of features by given angles, in the two layouts of the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from locant.positions.rotary import kernel
from locant.positions.rotary.config import RotaryLayout

# Elements that are rotated at a time without a compiler, few enough to stay in the caches between the steps.
_ELEMENTS_AT_ONCE = 1 << 18

_compiles = False


def compile_rotations(enabled: bool = True) -> None:
    """Let rotations run through a compiled kernel of their own from now on, or no longer.

    On a CPU that is a small C++ kernel for float32 and bfloat16, built once in the user's cache folder (about a
    second): one pass over the memory instead of several. On other devices it is ``torch.compile``, whose first call
    takes some seconds. A model that is compiled as a whole has no use for either.

    Args:
        enabled: Whether to use compiled kernels, in this process.

    Raises:
        ConfigError: There is no C++ compiler, or it fails.
    """
    global _compiles
    if enabled:
        kernel.load_kernel()
    _compiles = enabled


@lru_cache(maxsize=1)
def _compiled() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return torch.compile(_fused)


@dataclass(frozen=True)
class Turn:
    """Angles to rotate by; the layers of a model share them.

    Attributes:
        cosine: Cosines ``[..., L, n]``, float32 or float64.
        sine: Sines, likewise.
        layout: Which features form a pair.
    """

    cosine: Tensor
    sine: Tensor
    layout: RotaryLayout

    def __call__(self, *features: Tensor) -> tuple[Tensor, ...]:
        """Rotate each ``[B, H, L, D]`` as :func:`rotate_pairs` does."""
        if torch.compiler.is_compiling() or not (torch.is_grad_enabled() and any(x.requires_grad for x in features)):
            return _turned(features, self)
        rotated: tuple[Tensor, ...] = _Rotation.apply(self, *features)  # type: ignore[no-untyped-call]
        return rotated


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
    return Turn(cosine.float(), sine.float(), layout)(x)[0]


class _Rotation(torch.autograd.Function):
    """Its gradient is the rotation backwards, for which nothing but the angles is kept."""

    @staticmethod
    def forward(ctx: Any, turn: Turn, *features: Tensor) -> tuple[Tensor, ...]:
        ctx.turn = turn
        return _turned(features, turn)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_turned(gradients, ctx.turn, backwards=True)


def _turned(features: tuple[Tensor, ...], turn: Turn, *, backwards: bool = False) -> tuple[Tensor, ...]:
    if _compiles and kernel.serves(features) and not torch.compiler.is_compiling():
        interleaved = turn.layout == "interleaved"
        return kernel.rotate(features, turn.cosine, turn.sine, interleaved=interleaved, backwards=backwards)
    if backwards:
        turn = Turn(turn.cosine, -turn.sine, turn.layout)
    return tuple(_one_turned(x, turn) for x in features)


def _one_turned(x: Tensor, turn: Turn) -> Tensor:
    pairs = turn.cosine.shape[-1]
    if 2 * pairs < x.shape[-1]:
        return torch.cat((_one_turned(x[..., : 2 * pairs], turn), x[..., 2 * pairs :]), dim=-1)
    if x.dtype == torch.float64:
        turn = Turn(turn.cosine.double(), turn.sine.double(), turn.layout)
    if turn.layout == "interleaved":
        numbers = torch.view_as_complex(x.to(turn.cosine.dtype).reshape(*x.shape[:-1], pairs, 2))
        return torch.view_as_real(numbers * torch.complex(turn.cosine, turn.sine)).flatten(-2).to(x.dtype)
    if torch.compiler.is_compiling():
        return _fused(x, turn.cosine, turn.sine)
    if _compiles and x.device.type != "cpu":
        return _compiled()(x, turn.cosine, turn.sine)
    return _in_blocks(x, turn.cosine, turn.sine)


def _fused(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate halves in a form that a compiler turns into one vectorised pass: both halves are one axis of size two."""
    halves = x.to(cosine.dtype).reshape(*x.shape[:-1], 2, -1)
    return (
        (halves * cosine.unsqueeze(-2) + halves.flip(-2) * torch.stack((-sine, sine), dim=-2)).flatten(-2).to(x.dtype)
    )


def _in_blocks(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    result = torch.empty_like(x)
    pairs = cosine.shape[-1]
    step = max(1, _ELEMENTS_AT_ONCE // max(1, x[:, :1].numel()))
    for start in range(0, x.shape[1], step):
        part, turned = x[:, start : start + step].to(cosine.dtype), result[:, start : start + step]
        a, b = part[..., :pairs], part[..., pairs:]
        turned[..., :pairs] = (a * cosine).addcmul_(b, sine, value=-1)
        turned[..., pairs:] = (b * cosine).addcmul_(a, sine)
    return result
