"""Pairs that llama.cpp turns by an axis on which the tokens of a text have no position."""

from __future__ import annotations

from typing import Any

import pytest

from locant.rotary_configs import read_gguf
from locant.rotary_configs.gguf.axes_of_texts import still_pairs


@pytest.mark.parametrize(
    ("sections", "pairs", "alternates", "expected"),
    [
        ([16, 24, 24, 0], 64, False, []),  # Qwen2-VL
        ([16, 16, 16, 16], 64, False, [*range(48, 64)]),  # HunYuan-VL
        ([2, 1, 1, 2], 12, False, [4, 5, 10, 11]),  # sections that are fewer than the pairs begin again
        ([24, 20, 20], 64, True, [61, 62]),  # Qwen3-VL: ends of 3 * 20 for height and width
        ([11, 11, 10, 0], 32, True, []),  # Qwen3.5
    ],
)
def test_which_pairs_turn_by_the_fourth_axis(
    sections: list[int], pairs: int, alternates: bool, expected: list[int]
) -> None:
    """As ``ggml_mrope_cache_init`` of ops.cpp takes ``theta_e`` for them, written out here."""
    time, height, width, rest = (*sections, 0)[:4]
    seen = []
    for pair in range(pairs):
        sector = pair % (time + height + width + rest)
        if alternates:
            by_others = (
                (sector % 3 == 1 and sector < 3 * height)
                or (sector % 3 == 2 and sector < 3 * width)
                or (sector % 3 == 0 and sector < 3 * time)
            )
        else:
            by_others = sector < time + height + width
        seen += [] if by_others else [pair]
    assert still_pairs(sections, pairs, alternates=alternates) == expected == seen


@pytest.mark.parametrize(
    ("architecture", "sections", "severity", "said"),
    [
        ("qwen2vl", [16, 24, 24, 0], "note", "and is exact for text alone"),
        ("hunyuan_vl", [16, 16, 16, 16], "warning", "pairs 48 to 63 of each head, from 0, do not turn in a text"),
        (
            "qwen3vl",
            [64, 0, 0, 0],
            "note",
            "pairs 1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17 and 30 more, up to 62 of each",
        ),
        ("qwen3vl", [24, 20, 20, 0], "note", "pairs 61 and 62 of each head, from 0, do not turn in a text"),
    ],
)
def test_pairs_that_do_not_turn_in_a_text_are_told(
    architecture: str, sections: list[int], severity: str, said: str
) -> None:
    keys: dict[str, Any] = {"embedding_length": 256, "attention.head_count": 2, "block_count": 4}
    keys |= {"context_length": 2048, "rope.dimension_sections": sections}
    metadata = {"general.architecture": architecture, **{f"{architecture}.{key}": keys[key] for key in keys}}
    (found,) = [each for each in read_gguf(metadata).findings if "several axes" in each.message]
    assert found.severity == severity
    assert said in found.message
    assert ("exact for text" in found.message) is (architecture == "qwen2vl")
