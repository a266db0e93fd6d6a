"""Seen rotations with the names that the class's own completed entries give them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import LocantError
from locant.extension.asked.turn import Turn
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling import FrequencyScaling, Unscaled
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.reading import ALL_LAYERS
from locant.rotary_configs.scaling import read_scaling
from locant.rotary_configs.vocabulary import is_by_layer

_POSITIONS = 23  # of which cosines and sines are compared
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "seq_length")
_REFUSALS = (LocantError, ValueError, ArithmeticError)


@dataclass(frozen=True)
class Table:
    """Frequencies that a rotary module holds.

    Attributes:
        module: The module.
        kind: The layer type that they are for; empty where it has no others.
        frequencies: Radians a token of each pair, in short texts.
        scale: What it multiplies cosine and sine by, where it says so.
    """

    module: nn.Module
    kind: str
    frequencies: tuple[float, ...]
    scale: float | None

    def turned(self, length: int) -> Tensor | None:
        """Return the cosines and sines of the first positions in a text of that many tokens.

        Returns:
            Complex numbers ``[positions, features]``; ``None`` where the module cannot be called alone.
        """
        positions = torch.tensor([*range(_POSITIONS), length - 1])
        options = {"layer_type": self.kind} if self.kind else {}
        for sizes in ((1,), (3, 1)):
            with contextlib.suppress(Exception):
                made = self.module(torch.zeros(1, 1, 1), positions.expand(*sizes, len(positions)), **options)
                hands = made if isinstance(made, torch.Tensor) else torch.complex(made[0].double(), made[1].double())
                return hands.reshape(-1, *hands.shape[-2:])[0, :_POSITIONS]
        return None

    def makes(self, turn: Turn) -> bool:
        """Whether a measured turn is that of these frequencies."""
        return len(turn.frequencies) <= len(self.frequencies) and _turns(self.frequencies, turn)


def tables_of(module: nn.Module) -> Iterator[Table]:
    """Yield the frequencies that a module and those inside it hold."""
    for each in module.modules():
        for name, buffer in each.named_buffers(recurse=False):
            found = re.fullmatch(r"(?:(?!.*original)(.+)_)?inv_freq", name)
            if found and buffer.ndim == 1:
                kind = found[1] or ""
                scale = getattr(each, f"{kind}_attention_scaling" if kind else "attention_scaling", None)
                frequencies = tuple(buffer.double().tolist())
                yield Table(each, kind, frequencies, float(scale) if isinstance(scale, int | float) else None)


def groups_of(config: Any) -> dict[str, Mapping[str, Any]]:
    """Return the rotary parameters of a completed configuration by layer type; ``all`` where there are no types."""
    rope = getattr(config, "rope_parameters", None) or {}
    return {name: each for name, each in rope.items() if each} if is_by_layer(rope) else {ALL_LAYERS: rope}


def declared_length(config: Any) -> int | None:
    """Return the length in tokens that a configuration declares, ``None`` without one."""
    found = (getattr(config, name, None) for name in _LENGTHS)
    return next((each for each in found if isinstance(each, int) and each > 0), None)


def layer_types(config: Any) -> tuple[str, ...]:
    """Return the types that a configuration of transformers gives its layers, ``all`` where it has none."""
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    return tuple(map(str, types)) if types else (ALL_LAYERS,) * (getattr(config, "num_hidden_layers", None) or 0)


def named(
    config: Any, kind: str, turn: Turn, layout: RotaryLayout, table: Table | None
) -> tuple[str, RotaryConfig, str | None]:
    """Return the configuration that makes what was seen, by the entries of the class or by numbers alone.

    Args:
        config: The completed configuration of the class.
        kind: The type of the layer.
        turn: The rotation that was seen.
        layout: How pairs are in the weights.
        table: The module's frequencies, where it has any.

    Returns:
        The key of the group of entries, the configuration, and what is to be said where no entries make it.
    """
    groups, declared = groups_of(config), declared_length(config)
    exact = table.frequencies if table else ()
    rotary_dim = max(turn.rotary_dim, 2 * len(exact))
    head_dim = rotary_dim if turn.first else max(turn.head_dim, rotary_dim)
    plain = RotaryConfig(head_dim=head_dim, rotary_dim=rotary_dim, layout=layout)
    key = next((name for name in (kind, ALL_LAYERS) if name in groups), kind)
    stated = [group.get("original_max_position_embeddings") or 0 for group in groups.values()]
    lengths = (_POSITIONS, 2 * int(max(4096, declared or 0, *stated)) + 1)
    hands = [(length, table.turned(length)) for length in lengths] if table else []

    def is_seen(candidate: RotaryConfig) -> bool:
        made = [float(each) for each in candidate.frequencies(_POSITIONS)]
        if table is None:
            return _turns(made, turn) and all(abs(each) < 1e-4 for each in made[len(turn.frequencies) :])
        is_exact = len(made) == len(exact) and all(
            abs(a - b) <= 1e-5 * abs(a) + 1e-12 for a, b in zip(made, exact, strict=True)
        )
        return is_exact and all(seen is None or _makes(candidate, length, seen) for length, seen in hands)

    others = [getattr(config, "rope_theta", None), 10000.0]  # bases that are in no group: a default, a computed one
    if len(exact) > 1 and 0 < exact[-1] < 1:
        others.append(float(f"{exact[-1] ** (-len(exact) / (len(exact) - 1)):.7g}"))
    for is_stated in (True, False):
        for name in dict.fromkeys((key, *groups)) if key in groups else groups:
            bases = [groups[name].get("rope_theta")] if is_stated else others
            for candidate in _candidates(config, groups[name], plain, declared, bases):
                if is_seen(candidate):
                    with contextlib.suppress(LocantError):  # a scaling that does not reach so far
                        candidate = replace(candidate, max_length=declared)
                    return name if is_stated else key, candidate, None
    numbers, seen = exact or turn.frequencies, hands[0][1] if hands else None
    given = Measured(given=numbers, attention_factor=1.0 if seen is None else float(seen.abs().amax()))
    rotary_dim = 2 * len(numbers)
    measured = replace(plain, head_dim=max(head_dim, rotary_dim), rotary_dim=rotary_dim, scaling=given)
    with contextlib.suppress(*_REFUSALS, TypeError):  # a base, which says nothing then, but is in the file
        measured = replace(measured, base=float(groups[key]["rope_theta"]), max_length=declared)
    type_of = groups.get(key, {}).get("rope_type")
    note = f"What the class computes is not what rope_type '{type_of}' says; shown is what it does to short texts."
    return key, measured, note if type_of else None


def _turns(frequencies: Sequence[float], turn: Turn) -> bool:
    pairs = zip(frequencies, turn.frequencies, turn.precisions, strict=False)
    return all(abs(math.remainder(a - b, 2 * math.pi)) <= limit + 2e-5 * abs(a) for a, b, limit in pairs)


def _makes(candidate: RotaryConfig, length: int, hands: Tensor) -> bool:
    """Whether a configuration makes the cosines and sines of a rotary module for a text of that many tokens."""
    frequencies = torch.tensor([float(each) for each in candidate.frequencies(length)], dtype=torch.float64)
    angles = torch.arange(len(hands), dtype=torch.float64)[:, None] * frequencies
    made = torch.polar(torch.full_like(angles, candidate.attention_scale(length)), angles)
    count = len(frequencies)
    ways = (hands[:, :count], hands[:, :: max(1, hands.shape[-1] // count)])  # halves or neighbours
    return any(each.shape == made.shape and float((each - made).abs().amax()) < 1e-4 for each in ways)


def _candidates(
    config: Any, group: Mapping[str, Any], plain: RotaryConfig, declared: int | None, bases: Sequence[Any]
) -> Iterator[RotaryConfig]:
    """Yield what a group of entries may mean with some bases."""
    scalings: list[FrequencyScaling] = [Unscaled()]
    dims = dict.fromkeys((plain.rotary_dim, plain.head_dim))
    with contextlib.suppress(*_REFUSALS):
        factor = group.get("partial_rotary_factor", (plain.rotary_dim or 0) / plain.head_dim)
        original = getattr(config, "original_max_position_embeddings", None)
        lengths = {"max_length": declared, "original_length": original}
        scalings.insert(0, read_scaling(group, "rope_parameters", **lengths, partial_rotary_factor=factor))
    for scaling in scalings:
        for rotary_dim in dims:
            for base in dict.fromkeys(each for each in bases if isinstance(each, int | float)):
                with contextlib.suppress(*_REFUSALS):
                    yield replace(plain, rotary_dim=rotary_dim, base=float(base), scaling=scaling)
