"""Everything that decides by which angle a rotary model turns its queries and keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

from locant.errors import ConfigError, nearest
from locant.positions.scaling import Explanation, FrequencyScaling, Unscaled, explain_frequencies
from locant.positions.scaling.checks import check_base, check_rotary_dim

RotaryLayout = Literal["half", "interleaved"]
"""Which features form a pair; see :class:`RotaryConfig`."""


@dataclass(frozen=True, kw_only=True)
class RotaryConfig:
    """The rotary positions of a model, independent of how a file format or an engine writes them down.

    Args:
        head_dim: Features of an attention head, ``D``.
        base: Base of the unscaled frequencies ``base^(-2i/rotary_dim)``, often called theta.
        rotary_dim: Number of features that are rotated, the first of the head; all where it is ``None``.
        layout: ``half`` pairs feature ``i`` with ``i + rotary_dim/2``, ``interleaved`` pairs ``2i`` with ``2i + 1``.
        scaling: How the frequencies are changed.
        max_length: Length in tokens that the model is declared for (``max_position_embeddings``), where it is known.

    Raises:
        ConfigError: A value is out of range, or two contradict each other.

    Example:
        >>> config = RotaryConfig(head_dim=4)
        >>> config.rotary_dim, [float(f) for f in config.frequencies()]
        (4, [1.0, 0.01])
    """

    head_dim: int
    base: float = 10000.0
    rotary_dim: int | None = None
    layout: RotaryLayout = "half"
    scaling: FrequencyScaling = field(default_factory=Unscaled)
    max_length: int | None = None

    def __post_init__(self) -> None:
        """Check the fields, and fill in the number of rotated features."""
        if self.rotary_dim is None:
            object.__setattr__(self, "rotary_dim", self.head_dim)
        check_rotary_dim(self._dim)
        if self._dim > self.head_dim:
            raise ConfigError(f"rotary_dim {self._dim} is more than the head's {self.head_dim} features.")
        check_base(self.base)
        layouts = get_args(RotaryLayout)
        if self.layout not in layouts:
            raise ConfigError(
                f"Unknown rotary layout '{self.layout}'.{nearest(self.layout, layouts)} Known: {', '.join(layouts)}."
            )
        length, target = self.max_length, self.scaling.reach
        if length is not None and (not isinstance(length, int) or length < 1):
            raise ConfigError(f"max_length of rotary positions must be a positive whole number; got {length!r}.")
        if length is not None and target is not None and self.scaling.limits_length and length > target:
            raise ConfigError(
                f"max_length {length} is beyond target_length {target} of the scaling '{self.scaling.name}', "
                "which extends the model no further. Raise the factor or target_length of the scaling, or lower "
                "max_length."
            )
        self.frequencies()  # a scaling may contradict the number of pairs

    @property
    def _dim(self) -> int:
        assert self.rotary_dim is not None
        return self.rotary_dim

    def frequencies(self, length: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies of the ``rotary_dim / 2`` pairs in radians a token.

        Args:
            length: Length of the text in tokens, for scalings that depend on it.
        """
        return self.scaling.frequencies(self._dim, self.base, length)

    def attention_scale(self, length: int | None = None) -> float:
        """Return the number that multiplies cosine and sine of queries and of keys.

        Args:
            length: Length of the text in tokens, for scalings that depend on it.
        """
        return self.scaling.attention_scale(length)

    def explain(self, length: int | None = None) -> Explanation:
        """Explain what the scaling does to every pair.

        Args:
            length: Length of the text to explain; the longest declared one where it is ``None``.
        """
        return explain_frequencies(self.scaling, self._dim, self.base, max_length=self.max_length, length=length)

    def describe(self) -> str:
        """Return the scaling, its fields and the attention scale in a few words.

        Example:
            >>> from locant.positions import Linear
            >>> RotaryConfig(head_dim=64, scaling=Linear(factor=4.0, original_length=2048)).describe()
            'scaling linear (factor 4, target_length 8192, original_length 2048), attention scale 1'
        """
        options = self.scaling.described_options()
        said = ", ".join(f"{name} {_short(value)}" for name, value in options.items())
        scale = self.attention_scale(self.scaling.reach or self.max_length)
        return f"scaling {self.scaling.name}{f' ({said})' if said else ''}, attention scale {scale:.6g}"


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"of {len(value)} numbers from {value[0]:g} to {value[-1]:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)
