"""Properties of position codes, checked by computation for any scheme through its three hooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from locant.errors import LocantError
from locant.positions.registry import SCHEMES, build_scheme, option_names
from locant.positions.scheme import PLACES, AttentionShape, PositionScheme, Prepared

# Different contents, so that one that happens to be blind to a distance is not taken for the scheme's blindness.
_CONTENTS = 4
_SEED = 0
_SAMPLES = 256
# Spread given to parameters that start at zero, as training would.
_TRAINED_SPREAD = 0.1


def hooked(
    scheme: PositionScheme, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, state: Prepared | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return what the hooks of attention make of queries and keys: both rotated, and the bias of the scores.

    Args:
        scheme: The scheme.
        q: Queries ``[B, H, Q, D]``.
        k: Keys ``[B, H, K, D]``.
        q_positions: Integer positions ``[Q]``.
        k_positions: Integer positions ``[K]``.
        state: What the tokens carry, see :func:`carried`.
    """
    given = q, k, q_positions, k_positions
    rotated_q, rotated_k = scheme.rotate(*given, *scheme.state_for("rotate", state))
    return rotated_q, rotated_k, scheme.score_bias(*given, *scheme.state_for("score_bias", state))


def carried(scheme: PositionScheme, x: Tensor, q_positions: Tensor, k_positions: Tensor) -> Prepared | None:
    """Return what tokens ``x [B, L or 1, E]`` carry as queries and as keys, if the scheme reads it."""
    q, k = (scheme.prepare(x.expand(-1, len(at), -1), at) for at in (q_positions, k_positions))
    return None if q is None or k is None else Prepared(q.queries, k.keys)


