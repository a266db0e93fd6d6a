"""Types of layers in words: "every 6th layer and the last full_attention, the others sliding_attention"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from locant.rotary_configs.base import LayerType, in_words

_FEWEST_ROUNDS = 3  # of what does not begin as a round of the first layers would


def pattern_in_words(layers: Sequence[LayerType]) -> str:
    """Return which layers are of which type, the most frequent type last; windows are named where types share a name.

    Args:
        layers: All layers of a model.

    Example:
        >>> pattern_in_words([
        ...     LayerType("sliding", (0, 1, 3, 4), "all", 512), LayerType("full", (2, 5), "all")])
        'every 3rd layer full, the others sliding'
    """
    names = {index: label for each, label in zip(layers, _labels(layers), strict=True) for index in each.layers}
    count = len(names)
    if len({*names.values()}) == 1:
        return f"all {next(iter(names.values()))}"
    (most, _), *others = Counter(names.values()).most_common()
    said = [
        f"{layers_in_words([index for index in sorted(names) if names[index] == name], count)} {name}"
        for name, _ in others
    ]
    return f"{', '.join(said)}, the others {most}"


def _labels(layers: Sequence[LayerType]) -> list[str]:
    shared = {each.name for each in layers if len({other.window for other in layers if other.name == each.name}) > 1}
    return [
        f"{each.name} with {f'a window of {each.window}' if each.window else 'no window'}"
        if each.name in shared
        else each.name
        for each in layers
    ]


def layers_in_words(indices: Sequence[int], count: int) -> str:
    """Return which layers some are: a round, the first or the last ones, or else their numbers.

    Args:
        indices: Their numbers from 0, in ascending order.
        count: The number of all layers.

    Example:
        >>> layers_in_words([5, 11, 16], 17), layers_in_words([0, 2, 4], 9), layers_in_words([0, 1], 8)
        ('every 6th layer and the last', 'every 2nd layer from 0 to 4', 'the first 2 layers')
    """
    if len(indices) == 1 and indices[0] in (0, count - 1):
        return "the first layer" if indices[0] == 0 else "the last layer"
    if [*indices] == [0, count - 1]:
        return "the first layer and the last"
    if indices == [*range(len(indices))]:
        return f"the first {len(indices)} layers"
    if indices == [*range(count - len(indices), count)]:
        return f"the last {len(indices)} layers"
    for rest, more in ((indices, ""), (indices[:-1], " and the last"), (indices[1:], " and the first")):
        is_there = not more or (indices[-1] == count - 1 if "last" in more else indices[0] == 0)
        if is_there and (said := _round_in_words(rest, count)):
            return f"{said}{more}"
    return in_words(indices)


def _round_in_words(indices: Sequence[int], count: int) -> str | None:
    if len(indices) < _FEWEST_ROUNDS - 1:
        return None
    start, step = indices[0], indices[1] - indices[0]
    if len(indices) < _FEWEST_ROUNDS and start != step - 1:
        return None
    if step == 1 or [*indices] != [*range(start, indices[-1] + 1, step)]:
        return None
    every = f"every {_ordinal(step)} layer"
    is_to_the_end = indices[-1] + step >= count
    if is_to_the_end:
        return every if start == step - 1 else f"{every} from {'the first' if start == 0 else start} on"
    return f"{every} from {start} to {indices[-1]}"


def _ordinal(number: int) -> str:
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else last}"
