"""Positions in the layers of ``torch.nn``: multi-head attention that knows the positions of its queries and keys."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.scheme import PositionScheme, Prepared
from locant.positions.wrapper import SchemeWrapper


class PositionedAttention(nn.MultiheadAttention):
    """:class:`torch.nn.MultiheadAttention` as self-attention with a positional scheme.

    Parameters have the same names, shapes and first values, so that weights go from one to the other; the scheme is the
    submodule ``scheme``. Arguments and results are torch's, masks included. The fast path of torch's layers, which in
    evaluation passes the attention by, is not taken.

    Args:
        embed_dim: Width of the model, ``E``.
        num_heads: Number of heads, ``H``.
        scheme: It acts on queries and keys or on scores.
        dropout: Probability of dropping an attention weight.
        bias: Whether projections have biases.
        batch_first: Whether sequences are ``[B, L, E]``, and not ``[L, B, E]``.

    Raises:
        ConfigError: The scheme acts on the embeddings, or draws positions.

    Example:
        >>> import torch
        >>> from locant.positions import Rotary
        >>> attention, x = PositionedAttention(16, 2, Rotary(8), batch_first=True), torch.randn(3, 5, 16)
        >>> attention(x, x, x)[0].shape
        torch.Size([3, 5, 16])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        scheme: PositionScheme,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias, batch_first=batch_first)
        self._give(scheme)

    @classmethod
    def from_attention(cls, attention: nn.MultiheadAttention, scheme: PositionScheme) -> Self:
        """Return an attention with the parameters of another, which are shared, and a scheme.

        Raises:
            ConfigError: The scheme acts on the embeddings, or the other one has biases of keys and values, zero
                attention or other widths of keys and values.
        """
        if attention.in_proj_weight is None or attention.bias_k is not None or attention.add_zero_attn:
            raise ConfigError(
                "Positions go into self-attention alone: without kdim, vdim, add_bias_kv and add_zero_attn."
            )
        found = cls.__new__(cls)
        found.__dict__.update(attention.__dict__)
        for members in ("_parameters", "_modules", "_buffers"):
            found.__dict__[members] = dict(getattr(attention, members))
        found._give(scheme)
        return found

    def _give(self, scheme: PositionScheme) -> None:
        if "embedding" in scheme.acts_on:
            raise ConfigError(
                f"The scheme '{scheme.name}' acts on the embeddings: call it on the input of the first layer instead."
            )
        own = (PositionScheme.drawn, SchemeWrapper.drawn)
        if any(type(part).drawn not in own for part in scheme.modules() if isinstance(part, PositionScheme)):
            raise ConfigError(
                f"The scheme '{scheme.name}' draws positions once for all layers, which torch's layers do not share."
            )
        self.scheme = scheme
        # What torch's encoder layers ask for before they leave out the attention's own forward pass in evaluation.
        self._qkv_same_embed_dim = False

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend; as :meth:`torch.nn.MultiheadAttention.forward`.

        Args:
            query: ``[L, B, E]``, ``[B, L, E]`` with ``batch_first``, or ``[L, E]``.
            key: The same tensor.
            value: The same tensor.
            key_padding_mask: ``[B, L]``, boolean, true where a key is padding, or added to the scores.
            need_weights: Whether to return the attention's weights.
            attn_mask: ``[L, L]`` or ``[B H, L, L]``, boolean, true where a key is not seen, or added to the scores.
            average_attn_weights: Whether weights are the mean of all heads.
            is_causal: A hint, which needs the mask as well.
            positions: Integer positions ``[L]`` or ``[B, L]``; 0, 1, 2 ... unless given.

        Returns:
            The output, of the shape of ``query``, and the weights ``[B, L, L]`` or ``[B, H, L, L]``, or ``None``.

        Raises:
            ConfigError: Query, key and value are not the same, a tensor is nested, or a mask is missing.
        """
        if query is not key or key is not value:
            raise ConfigError("Positions go into self-attention: query, key and value must be the same tensor.")
        if query.is_nested:
            raise ConfigError(
                "Nested tensors have no positions here. Build nn.TransformerEncoder with enable_nested_tensor=False."
            )
        if is_causal and attn_mask is None:
            raise ConfigError("is_causal is a hint that needs attn_mask too, as in torch.nn.MultiheadAttention.")
        is_batched = query.dim() == 3
        x = query if is_batched else query.unsqueeze(0)
        if is_batched and not self.batch_first:
            x = x.transpose(0, 1)
        rows, length, _ = x.shape
        projected = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = projected.view(rows, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        if positions is None:
            positions = torch.arange(length, device=x.device)
        mask = None if attn_mask is None else _added(attn_mask, q.dtype)
        if mask is not None:
            mask = mask.view(rows, -1, length, length) if mask.dim() == 3 else mask[None, None]
        if key_padding_mask is not None:
            padding = _added(key_padding_mask, q.dtype).view(rows, 1, 1, length)
            mask = padding if mask is None else mask + padding
        state = self.scheme.prepare(x, positions) if self.scheme.reads_state else None
        # A bias is that of all queries at once: a state does not say where a part of them is among the keys.
        bias = self.scheme.score_bias(q, k, positions, positions, *self.scheme.state_for("score_bias", state))
        if bias is not None:
            mask = bias if mask is None else bias + mask
        parts = [
            self._attend(q, k, v, positions, state, mask, run, need_weights)
            for run in self.scheme.query_blocks(positions)
        ]
        out = self.out_proj(torch.cat([part[0] for part in parts], dim=2).transpose(1, 2).flatten(2))
        weights = torch.cat([part[1] for part in parts if part[1] is not None], dim=2) if need_weights else None
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not is_batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        state: Prepared | None,
        mask: Tensor | None,
        run: slice,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend with a run of queries; returns the output ``[B, H, n, D]`` and, where they are needed, the weights."""
        q, at = q[:, :, run], positions[..., run]
        bias = mask[:, :, run] if mask is not None and mask.shape[2] > 1 else mask
        state = None if state is None else state.part(run, slice(None))
        q, k = self.scheme.rotate(q, k, at, positions, *self.scheme.state_for("rotate", state))
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout), None
        scores = q @ k.mT * q.shape[-1] ** -0.5
        weights = (scores if bias is None else scores + bias).softmax(-1)
        return nn.functional.dropout(weights, dropout) @ v, weights


