"""The ideas that came before: the position's number itself, scaled or in bits. To study and to compare with."""

from __future__ import annotations

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.angles import require_integer
from locant.positions.embeddings.position_code import Combination, PositionCode, require_positions
from locant.positions.registry import register_scheme


@register_scheme("index")
class Index(PositionCode):
    """Adds the number of the position to the first feature of the input embeddings.

    The first idea that everybody has: no paper recommends it, and Gehring et al. 2017 (section 3.1) replaced it by
    learned vectors. The code grows without bound and soon drowns the embedding. It is not added to all features:
    a layer norm takes away what all of them share::

        embed(x, pos)[0] = x[0] + pos

    Where it acts: at the embedding of an encoder or a decoder; cross-attention sees it through them.

    Args:
        dim: Width of the model, ``E``.
        combine: ``add`` to the embedding, or ``concatenate`` to it.
        features: Number of leading features that get the number when added, of last ones when concatenated.

    Example:
        >>> import torch
        >>> Index(2).embed(torch.zeros(1, 3, 2), torch.arange(3)).tolist()
        [[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]]
    """

    title = "Index"
    paper = "Gehring et al. 2017"
    traceable = True

    def __init__(self, dim: int, *, combine: Combination = "add", features: int = 1) -> None:
        super().__init__(dim, combine, features)

    def encode(self, positions: Tensor) -> Tensor:
        """Return the positions as float32 ``[..., P]``, exact up to 2^24."""
        require_integer(positions)
        return positions.to(torch.float32).unsqueeze(-1).expand(*positions.shape, self.features)


@register_scheme("normalised-index")
class NormalisedIndex(Index):
    """Adds the position as a share of a declared length, 0 to 1, to the first feature of the input embeddings.

    The second idea, bounded but no longer consistent: how much a step of one token adds depends on the length that
    is declared, and dividing by each text's own length instead (which a decoder cannot know) would give the same
    distance another meaning in every text. Listed to compare with Gehring et al. 2017 and its successors::

        embed(x, pos)[0] = x[0] + pos / (max_positions - 1)

    Where it acts: at the embedding of an encoder or a decoder; cross-attention sees it through them.

    Args:
        dim: Width of the model, ``E``.
        max_positions: Declared length in tokens; its last position gets 1.
        combine: ``add`` to the embedding, or ``concatenate`` to it.
        features: Number of leading features that get the number when added, of last ones when concatenated.

    Raises:
        ConfigError: ``max_positions`` is below 2.

    Example:
        >>> import torch
        >>> NormalisedIndex(1, max_positions=5).encode(torch.tensor([0, 1, 4])).flatten().tolist()
        [0.0, 0.25, 1.0]
    """

    title = "Normalised index"
    paper = "Gehring et al. 2017"

    def __init__(self, dim: int, *, max_positions: int = 1024, combine: Combination = "add", features: int = 1) -> None:
        super().__init__(dim, combine=combine, features=features)
        if max_positions < 2:
            raise ConfigError(f"max_positions of a normalised index must be at least 2; got {max_positions}.")
        self._max_positions = max_positions

    @property
    def max_positions(self) -> int:
        """The declared length in tokens."""
        return self._max_positions

    def encode(self, positions: Tensor) -> Tensor:
        """Return the shares as float32 ``[..., P]``.

        Raises:
            DataError: A position is negative or beyond the declared length.
        """
        require_positions(positions, self._max_positions, "Shorten the input or declare a larger max_positions.")
        return super().encode(positions) / (self._max_positions - 1)


@register_scheme("binary")
class Binary(PositionCode):
    """Adds the binary digits of the position, the lowest first, to the input embeddings.

    The third idea: unique and bounded, but two neighbours may differ in many digits (7 and 8 in four) and the code is
    discrete. The sinusoids of Vaswani et al. 2017 are its continuous counterpart: each pair turns at its own rate, as
    each digit alternates at its own::

        code[i] = floor(pos / 2^i) mod 2

    Where it acts: at the embedding of an encoder or a decoder; cross-attention sees it through them.

    Args:
        dim: Width of the model, ``E``.
        combine: ``add`` to the embedding, or ``concatenate`` to it.
        features: Number of digits; all features when added (at most 31 of them are used), a quarter when concatenated.

    Example:
        >>> import torch
        >>> Binary(4).encode(torch.tensor([6])).tolist()
        [[0.0, 1.0, 1.0, 0.0]]
    """

    title = "Binary"
    paper = "Vaswani et al. 2017"
    traceable = True

    def __init__(self, dim: int, *, combine: Combination = "add", features: int | None = None) -> None:
        super().__init__(dim, combine, features)

    @property
    def max_positions(self) -> int:
        """Number of positions with different digits, at most 2^31."""
        return 1 << min(self.features, 31)

    def encode(self, positions: Tensor) -> Tensor:
        """Return the digits as float32 ``[..., P]``; digits beyond the 31st are 0.

        Raises:
            DataError: A position is negative or needs more digits.
        """
        require_positions(positions, self.max_positions, "Shorten the input or give the code more features.")
        places = torch.arange(self.features, device=positions.device).clamp(max=62)
        return ((positions.long().unsqueeze(-1) >> places) & 1).to(torch.float32)
