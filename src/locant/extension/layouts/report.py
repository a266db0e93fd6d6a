"""Reports about converted checkpoints, and the section of a model card that holds them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from locant.extension.layouts.proof import ROUNDING, LayoutProof
from locant.extension.layouts.rows import RotatedRows
from locant.positions.rotary.config import RotaryLayout
from locant.version import __version__

_START, _END = "<!-- locant convert-layout -->", "<!-- end of locant convert-layout -->"
_SECTION = re.compile(f"\n*{re.escape(_START)}.*?{re.escape(_END)}\n*", re.DOTALL)
_PAIRS = {"half": "halves", "interleaved": "neighbours"}
READERS = {
    "interleaved": "mlx-lm with rope_traditional: true in config.json, TensorRT-LLM with rope_gptj, CTranslate2 with "
    "rotary_interleave, or Locant's Rotary(layout='interleaved') in code of your own",
    "half": "TensorRT-LLM with rope_gpt_neox, CTranslate2 with rotary_interleave=False, or Locant's "
    "Rotary(layout='half') in code of your own",
}
"""Software that can be told to turn weights in a layout for which their class in transformers has no entry."""


@dataclass(frozen=True)
class LayoutReport:
    """What was done to a checkpoint.

    Attributes:
        model: Its name.
        class_name: Its class in transformers.
        release: Release of transformers.
        source: The layout that it had.
        target: The layout that it has.
        tensors: The tensors that were converted, and their rows before.
        total: Number of all tensors.
        layers: Number of layers that rotate.
        switch: The entry of config.json that lets the class pair features so, where it has one.
        is_native: Whether the class reads the result.
        proof: Logits before and after, of random weights in the class.
        verified: Logits before and after, of its own weights, where that was asked for.
        indexer: The layout of the indexer of sparse attention, where the class has one, whose weights stay as they are.
    """

    model: str
    class_name: str
    release: str
    source: RotaryLayout
    target: RotaryLayout
    tensors: Mapping[str, RotatedRows]
    total: int
    layers: int
    switch: tuple[str, bool] | None
    is_native: bool
    proof: LayoutProof
    verified: LayoutProof | None = None
    indexer: RotaryLayout | None = None

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "model": self.model,
            "class": self.class_name,
            "transformers": self.release,
            "from": self.source,
            "to": self.target,
            "layers": self.layers,
            "tensors": {
                name: {"axis": rows.axis, "rows": rows.size, "blocks": list(rows.starts), "rows_of_a_block": rows.count}
                for name, rows in self.tensors.items()
            },
            "tensors_in_all": self.total,
            "set_in_config": None if self.switch is None else {self.switch[0]: self.switch[1]},
            "read_by_transformers": self.is_native,
            "readers": None if self.is_native else READERS[self.target],
            "proof": self.proof.as_data(),
            "verified": None if self.verified is None else self.verified.as_data(),
            "layout_of_the_indexer": self.indexer,
        }

    def groups(self) -> list[tuple[str, int, RotatedRows]]:
        """Return the converted tensors, alike ones with a star for the layer, their number and their rows."""
        found: dict[tuple[str, RotatedRows], int] = {}
        for name, rows in self.tensors.items():
            key = re.sub(r"(?<=\.)\d+(?=\.)", "*", name), rows
            found[key] = found.get(key, 0) + 1
        return [(name, count, rows) for (name, rows), count in found.items()]

    def sentences(self) -> list[str]:
        """Return what was done, in sentences."""
        said = [
            f"Rotated features are paired as {_PAIRS[self.target]} ('{self.target}') instead of {_PAIRS[self.source]} "
            f"in {self.layers} layers: rows of {len(self.tensors)} of {self.total} tensors have changed places, and no "
            "number has changed.",
            *(_about(name, count, rows) for name, count, rows in self.groups()),
            _about_proof(self.proof, self.class_name),
        ]
        if self.verified is not None:
            said.append(_about_proof(self.verified, self.class_name))
        if self.indexer is not None:
            said.append(
                f"The indexer of the sparse attention rotates queries and keys of its own: its weights stay in the "
                f"layout '{self.indexer}'."
            )
        return [*said, self.about_readers()]

    def about_readers(self) -> str:
        """Return who reads the result."""
        if self.switch is not None:
            name, value = self.switch
            return f"config.json has {name} {str(value).lower()}, so {self.class_name} of transformers reads it."
        if self.is_native:
            return f"{self.class_name} of transformers reads it: that is its own layout."
        return (
            f"{self.class_name} of transformers has no entry for this layout and would read it wrongly, without a "
            f"word. It is for {READERS[self.target]}."
        )


def _about(name: str, count: int, rows: RotatedRows) -> str:
    times = f", {count} times" if count > 1 else ""
    heads = f"{len(rows.starts)} block{'s' if len(rows.starts) > 1 else ''} of {rows.count}"
    return f"{name}{times}: {heads} of {rows.size} {'rows' if rows.axis == 0 else f'places along axis {rows.axis}'}."


def _about_proof(proof: LayoutProof, name: str) -> str:
    return (
        f"Logits of {proof.tokens} random tokens, {name} with {proof.weights} weights: before and after the conversion "
        f"they differ by less than {ROUNDING:.1%} of the largest ({proof.largest:.1f}), which is rounding; with pairs "
        f"turned as before, by {proof.unturned:.2g}."
    )


def write_card(card: str, report: LayoutReport) -> str:
    """Return a model card with the section about the conversion; a section that is there already is replaced.

    Args:
        card: The text of README.md, empty where there is none.
        report: What was done.
    """
    rest = _SECTION.sub("\n", card).rstrip() or f"# {report.model}, layout {report.target}"
    first, *others = report.sentences()
    lines = [
        "## Rotary layout",
        "",
        f"Converted by Locant {__version__}. {first}",
        "",
        *(f"- {each}" for each in others),
    ]
    return "\n".join([rest, "", _START, *lines, _END]) + "\n"
