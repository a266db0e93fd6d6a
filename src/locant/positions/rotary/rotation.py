"""Rotation of pairs of features by given angles, in the two layouts of the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.kernels import rotation as kernel
from locant.kernels.operator import is_transformed
from locant.positions.rotary.config import RotaryLayout
from locant.positions.scheme import require_choice


@dataclass(frozen=True)
class RotaryAngles:
    """Sines and cosines to rotate by; the layers of a model share them.

    Attributes:
        cosine: Cosines, float32 or float64, ``[..., L, n]``, to broadcast with the pairs of ``[B, H, L, D]``.
        sine: Sines, likewise.
        layout: Which features form a pair, see :func:`rotate_pairs`.
    """

    cosine: Tensor
    sine: Tensor
    layout: RotaryLayout


def apply_rotation(
    features: Sequence[Tensor], angles: RotaryAngles, *, of_any_size: bool = False
) -> tuple[Tensor, ...]:
    """Rotate the pairs of the leading features of tensors by the same angles; the other features pass.

    Args:
        features: Each ``[B, H, L, D]`` with ``D >= 2n``, of any floating dtype.
        angles: What to rotate by.
        of_any_size: Whether the C++ kernel, which serves where nothing has gradients, should serve small tensors too,
            such as those of one token, for which it would not be built automatically.

    Returns:
        The rotated features in their shapes and dtypes; the arithmetic is float32 (float64 for float64).
    """
    cosine, sine = angles.cosine, angles.sine
    interleaved = angles.layout == "interleaved"
    if kernel.serves(features, cosine, sine, of_any_size=of_any_size):
        return kernel.rotate(features, cosine, sine, interleaved=interleaved)
    constant = not (cosine.requires_grad or sine.requires_grad)
    if constant and torch.is_grad_enabled() and any(x.requires_grad for x in features) and not is_transformed():
        return tuple(_Rotation.apply(x, cosine, sine, interleaved) for x in features)  # type: ignore[no-untyped-call]
    return tuple(_rotated(x, cosine, sine, interleaved) for x in features)


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
    return apply_rotation((x,), RotaryAngles(cosine.float(), sine.float(), layout))[0]


class _Rotation(torch.autograd.Function):
    """Its gradient is the rotation backwards, for which nothing but the angles is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool) -> Tensor:
        ctx.interleaved = interleaved
        ctx.save_for_backward(cosine, sine)
        angles = RotaryAngles(cosine, sine, "interleaved" if interleaved else "half")
        return apply_rotation((x,), angles)[0]  # without gradients, which the kernel serves

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        turned = _Rotation.apply(outer[0], cosine, -sine, ctx.interleaved)  # type: ignore[no-untyped-call]
        return turned, None, None, None


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool) -> Tensor:
    pairs = cosine.shape[-1]
    if 2 * pairs < x.shape[-1]:
        return torch.cat((_rotated(x[..., : 2 * pairs], cosine, sine, interleaved), x[..., 2 * pairs :]), dim=-1)
    if x.dtype == torch.float64:
        cosine, sine = cosine.double(), sine.double()
    wide = x.to(cosine.dtype)
    if interleaved:
        wide = wide if wide.stride(-1) == 1 else wide.contiguous()  # of gradients, numbers may be one in memory
        numbers = torch.view_as_complex(wide.reshape(*x.shape[:-1], pairs, 2))
        return torch.view_as_real(numbers * torch.complex(cosine, sine)).flatten(-2).to(x.dtype)
    a, b = wide.chunk(2, dim=-1)
    cosine, sine = torch.cat((cosine, cosine), dim=-1), torch.cat((-sine, sine), dim=-1)
    return torch.addcmul(wide * cosine, torch.cat((b, a), dim=-1), sine).to(x.dtype)


def layout_order(head_dim: int, *, rotary_dim: int | None = None, source: RotaryLayout, target: RotaryLayout) -> Tensor:
    """Return where each feature of a head in the layout ``target`` is found in the layout ``source``.

    Args:
        head_dim: Features of one head, ``D``.
        rotary_dim: Number of leading features that are rotated; all when ``None``. The others keep their places.
        source: Layout that the features are in.
        target: Layout to return.

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
    they are only in other places. Nothing is computed, rows change places, so the conversion is exact.

    Args:
        projection: Weight ``[H * D, E]`` or bias ``[H * D]``, as in :class:`torch.nn.Linear`; with grouped queries the
            keys' projection has fewer heads and is converted in the same way. Split queries and keys in one matrix
            first; values have no layout.
        head_dim: Features of one head, ``D``.
        source: Layout that the projection was trained in.
        target: Layout to return.
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
