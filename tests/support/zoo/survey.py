"""All cases of an architecture."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import HEADS
from locant.rotary_configs import read_huggingface
from zoo.architectures import Architecture, architecture
from zoo.cases import draw_case, nested_case
from zoo.facts import facts_of, mentions_rotation
from zoo.verdict import Verdict, first_line, judge

WITHOUT = "without rotation"
_WANTS_OTHERS = "required positional argument"  # of a class that no text alone makes run, whatever its sizes are


def verdicts(found: Architecture, seeds: Iterable[int]) -> Iterator[Verdict]:
    """Yield the outcome of every case of an architecture; nothing for one that does not read text.

    Args:
        found: The architecture.
        seeds: Seeds of the cases. A multimodal model has one case: that its text part is found and read.
    """
    if found.kind == "composite":
        yield from _of_composite(found)
    elif found.kind == "text" and not mentions_rotation(found.config_class):
        yield _of_class_without_rotation(found)
    elif found.kind == "text":
        for seed in seeds:
            yield _of_case(found, seed)


def _of_case(found: Architecture, seed: int) -> Verdict:
    """Return the outcome of a case with as few heads as the class can do with, else of another that it can compute."""
    outcome: Verdict | None = None
    tries = [(*each, 0) for each in itertools.product(HEADS[:-1], (True, False) if seed else (True,))]
    tries += [(HEADS[0], True, again) for again in (1, 2, 3) if seed]
    for heads, scaled, again in tries:
        try:
            case = draw_case(found.config_class, found.model_type, seed, heads=heads, scaled=scaled, again=again)
        except Exception as error:  # whatever the class raises
            outcome = outcome or Verdict(found.model_type, seed, "", "", "not built", first_line(error))
            continue
        judged = judge(case, found.config_class)
        if judged.outcome != "not built" or _WANTS_OTHERS in judged.reason:
            return judged
        outcome = outcome or judged
    assert outcome is not None
    return outcome


def _of_composite(found: Architecture) -> Iterator[Verdict]:
    facts = facts_of(found) or {}
    if not facts.get("text_type"):
        return
    part, text = tuple(facts["text_part"]), architecture(facts["text_type"])
    while text.kind == "composite":  # a multimodal model within another
        inner = facts_of(text) or {}
        if not inner.get("text_type"):
            return
        part, text = (*part, *inner["text_part"]), architecture(inner["text_type"])
    if text.kind != "text" or not mentions_rotation(text.config_class):
        return
    try:
        case = draw_case(text.config_class, text.model_type, 1)
    except Exception as error:  # whatever the class raises
        yield Verdict(found.model_type, 1, "nested", "", "not built", first_line(error))
        return
    yield judge(nested_case(case, found.model_type, part), found.config_class, part)


def _of_class_without_rotation(found: Architecture) -> Verdict:
    """Return whether Locant knows that a class whose code does not speak of rotary positions has none."""
    content = {"model_type": found.model_type, "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    try:
        read_huggingface(content)
    except ConfigError as error:
        right = "no rotary positions" in str(error)
        return Verdict(
            found.model_type, 0, "without rotation", "", "right" if right else "wrong", "" if right else str(error)
        )
    return Verdict(
        found.model_type, 0, "without rotation", "", "wrong", "read as rotary, but the class does not rotate"
    )
