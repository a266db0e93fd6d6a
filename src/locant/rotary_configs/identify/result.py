"""Results of :func:`locant.rotary_configs.identify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["sinusoid table", "inverse frequencies", "rotary cos/sin cache", "unknown"]
Exponent = Literal["2i/d", "i/(d/2-1)", "4i/d", "j/d", "2j/d", "integer"]


@dataclass(frozen=True, kw_only=True)
class Identification:
    """The explanation of a tensor, and how well it fits. Its ``str()`` is a sentence or a few.

    Attributes:
        kind: What the tensor holds.
        shape: Its shape.
        dialect: ``paper``, ``concatenated`` or ``tensor2tensor`` where a sinusoid table is one of these.
        layout: Order of the features, in words; ``None`` for frequencies.
        exponent: What the base is raised to, negated: ``i`` counts pairs from 0, ``j`` features, ``d`` is the number
            of features.
        base: Base of the frequencies; a round number where one explains the tensor, otherwise an estimate.
        scaling: ``none``, ``linear``, ``ntk``, ``llama3``, ``yarn``, ``longrope`` or ``proportional``.
        factor: Factor of the scaling.
        original_lengths: Original lengths with which ``llama3`` or ``yarn`` gives these frequencies.
        first_row: Position of the first row.
        start: Position of a text's first token: ``first_row``, or the row after the padding row.
        padding_row: Row of zeros, if there is one.
        amplitude: Largest value of the sines and cosines, 1 but for an attention scale.
        stored_as: Coarsest dtype that holds every value.
        mistakes: Known mistakes found.
        notes: What else the same numbers may mean.
        max_error: Largest difference from the exact candidate; for frequencies relative to the candidate.
        reason: Why it is unknown.
    """

    kind: Kind
    shape: tuple[int, ...]
    dialect: Literal["paper", "concatenated", "tensor2tensor"] | None = None
    layout: str | None = None
    exponent: Exponent | None = None
    base: float | None = None
    scaling: str = "none"
    factor: float | None = None
    original_lengths: tuple[int, ...] = ()
    first_row: int | None = None
    start: int | None = None
    padding_row: int | None = None
    amplitude: float = 1.0
    stored_as: str = "float32"
    mistakes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    max_error: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        """Return sentences."""
        size = " x ".join(map(str, self.shape)) or "1"
        if self.kind == "unknown":
            return f"Unknown ({size}): {self.reason}."
        what = [f"{self.kind[0].upper()}{self.kind[1:]} ({size})"]
        if self.dialect:
            what.append(f"dialect {self.dialect}")
        if self.layout:
            what.append(self.layout)
        if self.exponent not in (None, "integer"):
            what.append(f"exponent {self.exponent}")
        if self.base is not None:
            what.append(f"base {self.base:.10g}")
        what.append(self._scaling())
        if self.first_row:
            what.append(f"the first row is position {self.first_row}")
        if self.padding_row is not None:
            what.append(f"row {self.padding_row} is zero for padding, so a text starts at row {self.padding_row + 1}")
        if self.amplitude != 1.0:
            what.append(f"cosines and sines multiplied by {self.amplitude:.6g}")
        relative = "relative " if self.kind == "inverse frequencies" else ""
        what.append(f"largest {relative}difference from the exact values {self.max_error:.1e}")
        what.append(f"stored as {self.stored_as}")
        sentences = ["; ".join(what)]
        sentences += [f"Mistake: {mistake}" for mistake in self.mistakes]
        sentences += [f"Note: {note}" for note in self.notes]
        return ". ".join(sentences) + "."

    def _scaling(self) -> str:
        if self.scaling == "none":
            return "no scaling"
        said = f"scaling {self.scaling}"
        if self.factor is not None:
            said += f" with factor {self.factor:.6g}"
        if self.original_lengths:
            said += f" and original length {' or '.join(map(str, self.original_lengths))}"
        return said
