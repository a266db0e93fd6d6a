"""Reports about converted checkpoints, and the section of a model card that holds them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from locant.extension.layouts.proof import ROUNDING, LayoutProof
from locant.extension.layouts.rows import RotatedRows
from locant.extension.passed_on import card_with
from locant.positions.rotary.config import RotaryLayout
from locant.version import __version__

_PAIRS = {"half": "halves", "interleaved": "neighbours"}
# Software that can turn weights in a layout that their class in transformers does not have.
_READERS = {
    "interleaved": "mlx-lm with rope_traditional: true in config.json, TensorRT-LLM with rope_gptj, CTranslate2 with "
    "rotary_interleave, or Locant's Rotary(layout='interleaved') in code of your own",
    "half": "TensorRT-LLM with rope_gpt_neox, CTranslate2 with rotary_interleave=False, or Locant's "
    "Rotary(layout='half') in code of your own",
}


@dataclass(frozen=True)
class LayoutReport:
    """What was done to a checkpoint.

    Attributes:
        model: Its name.
        class_name: Its class in transformers.
        release: Release of transformers.
        source: The layout that it had.
        target: The layout that it has.
        tensors: The tensors that were converted, and their rows.
        total: Number of all tensors.
        layers: Number of layers that rotate.
        is_native: Whether the class reads the result.
        proof: Logits before and after, of random weights in the class.
    """

    model: str
    class_name: str
    release: str
    source: RotaryLayout
    target: RotaryLayout
    tensors: Mapping[str, RotatedRows]
    total: int
    layers: int
    is_native: bool
    proof: LayoutProof

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
            "read_by_transformers": self.is_native,
            "readers": None if self.is_native else _READERS[self.target],
            "proof": asdict(self.proof),
        }

    def sentences(self) -> list[str]:
        """Return what was done, in sentences."""
        said = [
            f"Rotated features are paired as {_PAIRS[self.target]} ('{self.target}') instead of {_PAIRS[self.source]} "
            f"in {self.layers} layers: rows of {len(self.tensors)} of {self.total} tensors have changed places, and no "
            "number has changed."
        ]
        alike = Counter((re.sub(r"(?<=\.)\d+(?=\.)", "*", name), rows) for name, rows in self.tensors.items())
        for (name, rows), count in alike.items():
            blocks = f"{len(rows.starts)} block{'s' if len(rows.starts) > 1 else ''} of {rows.count}"
            places = "rows" if rows.axis == 0 else f"places along axis {rows.axis}"
            said.append(f"{name}{f', {count} times' if count > 1 else ''}: {blocks} of {rows.size} {places}.")
        said.append(
            f"Logits of {self.proof.tokens} random tokens, {self.class_name} with random weights: before and after "
            f"the conversion they differ by less than {ROUNDING:.1%} of the largest, which is rounding; with pairs "
            f"turned as before, by {self.proof.unturned / self.proof.largest:.1%} of it."
        )
        if self.is_native:
            said.append(f"{self.class_name} of transformers reads it: that is its own layout.")
        else:
            said.append(
                f"{self.class_name} of transformers would read it wrongly, silently. It is for {_READERS[self.target]}."
            )
        return said


def write_card(card: str, report: LayoutReport) -> str:
    """Return a model card, which may be empty, with the section about a conversion in the place of an earlier one."""
    first, *others = report.sentences()
    said = f"Converted by Locant {__version__}. {first}\n\n" + "\n".join(f"- {each}" for each in others)
    title = f"{report.model}, layout {report.target}"
    return card_with(f"## Rotary layout\n\n{said}", card, command="convert-layout", title=title)
