"""Forget gates of attention: data-dependent ALiBi and the Forgetting Transformer (Lin et al. 2025)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.scheme import AttentionShape, PositionScheme, Prepared


@register_scheme("data-dependent-alibi")
class DataDependentALiBi(PositionScheme):
    """Lowers the score of a key by what the tokens between, and the query's, make a head forget.

    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", section 3. With ``x_l`` the
    layer's input and ``w`` and ``b`` of each head::

        f_l = sigmoid(w.x_l + b)
        bias(i, j) = sum of log f_l over j < l <= i

    Gates ``f = e^-m`` everywhere would be ALiBi with the slope ``m``: here each token sets its own. Tokens are counted,
    not positions: the sum runs over the keys between, in their order.

    The paper defines no gate for an encoder. There each head has a second gate ``g`` for keys after the query, as in
    x-transformers (Wang 2024)::

        bias(i, j) = sum of log g_l over i < l <= j            for j > i

    Parameters, of every layer: ``weight`` ``w [H, E]``, drawn from a normal distribution of deviation 0.02, and
    ``bias`` ``b [H]``; in an encoder ``[2 H, E]`` and ``[2 H]``, those of ``f`` first.

    Padding at either end, packed texts and caches need nothing: no gate outside of a text lies between two of its
    tokens. Cross-attention is left alone.

    Precision: gates in float32 (float64 for float64 input) whatever the dtype of the model, also under autocast; their
    sums in float64, so that near keys of long texts keep exact biases.

    Args:
        model_dim: Width of the model, ``E``.
        num_heads: Number of heads, ``H``.
        causal: Whether the scheme serves a decoder.
        initial_bias: Where ``b`` begins. At 5, as in x-transformers, a head forgets less than a hundredth at a token.

    Example:
        >>> import torch
        >>> scheme, x = DataDependentALiBi(8, 2, True, initial_bias=0.0), torch.zeros(1, 3, 8)  # gates of 1/2
        >>> q, positions = torch.zeros(1, 2, 3, 4), torch.arange(3)
        >>> scheme(q, q, positions, state=scheme.prepare(x, positions))[0, 0, -1].exp()
        tensor([0.2500, 0.5000, 1.0000], grad_fn=<ExpBackward0>)
    """

    title = "Data-dependent ALiBi"
    paper = "Lin et al. 2025"
    per_layer: ClassVar[bool] = True
    traceable = True

    def __init__(self, model_dim: int, num_heads: int, causal: bool, *, initial_bias: float = 5.0) -> None:
        super().__init__()
        self.num_heads, self.causal, self.initial_bias = num_heads, causal, initial_bias
        gates = num_heads if causal else 2 * num_heads
        self.weight = nn.Parameter(torch.empty(gates, model_dim))
        self.bias = nn.Parameter(torch.empty(gates))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width and the heads of a model's encoder or decoder."""
        return cls(shape.model_dim, shape.num_heads, shape.causal, **options)

    def reset_parameters(self) -> None:
        """Draw the weights from a normal distribution of deviation 0.02, and set the biases."""
        nn.init.normal_(self.weight, std=0.02)
        nn.init.constant_(self.bias, self.initial_bias)

    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        """Return the logarithms of the gates, which keys carry, or in an encoder their sums up to each token.

        Args:
            x: ``[B, L, E]``.
            positions: Integer positions ``[L]`` or ``[B, L]``; not read.

        Returns:
            Logarithms ``[B, H, L]`` for keys, in float32 or float64. In an encoder float64 sums ``[B, H, L, 2]`` for
            queries and keys, those of ``g`` with a minus sign: there is no cache that would have to keep them.
        """
        del positions
        dtype = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            gates = nn.functional.linear(x.to(dtype), self.weight.to(dtype), self.bias.to(dtype))
        log_gates = nn.functional.logsigmoid(gates).transpose(1, 2)
        if self.causal:
            return Prepared(keys=log_gates)
        forward, backward = log_gates.double().cumsum(-1).chunk(2, dim=1)
        sums = torch.stack((forward, -backward), dim=-1)
        return Prepared(sums, sums)

    def score_bias(  # type: ignore[override]
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, state: Prepared
    ) -> Tensor:
        """Return the sums of the gates' logarithms.

        Args:
            q: Queries ``[B, H, Q, D]``; in a decoder those of the last keys.
            k: Keys ``[B, H, K, D]``.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``; not read.
            k_positions: Integer positions ``[K]`` or ``[B, K]``; not read.
            state: From :meth:`prepare`, with the part of all keys.

        Returns:
            ``[B, H, Q, K]`` of the dtype of ``q``. In a decoder, the bias of keys after the query has no meaning.
        """
        del q_positions, k_positions
        assert state.keys is not None
        if self.causal:
            sums = state.keys.double().cumsum(-1)
            return _differences(sums[..., k.shape[2] - q.shape[2] :], sums, q.dtype)
        assert state.queries is not None
        both = zip(state.queries.unbind(-1), state.keys.unbind(-1), strict=True)
        # The difference that is above zero belongs to the other side of the query.
        return torch.minimum(*(_differences(of_queries, of_keys, q.dtype) for of_queries, of_keys in both))


@register_scheme("fox")
class FoX(DataDependentALiBi):
    """The Forgetting Transformer: the gates of :class:`DataDependentALiBi` as its authors use them.

    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", section 3, and the authors'
    code: ``b`` begins at zero, where a head forgets half at every token. It is defined for decoders alone.

    Args:
        model_dim: Width of the model, ``E``.
        num_heads: Number of heads, ``H``.

    Raises:
        ConfigError: The model's stack is not causal.

    Example:
        >>> import torch
        >>> scheme, x = FoX(8, 2), torch.zeros(1, 3, 8)  # gates of 1/2
        >>> q, positions = torch.zeros(1, 2, 3, 4), torch.arange(3)
        >>> scheme(q, q, positions, state=scheme.prepare(x, positions))[0, 0, -1].exp().tolist()
        [0.25, 0.5, 1.0]
    """

    title = "FoX"
    paper = "Lin et al. 2025"

    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__(model_dim, num_heads, True, initial_bias=0.0)

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width and the heads of a model's decoder."""
        if not shape.causal:
            raise ConfigError(
                "The forget gates of 'fox' see the past alone, which an encoder's do not: choose "
                "'data-dependent-alibi', which has gates for both directions."
            )
        return cls(shape.model_dim, shape.num_heads, **options)


def _differences(of_queries: Tensor, of_keys: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the differences ``[B, H, Q, K]`` of float64 sums ``[B, H, Q]`` and ``[B, H, K]``.

    They are as exact as float32 can hold them however large the sums, though nothing is computed for pairs in float64.
    """
    wide = torch.promote_types(dtype, torch.float32)
    q, k = of_queries.to(wide), of_keys.to(wide)
    found = q.unsqueeze(-1) - k.unsqueeze(-2)
    found += (of_queries - q).to(wide).unsqueeze(-1)
    found -= (of_keys - k).to(wide).unsqueeze(-2)
    return found.to(dtype)
