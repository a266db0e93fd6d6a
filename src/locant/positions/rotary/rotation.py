"""Rotation of pairs of features by given angles, in the two layouts of the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.kernels import rotation as kernel
from locant.positions.rotary.config import RotaryLayout
from locant.positions.scheme import require_choice

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
class RotaryAngles:
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
            return _rotate_features(features, self)
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
    return RotaryAngles(cosine.float(), sine.float(), layout)(x)[0]


class _Rotation(torch.autograd.Function):
    """Its gradient is the rotation backwards, for which nothing but the angles is kept."""

    @staticmethod
    def forward(ctx: Any, turn: RotaryAngles, *features: Tensor) -> tuple[Tensor, ...]:
        ctx.turn = turn
        return _rotate_features(features, turn)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_rotate_features(gradients, ctx.turn, backwards=True)


def _rotate_features(
    features: tuple[Tensor, ...], turn: RotaryAngles, *, backwards: bool = False
) -> tuple[Tensor, ...]:
    if _compiles and kernel.serves(features) and not torch.compiler.is_compiling():
        interleaved = turn.layout == "interleaved"
        return kernel.rotate(features, turn.cosine, turn.sine, interleaved=interleaved, backwards=backwards)
    if backwards:
        turn = RotaryAngles(turn.cosine, -turn.sine, turn.layout)
    return tuple(_rotate_one(x, turn) for x in features)


def _rotate_one(x: Tensor, turn: RotaryAngles) -> Tensor:
    pairs = turn.cosine.shape[-1]
    if 2 * pairs < x.shape[-1]:
        return torch.cat((_rotate_one(x[..., : 2 * pairs], turn), x[..., 2 * pairs :]), dim=-1)
    if x.dtype == torch.float64:
        turn = RotaryAngles(turn.cosine.double(), turn.sine.double(), turn.layout)
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


def layout_order(head_dim: int, *, rotary_dim: int | None = None, source: RotaryLayout, target: RotaryLayout) -> Tensor:
    """Return where each feature of a head in the layout ``target`` is found in the layout ``source``.

    Args:
        head_dim: Features of one head, ``D``.
        rotary_dim: Number of leading features that are rotated; all when ``None``. The others keep their places.
        source: Layout that the features are in.
        target: Layout that they shall be in.

    Returns:
        Indices ``[D]``: ``x[..., order]`` has the layout ``target``.

    Raises:
        ConfigError: A layout is unknown or ``rotary_dim`` is odd or larger than the head.
    """
    for option, value in (("source", source), ("target", target)):
        require_choice(f"{option} layout", value, ("half", "interleaved"))
    rotated = head_dim if rotary_dim is None else rotary_dim
    if rotated % 2 or not 0 < rotated <= head_dim:
        raise ConfigError(f"rotary_dim must be even and at most the head's {head_dim} features; got {rotated}.")
    order = torch.arange(head_dim)
    if source != target:
        pairs = order[:rotated].view(2, -1) if source == "half" else order[:rotated].view(-1, 2)
        order[:rotated] = pairs.T.reshape(-1).clone()
    return order


def convert_projection(
    projection: Tensor,
    head_dim: int,
    *,
    source: RotaryLayout,
    target: RotaryLayout,
    rotary_dim: int | None = None,
) -> Tensor:
    """Return the weight or bias of a query or key projection for the other rotary layout.

    Queries and keys keep their products when both are converted: the same pairs of features turn by the same angles,
    they only stand in other places. Nothing is computed, rows change places, so the conversion is exact.

    Args:
        projection: Weight ``[H * D, E]`` or bias ``[H * D]``, as in :class:`torch.nn.Linear`; with grouped queries the
            keys' projection has fewer heads and is converted alike. Queries and keys fused in one matrix are split
            first; values have no layout.
        head_dim: Features of one head, ``D``.
        source: Layout that the projection was trained in.
        target: Layout that it shall be in.
        rotary_dim: Number of leading features that are rotated; all when ``None``.

    Raises:
        ConfigError: The rows are not a whole number of heads, or as in :func:`layout_order`.

    Example:
        >>> import torch
        >>> bias = torch.tensor([0, 1, 2, 3, 10, 11, 12, 13])
        >>> convert_projection(bias, 4, source="half", target="interleaved").tolist()
        [0, 2, 1, 3, 10, 12, 11, 13]
    """
    rows = projection.shape[0]
    if rows % head_dim:
        raise ConfigError(f"The projection's {rows} rows are not a whole number of heads of {head_dim} features.")
    order = layout_order(head_dim, rotary_dim=rotary_dim, source=source, target=target).to(projection.device)
    heads = projection.reshape(rows // head_dim, head_dim, *projection.shape[1:])
    return heads.index_select(1, order).reshape(projection.shape)
