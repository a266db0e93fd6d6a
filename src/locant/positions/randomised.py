"""Randomised positions (Ruoss et al. 2023) around any scheme."""

from __future__ import annotations

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.angles import extent
from locant.positions.embeddings.position_code import require_positions
from locant.positions.registry import register_scheme
from locant.positions.scheme import PositionScheme
from locant.positions.wrapper import SchemeWrapper


@register_scheme("randomised")
class Randomised(SchemeWrapper):
    """Replaces positions by a random increasing choice from a longer range, and gives them to another scheme.

    Source: Ruoss et al. 2023, "Randomized Positional Encodings Boost Length Generalization of Transformers", section
    3. A text of ``n`` tokens takes ``n`` of the positions ``0 .. max_positions - 1``, drawn without replacement and
    sorted, so that short training texts show the model all the positions of long ones::

        position p -> the p-th smallest of the drawn positions

    Positions are drawn by :meth:`drawn`, which a model asks once for a forward pass; all hooks of the pass are given
    the result, and are those of the wrapped scheme. Models of Locant do so; with a model of your own::

        positions = scheme.drawn(torch.arange(length))      # once, before the first layer
        q, k = scheme(q, k, positions)                      # in every layer

    In training every call draws new ones. In evaluation one fixed draw of ``evaluation_length`` positions serves every
    text, so that results repeat and decoding with a cache equals a full pass. (The paper draws in evaluation too.)

    Where it acts: where the wrapped scheme acts, in encoder and decoder, which draw independently. The layers of a
    stack share the draw and therefore the scheme, also one that has parameters for each layer when used alone.

    Args:
        scheme: The scheme that gets the drawn positions; in a model's configuration its name, ``rotary`` by default.
        scheme_options: In a model's configuration, the options of that scheme.
        max_positions: Number of positions to draw from.
        evaluation_length: Longest text in evaluation, in tokens.
        seed: Of the draw for evaluation.

    Raises:
        ConfigError: ``evaluation_length`` is not between 1 and ``max_positions``.

    Example:
        >>> import torch
        >>> from locant.positions import Rotary
        >>> scheme = Randomised(Rotary(4), max_positions=100, evaluation_length=3).eval()
        >>> scheme.drawn(torch.arange(3)).diff().min().item() >= 1
        True
    """

    title = "Randomised"
    paper = "Ruoss et al. 2023"

    def __init__(
        self, scheme: PositionScheme, *, max_positions: int = 2048, evaluation_length: int = 512, seed: int = 0
    ) -> None:
        super().__init__(scheme)
        if not 1 <= evaluation_length <= max_positions:
            raise ConfigError(
                f"evaluation_length must be between 1 and max_positions, {max_positions}; got {evaluation_length}."
            )
        limit = scheme.max_positions
        if limit is not None and limit < max_positions:
            raise ConfigError(
                f"The scheme knows {limit} positions but max_positions asks for {max_positions} to draw from. "
                "Give both the same number."
            )
        self._range = max_positions
        self._evaluation_length = evaluation_length
        self.seed = seed
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randperm(max_positions, generator=generator, device="cpu")[:evaluation_length]
        self._evaluation_draw = drawn.sort().values

    @property
    def max_positions(self) -> int:
        """Longest text in tokens: in evaluation the declared length, in training all positions there are."""
        return self._range if self.training else self._evaluation_length

    def drawn(self, positions: Tensor) -> Tensor:
        """Return the drawn positions, of the same shape, for integer ``positions``; in training, new ones.

        Raises:
            DataError: A position is negative or beyond what can be drawn or was declared.
        """
        limit, option = (
            (self._range, "max_positions") if self.training else (self._evaluation_length, "evaluation_length")
        )
        require_positions(positions, limit, f"Shorten the text or give randomised positions a larger {option}.")
        if not self.training:
            return self._evaluation_draw.to(positions.device)[positions.long()]
        if not positions.numel():
            return positions
        count = extent(positions)[1] + 1
        draw = torch.randperm(self._range, device="cpu")[:count].sort().values
        return draw.to(positions.device)[positions.long()]
