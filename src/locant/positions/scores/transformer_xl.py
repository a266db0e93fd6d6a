"""Relative positions of Transformer-XL (Dai et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.positions.embeddings.sinusoidal import sinusoid_frequencies
from locant.positions.registry import register_scheme
from locant.positions.relative import distinct, place, relative_positions
from locant.positions.scheme import AttentionShape, PositionScheme


@register_scheme("transformer-xl")
class TransformerXL(PositionScheme):
    """Compares queries with projected sinusoids of relative positions, and adds two learned biases.

    Source: Dai et al. 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context", section 3.3,
    terms (a) to (d)::

        score(i, j) = ( q_i.k_j  +  q_i.r(i-j)  +  u.k_j  +  v.r(i-j) ) / sqrt(D)
                          (a)          (b)          (c)         (d)
        r(d)        = R(d) W,   R(d) = [sin(d f_0), sin(d f_1), ..., cos(d f_0), cos(d f_1), ...],
        f_m         = 10000^(-2m/E)

    Term (a) is what attention computes anyway; ``score_bias`` returns the other three. ``i`` is the query's position
    and ``j`` the key's, in tokens. All sines come before all cosines, as in the authors' code. The products with ``r``
    are taken once for every distinct ``i - j`` and then placed (appendix B).

    Parameters, of every layer and head: ``content_bias`` ``u [H, D]``, ``position_bias`` ``v [H, D]`` and
    ``projection`` ``W [E, H D]``. In the paper ``W`` belongs to a layer, while ``u`` and ``v`` serve all layers; here
    each layer has its own ``u`` and ``v`` too, as in XLNet (Yang et al. 2019). Copy them to all layers to carry over
    weights of the paper's models.

    In a decoder ``i - j >= 0``. In an encoder negative ``i - j`` occur as well, and the odd sines distinguish the two
    directions apart, as in XLNet. Cross-attention is well-defined where positions of the two texts can be compared.
    There is no longest text. Padding cannot leak: a bias depends on its own query and key alone.

    Precision: sinusoids within 3.1e-8 of the exact value, neither parameters nor buffers; products in float32 (float64
    for float64 input) whatever the dtype of the model, also under autocast.

    Args:
        model_dim: Width of the model, ``E``; even.
        num_heads: Number of heads, ``H``.
        head_dim: Features of a head, ``D``, where they are not ``E / H``.

    Raises:
        ConfigError: ``model_dim`` is odd, or positions are not integers.

    Example:
        >>> import torch
        >>> scheme = TransformerXL(8, 2)
        >>> q, k = torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 5, 4)
        >>> scheme.score_bias(q, k, torch.tensor([4]), torch.arange(5)).shape
        torch.Size([1, 2, 1, 5])
    """

    title = "Transformer-XL"
    paper = "Dai et al. 2019"
    per_layer: ClassVar[bool] = True
    traceable = True

    def __init__(self, model_dim: int, num_heads: int, head_dim: int | None = None) -> None:
        super().__init__()
        self.frequencies = sinusoid_frequencies(model_dim)
        self.num_heads, self.head_dim = num_heads, head_dim or model_dim // num_heads
        self.content_bias = nn.Parameter(torch.empty(num_heads, self.head_dim))
        self.position_bias = nn.Parameter(torch.empty(num_heads, self.head_dim))
        self.projection = nn.Parameter(torch.empty(model_dim, num_heads * self.head_dim))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width and the heads of a model."""
        return cls(shape.model_dim, shape.num_heads, shape.head_dim, **options)

    def reset_parameters(self) -> None:
        """Draw ``W`` Xavier-uniformly, and the biases from a normal distribution of deviation 0.02 (authors' code)."""
        nn.init.xavier_uniform_(self.projection)
        nn.init.normal_(self.content_bias, std=0.02)
        nn.init.normal_(self.position_bias, std=0.02)

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the terms (b), (c) and (d) over ``sqrt(D)``; shapes as in :meth:`PositionScheme.score_bias`.

        Returns:
            ``[B, H, Q, K]`` of the dtype of ``q``.
        """
        dtype = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            products = self._of_pairs if torch.compiler.is_compiling() else self._of_distances
            by_position = products(q.to(dtype) + self.position_bias.to(dtype).unsqueeze(1), q_positions, k_positions)
            by_content = self.content_bias.to(dtype).unsqueeze(1) @ k.to(dtype).transpose(-1, -2)
        return ((by_position + by_content) * q.shape[-1] ** -0.5).to(q.dtype)

    def _of_distances(self, queries: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the products of ``queries [B, H, Q, D]`` with ``r``, once for every distinct distance, then placed."""
        rows, index = distinct(-relative_positions(q_positions, k_positions))
        sinusoids = torch.cat(self.frequencies.sine_cosine(rows), dim=-1).to(queries.dtype)
        relative = (sinusoids @ self.projection.to(queries.dtype)).view(len(rows), *self.content_bias.shape)
        return place(queries @ relative.permute(1, 2, 0), index)

    def _of_pairs(self, queries: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the same without a look at the positions, by the addition theorems.

        With ``a`` and ``b`` the queries' products with the sines' and the cosines' rows of ``W``::

            a sin(i - j) + b cos(i - j) = cos j (a sin i + b cos i) + sin j (b sin i - a cos i)
        """
        heads, size = self.content_bias.shape
        projection = self.projection.to(queries.dtype).view(-1, heads, size).permute(1, 2, 0)
        a, b = (queries @ projection).chunk(2, dim=-1)
        at_query, at_key = (
            [part.to(queries.dtype).unsqueeze(-3) for part in self.frequencies.sine_cosine(positions)]
            for positions in (q_positions, k_positions)
        )
        sine, cosine = at_query
        turned = torch.cat((b * sine - a * cosine, a * sine + b * cosine), dim=-1)
        return turned @ torch.cat(at_key, dim=-1).mT