class Probe:
    """A scheme with parameters drawn from a fixed seed, and fixed contents to ask it with.

    Args:
        name: A key of :data:`~locant.positions.SCHEMES`.
        shape: Dimensions of the model.
        options: The scheme's options.
    """

    def __init__(self, name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None) -> None:
        self.shape = shape
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(_SEED)
            self.scheme = build_scheme(name, shape, options).eval()
            for parameter in self.scheme.parameters():
                if not parameter.any():
                    parameter.normal_(std=_TRAINED_SPREAD)
            content = torch.randn(2, _CONTENTS, shape.num_heads, 1, shape.head_dim)
            self._x = torch.randn(_CONTENTS, 1, shape.model_dim)
        self._query, self._key = content
        self.places = tuple(place for place in PLACES if place in self.scheme.acts_on)

    @property
    def touches_embedding(self) -> bool:
        """Whether the scheme acts at the embedding."""
        return "embedding" in self.places

    @property
    def touches_attention(self) -> bool:
        """Whether the scheme acts on queries and keys or on scores."""
        return len(self.places) > self.touches_embedding

    @property
    def turned(self) -> float:
        """By how much rotations that keep lengths can change a score at most, 0 without rotations."""
        if "queries+keys" not in self.places:
            return 0.0
        return float(2 * (self._query.norm(dim=-1) * self._key.norm(dim=-1)).max()) / math.sqrt(self.shape.head_dim)

    def codes(self, positions: Tensor) -> Tensor:
        """Return what is added to the embeddings at positions ``[L]``, float64 ``[L, E]``."""
        positions = self.scheme.drawn(positions)
        with torch.no_grad():
            return self.scheme.embed(torch.zeros(1, len(positions), self.shape.model_dim), positions)[0].double()

    def scores(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return by how much positions change the scaled scores of fixed contents.

        Args:
            q_positions: Integer positions ``[Q]``; every query has the same content.
            k_positions: Integer positions ``[K]``; every key has the same content.

        Returns:
            Float64 ``[C, Q, K]``, for every content and head: rotated dot product minus the plain one, plus the bias.
        """
        k = self._key.expand(-1, -1, len(k_positions), -1)
        plain = (self._query.double() * self._key.double()).sum(-1, keepdim=True)
        parts = []
        q_positions, k_positions = self.scheme.drawn(q_positions), self.scheme.drawn(k_positions)
        with torch.no_grad():
            state = carried(self.scheme, self._x, q_positions, k_positions)
            for block in self.scheme.query_blocks(q_positions):
                positions = q_positions[block]
                q = self._query.expand(-1, -1, len(positions), -1)
                own = None if state is None else state.part(block, slice(None))
                rotated_q, rotated_k, bias = hooked(self.scheme, q, k, positions, k_positions, own)
                change = torch.zeros(*q.shape[:3], len(k_positions), dtype=torch.float64)
                if rotated_q is not q or rotated_k is not k:
                    change += rotated_q.double() @ rotated_k.double().mT / math.sqrt(rotated_q.shape[-1])
                    change -= plain / math.sqrt(self.shape.head_dim)
                parts.append(change if bias is None else change + bias.double())
        change = torch.cat(parts, dim=2)
        return change.flatten(0, 1)

    def sample(self, length: int) -> Tensor:
        """Return codes and scores of positions below ``length``, the last included, float64, flat."""
        # A scheme that reads tokens may count them, so that none can be left out.
        samples = length if self.scheme.reads_state else _SAMPLES
        positions = torch.linspace(0, length - 1, samples, dtype=torch.float64).round().long()
        parts = [torch.zeros(1, dtype=torch.float64)]
        if self.touches_embedding:
            parts.append(self.codes(positions).flatten())
        if self.touches_attention:
            parts.append(self.scores(positions[-1:], positions).flatten())
        return torch.cat(parts)

    def longest(self, most: int) -> int:
        """Return the longest text in tokens, up to ``most``, that the scheme is defined for.

        Its own limit and powers of two are tried.
        """
        limit = self.scheme.max_positions
        lengths = [1 << power for power in range(1, most.bit_length())]
        if limit is not None and limit < most:
            lengths.append(limit)
        return next((length for length in sorted(lengths, reverse=True) if self._is_defined(length)), 0)

    def _is_defined(self, length: int) -> bool:
        try:
            return bool(torch.isfinite(self.sample(length)).all())
        except LocantError:
            return False


PROPERTIES = ("unique", "consistent distance", "defined beyond training length", "bounded", "deterministic")

Verdict = Literal["yes", "no", "partly"]

_Measured = tuple[Verdict, float, str, str]  # the attributes of a property after its name

DEFAULT_SHAPE = AttentionShape(model_dim=64, num_heads=4, causal=True)

_LENGTH = 2048
_LONGEST = 1 << 17
_OFFSETS = (*range(1, 32), *range(32, _LENGTH, 31))
_QUERIES = 12
# Codes closer than this, relative to their spread, are the same but for float32 rounding.
_SAME = 1e-6
_CONSISTENT = 1e-3
# Growth of the largest value from 1,024 to 65,536 tokens: what samples of a bounded code may show (a logarithm shows
# 1.6), and a square root's.
_SHORT, _LONG = 1 << 10, 1 << 16
_STEADY, _FAST = 1.4, 8.0


@dataclass(frozen=True)
class Property:
    """One property, measured for one scheme.

    Attributes:
        name: One of :data:`PROPERTIES`.
        verdict: ``yes``, ``no`` or ``partly``.
        measured: The number behind the verdict.
        unit: What the number counts.
        reason: The verdict's reason, in a few words.
    """

    name: str
    verdict: Verdict
    measured: float
    unit: str
    reason: str


def check_properties(
    name: str, shape: AttentionShape = DEFAULT_SHAPE, options: Mapping[str, Any] | None = None
) -> list[Property]:
    """Check the five properties for one scheme.

    Args:
        name: A key of :data:`~locant.positions.SCHEMES`.
        shape: Dimensions of the model.
        options: The scheme's options.

    Raises:
        ConfigError: The name or an option is unknown, or a value is out of range.

    Example:
        >>> [entry.verdict for entry in check_properties("sinusoidal")]
        ['yes', 'yes', 'yes', 'yes', 'yes']
    """
    probe = Probe(name, shape, options)
    longer = _declared_longer(probe, name, options)
    # A scheme may draw random numbers; the caller's are left alone.
    with torch.random.fork_rng(devices=[]):
        found = (
            _unique(probe),
            _consistent(probe, longer),
            _extends(probe),
            _bounded(probe, longer),
            _deterministic(probe),
        )
    return [Property(name, *measured) for name, measured in zip(PROPERTIES, found, strict=True)]


def _length(probe: Probe) -> int:
    return min(_LENGTH, probe.scheme.max_positions or _LENGTH)


def _declared_longer(probe: Probe, name: str, options: Mapping[str, Any] | None) -> Probe | None:
    """Return the same scheme declared for twice the length, where a length is declared."""
    if "max_positions" not in option_names(SCHEMES[name]) or probe.scheme.max_positions is None:
        return None
    return Probe(name, probe.shape, {**(options or {}), "max_positions": 2 * probe.scheme.max_positions})


def _unique(probe: Probe) -> _Measured:
    length = _length(probe)
    positions = torch.arange(length)
    seen = []
    if probe.touches_embedding:
        seen.append(probe.codes(positions))
    if probe.touches_attention:
        seen.append(probe.scores(positions[-1:], positions)[:, 0].flip(-1).T)
    first_twin: int | None = 1
    distinct = 1
    for codes in seen:
        spread = float((codes - codes.mean(0)).abs().max())
        distance = torch.cdist(codes - codes.mean(0), codes - codes.mean(0))
        twin = torch.tril(distance <= _SAME * spread, diagonal=-1).any(1) if spread else torch.ones(length).bool()
        twin[0] = False
        count = length - int(twin.sum())
        if count > distinct:
            distinct = count
            first_twin = int(twin.nonzero()[0]) if bool(twin.any()) else None
    unit = f"of {length} positions have a code of their own"
    if distinct == length:
        return ("yes", distinct, unit, f"all {length:,} positions differ")
    if distinct == 1:
        return ("no", distinct, unit, "all positions look alike")
    what = "distances" if probe.touches_attention else "positions"
    reason = f"{distinct:,} of {length:,} {what} differ; from {first_twin:,} on some look alike"
    return ("partly", distinct, unit, reason)


def _differences(probe: Probe, length: int) -> list[list[Tensor]]:
    """Return for each place and offset what should be the same wherever the two tokens are, ``[C, places]``."""
    positions = torch.arange(length)
    offsets = torch.tensor([offset for offset in _OFFSETS if offset <= 3 * length // 4])
    places = []
    if probe.touches_embedding:
        codes = probe.codes(positions)
        places.append([(codes[k:] - codes[:-k]).norm(dim=1).unsqueeze(0) for k in offsets.tolist()])
    if probe.touches_attention:
        queries = torch.linspace(3 * length // 4, length - 1, _QUERIES).long()
        rows = torch.cat(
            [probe.scores(query.unsqueeze(0), positions[: query + 1])[:, :, query - offsets] for query in queries], 1
        )
        places.append(list(rows.unbind(2)))
    return places


def _consistent(probe: Probe, longer: Probe | None) -> _Measured:
    unit = "largest change of a distance with the place, relative to the largest distance"
    length = _length(probe)
    full = _differences(probe, length)
    if not full or all(not bool(values.any()) for place in full for values in place):
        return ("no", 0.0, unit, "there is no distance to measure")
    steady, worst = 1.0, 0.0
    for place in full:
        size = max(float(values.abs().max()) for values in place)
        changes = [float((values.amax(1) - values.amin(1)).max()) / size for values in place]
        steady = min(steady, sum(change <= _CONSISTENT for change in changes) / len(changes))
        worst = max(worst, *changes)
    if worst > _CONSISTENT:
        if steady >= 0.5:
            reason = f"{steady:.0%} of the distances are the same everywhere"
            return ("partly", worst, unit, reason)
        return ("no", worst, unit, f"a distance changes by up to {worst:.0%} with where it is")
    between = 0.0 if longer is None else _change(full, _differences(longer, length))
    if between > _CONSISTENT:
        return ("no", between, unit, f"a distance changes by {between:.0%} with the length declared")
    return ("yes", max(worst, between), unit, "a distance is the same everywhere")


def _change(one: list[list[Tensor]], other: list[list[Tensor]]) -> float:
    """Return the largest relative change of a distance between two measurements."""
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        size = max(float(values.abs().max()) for values in a)
        worst = max(worst, *(float((x.mean(1) - y.mean(1)).abs().max()) / size for x, y in zip(a, b, strict=True)))
    return worst


def _extends(probe: Probe) -> _Measured:
    longest = probe.longest(_LONGEST)
    unit = "tokens is the longest text tried that is defined"
    if longest >= _LONGEST:
        return ("yes", longest, unit, f"defined at position {longest - 1:,}")
    return ("no", longest, unit, f"ends after {longest:,} positions")


def _bounded(probe: Probe, longer: Probe | None) -> _Measured:
    short, long, far_probe = _SHORT, min(_LONG, probe.longest(_LONGEST)), probe
    if long < _LONG:
        # A code that ends is as large as it gets; what could grow is what a longer declared one holds.
        short, far_probe = long, longer or probe
        long = far_probe.longest(_LONGEST)
    near, far = (float(p.sample(length).abs().max()) for p, length in ((probe, short), (far_probe, long)))
    unit = f"times as large at {long:,} tokens as at {short:,}, or as rotations can make it"
    growth = far / max(near, probe.turned) if near else 1.0
    if growth <= _STEADY:
        return ("yes", growth, unit, f"stays within {_short(max(near, far))}")
    if growth < _FAST:
        reason = f"grows slowly: {_short(near)} at {short:,}, {_short(far)} at {long:,}"
        return ("partly", growth, unit, reason)
    return ("no", growth, unit, f"grows: {_short(near)} at {short:,} tokens, {_short(far)} at {long:,}")


def _deterministic(probe: Probe) -> _Measured:
    length = _length(probe)

    def differs(mode: Callable[[], object]) -> float:
        mode()
        return float((probe.sample(length) - probe.sample(length)).abs().max())

    training, evaluation = differs(probe.scheme.train), differs(probe.scheme.eval)
    unit = "largest difference between two passes"
    if evaluation:
        return ("no", evaluation, unit, "two passes differ, also in evaluation")
    if training:
        return ("partly", training, unit, "two passes differ while training; in evaluation they agree")
    return ("yes", 0.0, unit, "two passes agree")


def _short(number: float) -> str:
    """Return a number in three digits, or as a whole one when it has more."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
