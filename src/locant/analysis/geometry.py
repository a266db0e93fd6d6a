"""Geometry of position embeddings: norms, dot products, and the rotation that a shift is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.embeddings.sinusoidal import SinusoidDialect, sinusoid_frequencies


@dataclass(frozen=True)
class Geometry:
    """Measures of a table of position embeddings.

    Attributes:
        smallest_norm: Smallest Euclidean norm of a row.
        largest_norm: Largest Euclidean norm; both are ``sqrt(d/2)`` for sinusoids.
        dot_deviation: How much the dot product of two rows varies with where they are, at worst over all offsets; 0
            where it is a function of the offset alone, as for sinusoids.
        first_rise: First offset at which the mean dot product is larger than at the offset before, ``None`` where it
            only falls. Closeness in dot product means closeness in the text up to there.
    """

    smallest_norm: float
    largest_norm: float
    dot_deviation: float
    first_rise: int | None


def measure_geometry(table: Tensor) -> Geometry:
    """Measure a table of position embeddings.

    Args:
        table: ``[L, E]`` with the embeddings of consecutive positions; any floating dtype, measured in float64.

    Raises:
        ConfigError: It is not such a table of two rows or more.

    Example:
        >>> import torch
        >>> from locant.positions import sinusoid_table
        >>> measure_geometry(sinusoid_table(torch.arange(100), 64)).first_rise
        6
    """
    if table.dim() != 2 or len(table) < 2 or not table.is_floating_point():
        raise ConfigError(
            f"The geometry needs a table of two positions or more, [L, E] of floats; got {list(table.shape)}."
        )
    rows = table.detach().double()
    products = rows @ rows.T
    norms = products.diagonal().sqrt()
    means, spreads = _along_diagonals(products)
    # What rounding leaves is no rise.
    rises = torch.nonzero(means[1:] > means[:-1] + 1e-6 * norms.max() ** 2).flatten()
    return Geometry(
        smallest_norm=float(norms.min()),
        largest_norm=float(norms.max()),
        dot_deviation=float(spreads.max()),
        first_rise=int(rises[0]) + 1 if len(rises) else None,
    )


def _along_diagonals(square: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean, and largest less smallest value, of each diagonal from the main one upwards; ``[L]`` each."""
    length = len(square)
    padding = square.new_zeros(length - 1)
    # Column k of this view is diagonal k, whose last k rows are no part of it.
    diagonals = torch.cat((square.flatten(), padding)).as_strided((length, length), (length + 1, 1))
    inside = torch.ones_like(square, dtype=torch.bool).triu().flip(1)
    means = diagonals.where(inside, 0).sum(0) / inside.sum(0)
    return means, diagonals.where(inside, -torch.inf).amax(0) - diagonals.where(inside, torch.inf).amin(0)


def shift_matrix(dim: int, k: int, base: float = 10000.0, dialect: SinusoidDialect = "paper") -> Tensor:
    """Return the matrix ``M_k`` with ``PE(p + k) = M_k PE(p)`` for sinusoidal embeddings, whatever ``p`` is.

    Source: Vaswani et al. 2017, section 3.5: "for any fixed offset k, PE(pos+k) can be represented as a linear
    function of PE(pos)". Each pair of sine and cosine is turned by ``k`` times its frequency::

        sin(w (p + k)) =  cos(w k) sin(w p) + sin(w k) cos(w p)
        cos(w (p + k)) = -sin(w k) sin(w p) + cos(w k) cos(w p)

    Args:
        dim: Even number of features.
        k: Offset in tokens, of either sign.
        base: Base of the wavelengths.
        dialect: Order of features and spacing of wavelengths, as for :class:`~locant.positions.Sinusoidal`.

    Returns:
        Orthogonal matrix ``[dim, dim]`` in float64.

    Raises:
        ConfigError: ``dim``, ``base`` or ``dialect`` is out of range.

    Example:
        >>> [[round(value, 4) for value in row] for row in shift_matrix(2, 1).tolist()]
        [[0.5403, 0.8415], [-0.8415, 0.5403]]
    """
    angle = sinusoid_frequencies(dim, base=base, dialect=dialect).angles(torch.tensor(k))
    features = torch.arange(dim)
    sine, cosine = (features[0::2], features[1::2]) if dialect == "paper" else features.chunk(2)
    matrix = torch.zeros(dim, dim, dtype=torch.float64)
    matrix[sine, sine] = matrix[cosine, cosine] = angle.cos()
    matrix[sine, cosine] = angle.sin()
    matrix[cosine, sine] = -angle.sin()
    return matrix
