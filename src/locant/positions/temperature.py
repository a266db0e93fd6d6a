"""A temperature of attention that depends on the length of the text, around any scheme."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.registry import build_scheme, register_scheme
from locant.positions.scheme import AttentionShape, PositionScheme, Prepared, Rotation, describes, require_choice
from locant.positions.wrapper import SchemeWrapper

Form = Literal["steps", "constant", "logarithm"]


@register_scheme("temperature")
class Temperature(SchemeWrapper):
    """Multiplies queries by a number that grows with the text before them, around another scheme.

    Source: Nakanishi 2025, "Scalable-Softmax Is Superior for Attention". The more keys a softmax sees, the flatter it
    is; larger scores keep it sharp. Of a query at position ``i``, counted from 0, the scores are multiplied by::

        steps        1 + factor log( 1 + floor((i + first) / length) )      Llama 4 (first 1), Mistral (first 0)
        constant     factor                                                 YaRN: (0.1 ln s + 1)^2
        logarithm    factor log(i + 1)                                      Scalable-Softmax; Chiang & Cholak 2022

    ``i + 1`` is the number of keys that the query sees. It is the queries that are multiplied, after which they are
    rotated: a bias of positions alone is not multiplied, and one that reads queries reads the multiplied ones. Around
    randomised positions ``i`` is the drawn position, and of several coordinates it is the largest.

    Where it acts: on queries, and where the wrapped scheme acts. In an encoder ``i + 1`` is not the number of keys that
    are seen, so that the form ``logarithm`` is for decoders. Llama 4 has it in its layers without RoPE, Mistral's
    models in all.

    Args:
        scheme: The scheme inside; in a model's configuration its name, ``rotary`` by default.
        num_heads: Factors that are learned: 1 for all heads, or one for each.
        scheme_options: In a model's configuration, the options of that scheme.
        form: ``steps``, ``constant`` or ``logarithm``.
        factor: As in the formulas; 0.1 in steps (the value of Llama 4 and Mistral), otherwise 1.
        length: Tokens of a step; ``floor_scale`` of Llama 4, ``original_max_position_embeddings`` of Mistral.
        first: Number that positions are counted from in steps.
        learned: Whether the factor is learned, one for each head of each layer, as in Scalable-Softmax.

    Raises:
        ConfigError: An option is out of range, or the form ``logarithm`` is for an encoder.

    Example:
        >>> import torch
        >>> from locant.positions import NoPositions
        >>> ones = torch.ones(1, 1, 3, 1)
        >>> scheme = Temperature(NoPositions(), form="logarithm")
        >>> scheme.rotate(ones, ones, torch.tensor([0, 1, 99]), torch.arange(3))[0].flatten()
        tensor([0.0000, 0.6931, 4.6052])
    """

    title = "Temperature"
    paper = "Nakanishi 2025"

    def __init__(
        self,
        scheme: PositionScheme,
        num_heads: int = 1,
        *,
        form: Form = "steps",
        factor: float | None = None,
        length: int = 8192,
        first: int = 0,
        learned: bool = False,
    ) -> None:
        super().__init__(scheme)
        require_choice("form of temperature", form, get_args(Form))
        factor = factor if factor is not None else 0.1 if form == "steps" else 1.0
        if not factor > 0 or length < 1 or first < 0:
            raise ConfigError(
                "A temperature needs a factor above 0, a length of at least 1 token and first of at least 0; got "
                f"{factor}, {length} and {first}."
            )
        self.form, self.length, self.first, self._begins_with = form, length, first, factor
        self.factor: Tensor | float = nn.Parameter(torch.empty(num_heads, 1, 1)) if learned else factor
        self.acts_on = scheme.acts_on | {"queries+keys"}
        self._fill()

    @classmethod
    def for_model(
        cls,
        shape: AttentionShape,
        *,
        scheme: str = "rotary",
        scheme_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Build the scheme for the heads of a model, around another that is given by its name and options."""
        if options.get("form") == "logarithm" and not shape.causal:
            raise ConfigError(
                "The form 'logarithm' of temperature counts the keys up to a query, and an encoder's query sees those "
                "behind it too: use it in decoders, or the form 'steps' or 'constant'."
            )
        return cls(build_scheme(scheme, shape, scheme_options), shape.num_heads, **options)

    @property
    def per_layer(self) -> bool:  # type: ignore[override]
        """Whether the wrapped scheme, or the factor, is every layer's own."""
        return self.scheme.per_layer or isinstance(self.factor, nn.Parameter)

    def reset_parameters(self) -> None:
        """Set learned factors to the given one, and draw the wrapped scheme's parameters again."""
        self._fill()
        super().reset_parameters()

    def _fill(self) -> None:
        if isinstance(self.factor, nn.Parameter):
            nn.init.constant_(self.factor, self._begins_with)

    def temperature(self, positions: Tensor) -> Tensor:
        """Return what scores of queries are multiplied by, to broadcast with them.

        Args:
            positions: Positions ``[Q]`` or ``[B, Q]``, or coordinates ``[B, Q, A]``.

        Returns:
            Float32 ``[1, 1, Q, 1]`` or ``[B, 1, Q, 1]``, or of all heads where factors are learned.
        """
        positions = positions.amax(dim=-1) if positions.dim() == 3 else positions
        tokens = (positions if positions.dim() == 2 else positions.unsqueeze(0))[:, None, :, None].double()
        factor = self.factor.double() if isinstance(self.factor, Tensor) else self.factor
        if self.form == "steps":
            return (1 + factor * torch.div(tokens + self.first, self.length, rounding_mode="floor").log1p()).float()
        return (factor * (torch.ones_like(tokens) if self.form == "constant" else tokens.log1p())).float()

    @describes("rotate")
    def rotation(self, q_positions: Tensor, k_positions: Tensor | None = None) -> Rotation:
        """Return the wrapped scheme's rotation of multiplied queries."""
        inner, temperature = self.scheme.rotation(q_positions, k_positions), self.temperature(q_positions)
        return lambda q, k, *state: inner((q * temperature).to(q.dtype), k, *state)

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, *state: Prepared
    ) -> tuple[Tensor, Tensor]:
        """Multiply the queries and let the wrapped scheme rotate; shapes as in :meth:`PositionScheme.rotate`."""
        return self.scheme.rotate(self._multiplied(q, q_positions), k, q_positions, k_positions, *state)

    @describes("score_bias")
    def distance_bias(
        self, q_positions: Tensor, k_positions: Tensor, *, max_length: int | None = None
    ) -> tuple[Tensor, int] | None:
        """Return the wrapped scheme's bias of every relative position; as :meth:`PositionScheme.distance_bias`."""
        return self.scheme.distance_bias(q_positions, k_positions, max_length=max_length)

    def score_bias(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, *state: Prepared
    ) -> Tensor | None:
        """Return the wrapped scheme's bias of multiplied queries; shapes as in :meth:`PositionScheme.score_bias`."""
        reads = self.scheme.bias_reads_content
        q = self._multiplied(q, q_positions) if reads else q
        return self.scheme.score_bias(q, k, q_positions, k_positions, *state)

    def _multiplied(self, q: Tensor, positions: Tensor) -> Tensor:
        return (q * self.temperature(positions)).to(q.dtype)
