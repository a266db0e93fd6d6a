"""Positions of several axes (time, height, width): which of them turns each pair."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch

from locant.extension.asked.build import Built
from locant.extension.asked.name import groups_of
from locant.extension.asked.watch import Call, watched
from locant.positions.rotary.config import RotaryConfig

_STEPS = (5, 7, 11, 13)  # by so many tokens a position of each axis is ahead of that of the token before


def axes_of(built: Built, calls: Mapping[str, Call], configs: Mapping[str, RotaryConfig]) -> dict[str, dict[str, Any]]:
    """Return the axes of each configuration, as ``ParsedConfig.multimodal`` of the reading has them.

    The model reads the text again at positions that rise faster on some axes than on others.

    Args:
        built: The model.
        calls: The attention of a layer of each configuration, as seen with a text.
        configs: The configurations.
    """
    if not re.search(r"mrope_section|position_ids\.expand\(\s*[34]", built.code):
        return {}
    stated = [group["mrope_section"] for group in groups_of(built.config).values() if group.get("mrope_section")]
    stated += [
        each.mrope_section for each in built.model.modules() if isinstance(getattr(each, "mrope_section", 0), list)
    ]
    found: dict[str, dict[str, Any]] = {}
    for axes in [len(stated[0])] if stated else (3, 4):
        positions = torch.tensor(_STEPS[:axes])[:, None, None] * torch.arange(built.length)
        try:
            seen = {
                (call.stack, call.layer, call.name): call.turn
                for call in watched(built.model, built.length, positions).calls.values()
            }
        except Exception:  # the class takes no positions of so many axes
            continue
        for key, call in calls.items():
            turn = seen.get((call.stack, call.layer, call.name))
            if turn is None or (turn.layout is None and not stated):
                continue
            pairs = []
            for turned, frequency in zip(turn.frequencies, map(float, configs[key].frequencies(2)), strict=False):
                errors = [abs(math.remainder(turned - step * frequency, 2 * math.pi)) for step in _STEPS[:axes]]
                pairs += [errors.index(min(errors))] if min(errors) <= 0.2 * frequency + 1e-7 else []
            if len(pairs) == len(turn.frequencies):  # none where axes do not share out the pairs, but their features
                sections = tuple(stated[0]) if stated else tuple(map(pairs.count, range(axes)))
                is_in_turn = pairs[:1] == [0] and pairs != sorted(pairs)
                found[key] = {"sections": sections, "interleaved": is_in_turn, "axis_of_pair": tuple(pairs) or None}
        if found:
            break
    return found