def add_positions(module: nn.Module, scheme: PositionScheme) -> None:
    """Give the self-attention of all of torch's encoder and decoder layers in a module a positional scheme.

    Weights stay where they are and keep their names. Cross-attention is left alone.

    Args:
        module: A :class:`torch.nn.TransformerEncoderLayer` or ``TransformerDecoderLayer``, or a module that has some.
        scheme: It acts on queries and keys or on scores. Layers share it, or get a copy each where its parameters are a
            layer's own.

    Raises:
        ConfigError: There is no such layer, or as in :meth:`PositionedAttention.from_attention`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from locant.positions import Rotary
        >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), num_layers=2)
        >>> add_positions(encoder, Rotary(8))
        >>> encoder(torch.randn(3, 5, 16)).shape
        torch.Size([3, 5, 16])
    """
    layers = [
        each for each in module.modules() if isinstance(each, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer)
    ]
    if not layers:
        raise ConfigError(
            f"{type(module).__name__} has no nn.TransformerEncoderLayer or nn.TransformerDecoderLayer in it."
        )
    for index, layer in enumerate(layers):
        own = copy.deepcopy(scheme) if scheme.per_layer and index else scheme
        layer.self_attn = PositionedAttention.from_attention(layer.self_attn, own)
    for each in module.modules():
        if isinstance(each, nn.TransformerEncoder):
            each.use_nested_tensor = False


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what a mask adds to the scores."""
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    return mask.to(dtype)
