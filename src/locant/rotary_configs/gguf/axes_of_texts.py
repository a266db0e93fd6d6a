"""Positions of several axes as llama.cpp makes them of a text: the fourth axis stays at 0.

``llm_graph_input_pos::set_input`` (llama-graph.cpp) gives the tokens of a text the same position on three axes, and 0
on the fourth, which is there for vision encoders; ``ggml_mrope_cache_init`` (ggml-cpu/ops.cpp) shares out the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import in_words

_AXES = 4


def still_pairs(sections: Sequence[int], pairs: int, *, alternates: bool) -> list[int]:
    """Return the pairs that turn by the fourth axis, so that they do not turn in a text.

    Args:
        sections: Numbers of pairs of each axis, by the file; those that it leaves out are 0.
        pairs: Pairs that are rotated.
        alternates: Whether the pairs of the first three axes take turns.

    Example:
        >>> still_pairs([2, 1, 1, 2], 6, alternates=False), still_pairs([2, 1, 1, 0], 4, alternates=True)
        ([4, 5], [])
    """
    time, height, width, rest = (*sections[:_AXES], *[0] * (_AXES - len(sections)))
    count = time + height + width + rest
    if not count:
        return []
    if alternates:
        ends = (3 * time, 3 * height, 3 * width)
        return [pair for pair in range(pairs) if pair % count >= ends[pair % count % 3]]
    return [pair for pair in range(pairs) if pair % count >= count - rest]


def note_on_axes(sections: Sequence[int], pairs: int, *, alternates: bool) -> Finding:
    """Return the finding about positions of several axes: a warning where a section of the file is the fourth one's.

    Args:
        sections: Numbers of pairs of each axis, by the file.
        pairs: Pairs that are rotated.
        alternates: Whether the pairs of the first three axes take turns.
    """
    said, still = (
        "Positions have several axes; the configuration holds the frequencies",
        (still_pairs(sections, pairs, alternates=alternates)),
    )
    if not still:
        remedy = "Use MultimodalRotary with the sections for images and video."
        return Finding("note", f"{said}, and is exact for text alone.", remedy)
    is_range = len(still) > 2 and still == [*range(still[0], still[-1] + 1)]
    shown = " and ".join(map(str, still)) if len(still) <= 2 else in_words(still).removeprefix("layers ")
    which = f"{still[0]} to {still[-1]}" if is_range else shown
    return Finding(
        "warning" if any(sections[_AXES - 1 :]) else "note",
        f"{said} of all {pairs} pairs, but llama.cpp gives the tokens of a text position 0 on the fourth axis: "
        f"{'pair' if len(still) == 1 else 'pairs'} {which} of each head, from 0, {'does' if len(still) == 1 else 'do'} "
        "not turn in a text.",
        "Compare with the code that the weights were trained with, which may turn them in texts as well.",
    )
