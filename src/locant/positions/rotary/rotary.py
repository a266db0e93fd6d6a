"""Rotary position embedding, RoPE (Su et al. 2021), with any frequency scaling."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Self, cast

import torch
from torch import Tensor

from locant.positions.angles import Frequencies, PositionTable, require_integer
from locant.positions.registry import register_scheme
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.rotary.rotation import RotaryAngles, apply_rotation
from locant.positions.scaling import FrequencyScaling, Unscaled, scaling_from_options
from locant.positions.scheme import AttentionShape, PositionScheme, Rotation, describes

# Tables kept for scaled frequencies: a text that grows leaves its shorter lengths behind.
_MOST_TABLES = 4


@register_scheme("rotary")
class Rotary(PositionScheme):
    """Rotates pairs of features of queries and keys by angles proportional to their positions.

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.2, equations
    14 to 16 and 34. With ``R(a)`` the rotation of a plane by the angle ``a``::

        (q_2i, q_2i+1) -> R(m * base^(-2i/d)) (q_2i, q_2i+1)        m the position of the query
        (k_2i, k_2i+1) -> R(n * base^(-2i/d)) (k_2i, k_2i+1)        n the position of the key

    so that their product depends on ``m - n`` alone. Frequencies may be scaled to read longer texts than the model
    was trained on (see :mod:`locant.positions.scaling`). A scaling whose frequencies depend on the length of the text
    (dynamic NTK, LongRoPE) is decided for each query by the text up to itself, or for all by a declared final
    length; either way decoding with a cache equals a full pass.

    Where it acts: on queries and keys of self-attention, in encoders and decoders. Cross-attention has two
    unrelated sequences and is left alone; :meth:`rotate` takes two sets of positions for those who relate them.

    Precision: sines and cosines within 3.1e-8 for positions up to 2^31, in float32 whatever the dtype of the model;
    the arithmetic of the rotation is float32.

    Args:
        head_dim: Features of one head, ``D``.
        base: Base of the wavelengths, ``rope_theta`` in Hugging Face.
        rotary_dim: Number of leading features that are rotated, even; all when ``None``.
        layout: ``half`` or ``interleaved``, see :func:`locant.positions.rotate_pairs`.
        scaling: A frequency scaling, or its options with its name as ``kind``.

    Raises:
        ConfigError: An option is out of range or contradicts another.

    Example:
        >>> import torch
        >>> rope = Rotary(4)
        >>> q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
        >>> q, k = rope.rotate(q, k, torch.tensor([7, 8]), torch.tensor([1000007, 1000008]))
        >>> bool(torch.isclose(q[0, 0, 0] @ k[0, 0, 0], q[0, 0, 1] @ k[0, 0, 1], atol=1e-6))
        True
    """

    title = "RoPE"
    paper = "Su et al. 2021"

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: RotaryLayout = "half",
        scaling: FrequencyScaling | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(scaling, Mapping):
            options = dict(scaling)
            scaling = scaling_from_options(str(options.pop("kind", "none")), options)
        self.config = RotaryConfig(
            head_dim=head_dim, base=base, rotary_dim=rotary_dim, layout=layout, scaling=scaling or Unscaled()
        )
        self.head_dim = head_dim
        self._follows_length = self.config.scaling.depends_on_length
        # The first is made here, because decimal arithmetic cannot be traced by torch.compile.
        self._tables = {0: self._table(1)}

    @classmethod
    def from_config(cls, config: RotaryConfig) -> Self:
        """Build the scheme that a configuration describes."""
        return cls(
            config.head_dim,
            base=config.base,
            rotary_dim=config.rotary_dim,
            layout=config.layout,
            scaling=config.scaling,
        )

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model."""
        return cls(shape.head_dim, **options)

    @property
    def traceable(self) -> bool:  # type: ignore[override]
        """Whether no frequency depends on the length of the text."""
        return not self._follows_length

    @property
    @describes("embed", "rotate", "rotation", "score_bias", "sine_cosine")
    def rotary_config(self) -> RotaryConfig | None:
        """The configuration of the rotation."""
        return self.config

    @property
    def caches_unrotated_keys(self) -> bool:
        """Whether the frequencies depend on the length of the text."""
        return self._follows_length

    def query_blocks(self, q_positions: Tensor) -> list[slice]:
        """Return the runs of queries whose texts have the same frequencies."""
        if not self._follows_length or not q_positions.numel():
            return super().query_blocks(q_positions)
        columns = (q_positions + 1).clamp(min=1).reshape(-1, q_positions.shape[-1]).T.tolist()
        classes = [tuple(map(self.config.scaling.length_class, column)) for column in columns]
        return _runs(classes)

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys; shapes as in :meth:`PositionScheme.rotate`.

        Where frequencies depend on the length, they are those of each row's last query.
        """
        # Not by `rotation`: in a class that overrides this method, that one calls it.
        return self._turn(q_positions, None if k_positions is q_positions else k_positions)(q, k)

    @describes("rotate")
    def rotation(self, q_positions: Tensor, k_positions: Tensor | None = None) -> Rotation:
        """Return the rotation by the angles of these positions; as :meth:`PositionScheme.rotation`."""
        return self._turn(q_positions, k_positions)

    def _turn(self, q_positions: Tensor, k_positions: Tensor | None) -> Rotation:
        lengths = self._lengths(q_positions)
        angles = self._angles(q_positions, lengths)
        if k_positions is None:
            return lambda q, k: cast(tuple[Tensor, Tensor], apply_rotation((q, k), angles))
        of_keys = self._angles(k_positions, lengths)
        return lambda q, k: (apply_rotation((q,), angles)[0], apply_rotation((k,), of_keys)[0])

    def sine_cosine(self, positions: Tensor, *, length: int = 1) -> tuple[Tensor, Tensor]:
        """Return sine and cosine of the angles, times the attention scale, for a text of the given length.

        Args:
            positions: Positions ``[...]``, integers or, where frequencies do not follow the length, fractions.
            length: Length of the text in tokens; matters only where the frequencies depend on it.

        Returns:
            Two float32 tensors ``[..., rotary_dim / 2]``.
        """
        kind = self.config.scaling.length_class(length)
        table = self._tables.get(kind)
        if table is None:
            (_, first), *others = self._tables.items()
            table = self._table(length)
            self._tables = {0: first, **dict(others[1 - _MOST_TABLES :]), kind: table}
        sine, cosine = table(positions).chunk(2, dim=-1)
        return sine, cosine

    def _table(self, length: int) -> PositionTable:
        frequencies = Frequencies(self.config.frequencies(length))
        return PositionTable(_Rows(frequencies, self.config.attention_scale(length)))

    def _lengths(self, q_positions: Tensor) -> list[int]:
        """Return the length of each row's text up to its last query, or of all when they are the same."""
        if not self._follows_length or not q_positions.numel():
            return [1]
        require_integer(q_positions)
        lengths = (q_positions.amax(dim=-1) + 1).clamp(min=1).reshape(-1).tolist()
        same = len({self.config.scaling.length_class(length) for length in lengths}) == 1
        return lengths[:1] if same else lengths

    def _angles(self, positions: Tensor, lengths: list[int]) -> RotaryAngles:
        """Return the angles of positions in texts of the given lengths, which broadcasts over heads."""
        if len(lengths) == 1:
            sine, cosine = self.sine_cosine(positions, length=lengths[0])
        else:
            each = zip(positions.expand(len(lengths), -1), lengths, strict=True)
            rows = [self.sine_cosine(row, length=length) for row, length in each]
            sine, cosine = (torch.stack(part) for part in zip(*rows, strict=True))
        if sine.dim() == 3:
            sine, cosine = sine.unsqueeze(1), cosine.unsqueeze(1)
        return RotaryAngles(cosine, sine, self.config.layout)


class _Rows:
    """Sines and cosines side by side, times a constant; a class and not a closure, so that a scheme can be copied."""

    def __init__(self, frequencies: Frequencies, scale: float) -> None:
        self.frequencies = frequencies
        self.scale = scale

    def __call__(self, positions: Tensor) -> Tensor:
        rows = torch.cat(self.frequencies.sine_cosine(positions), dim=-1)
        return rows if self.scale == 1.0 else rows * self.scale


def _runs(classes: list[tuple[int, ...]]) -> list[slice]:
    """Return the runs of equal neighbours."""
    runs, start = [], 0
    for _, run in groupby(classes):
        end = start + len(list(run))
        runs.append(slice(start, end))
        start = end
    return runs
