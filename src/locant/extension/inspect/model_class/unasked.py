"""Failures of a class of transformers, and whether they are of the file or of the small model that was built of it.

A small model has few heads and other sizes than the file. What its class says of them is not about the file, so the
class is asked once more at the sizes of the file, with tensors that have shapes and no numbers.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.spellings import LAYERS, is_count

OF_THE_SEARCH = (MemoryError, LookupError)
"""What the search for a small model raises itself, and not a class."""

_LONGEST_REASON = 240
_TOKENS = 6
_MOST_LAYERS = 256  # twice those of the deepest published model; a layer takes some hundredths of a second


@dataclass(frozen=True)
class UnaskedClass:
    """A class of which no small model of a file could be watched.

    Attributes:
        name: Name of the model's class; of the configuration's where that refuses the file.
        release: Release of transformers; empty where that cannot be imported.
        reason: What was raised, without full stop.
        refuses_the_file: Whether the class makes no configuration of the file as it is, before anything is made small.
        fails_with_the_file: Whether it makes no model of the file's own sizes, or computes no text with one, though it
            does with other entries.
    """

    name: str
    release: str
    reason: str
    refuses_the_file: bool
    fails_with_the_file: bool = False

    def finding(self, content: Mapping[str, Any]) -> Finding | None:
        """Return the finding about a file that is refused; a warning where other code or another release reads it.

        Args:
            content: The object in config.json.
        """
        if self.fails_with_the_file:
            return Finding(
                "warning",
                f"{self.name} of transformers {self.release} raises {self.reason}, with the entries of this file: it "
                "computes no text with them. What is shown is read from the file alone.",
                "Correct the entry that the class does not take.",
                "refused by the class",
            )
        if not self.refuses_the_file:
            return None
        written = content.get("transformers_version")
        is_of_another = isinstance(written, str) and written.split(".")[:2] != self.release.split(".")[:2]
        beside = f" Release {written:.20}, by which it was written, may read it." if is_of_another else ""
        return Finding(
            "warning" if "auto_map" in content or is_of_another else "error",
            f"transformers {self.release} refuses this file: {self.name} raises {self.reason}.{beside}",
            "Correct the entry; or load the model with the code, or the release, that it was published for.",
            "refused by the class",
        )

    def __str__(self) -> str:
        """Return in one sentence why there is no comparison."""
        whose = (
            f"{self.name} of transformers {self.release}"
            if self.release
            else f"the class of '{self.name}' in transformers"
        )
        return f"The file could not be compared with {whose}: {self.reason}."


def in_one_line(error: Exception) -> str:
    """Return the kind of an error and its message, as far as it is short."""
    said = " ".join(str(error).split())
    said = said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]} ..."
    if type(error) in OF_THE_SEARCH:
        return said.rstrip(".")
    return f"{type(error).__name__}, {said.rstrip('.')}" if said else type(error).__name__


def failure_of_file(config: Any, seen: Sequence[Exception]) -> Exception | None:
    """Return what a class raises at the sizes of a file, if it raised that for small models as well.

    Args:
        config: The configuration of the file.
        seen: What it raised for small models, one at least.

    Returns:
        The error; the first of those of small models where they are all the same, and at the sizes of the file another
        one comes first, perhaps as there are no numbers; ``None`` where the class does not fail at these.
    """
    try:
        _run_without_numbers(copy.deepcopy(config))
    except Exception as error:  # whatever the class raises
        if any(_alike(error, each) for each in seen):
            return error
        return seen[0] if all(_alike(each, seen[0]) for each in seen) else None
    return None


def fails_as_a_whole(config: Any, error: Exception) -> bool:
    """Whether the model of a whole file fails as the class of its text part does alone.

    A whole may give its parts entries that they lack where they are built alone, and pass over those beside them.

    Args:
        config: The configuration of the whole file.
        error: What the class of the text part raises.
    """
    try:
        _run_without_numbers(copy.deepcopy(config))
    except Exception as raised:  # whatever the class raises
        return _alike(raised, error)
    return False


def is_given_by_a_whole(config: Any, failure: Exception | None) -> bool:
    """Whether a class fails without an entry that a whole around it hands on, and that no file of it has by itself.

    T5 Gemma 2 gives its stacks the share of dropout, which their own configurations do not have.

    Args:
        config: The configuration with which it fails.
        failure: What it raises.
    """
    if not isinstance(failure, AttributeError) or not isinstance(failure.obj, type(config)):
        return False
    others = vars(sys.modules[type(config).__module__]).values()
    wholes = (each for each in others if inspect.isclass(each) and getattr(each, "sub_configs", None))
    return any(failure.name in getattr(each, "__dataclass_fields__", {}) for each in wholes)


def is_too_deep(entries: Mapping[str, Any]) -> bool:
    """Whether a file has more layers than can be built in a few seconds, as that of no published model has.

    Args:
        entries: The content of config.json, or of a part of it.
    """
    own = [entries[name] for name in LAYERS if is_count(entries.get(name))]
    parts = [each for each in entries.values() if isinstance(each, Mapping)]
    return max(own, default=0) > _MOST_LAYERS or any(map(is_too_deep, parts))


def _run_without_numbers(config: Any) -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from locant.extension.inspect.model_class.inputs import text_inputs
    from locant.extension.inspect.model_class.small_model import build_watched, model_class, quiet

    made = model_class(type(config))
    if made is None:
        return
    with quiet(), _without_log("torch._subclasses.fake_tensor"), torch.no_grad(), FakeTensorMode():
        model = build_watched(config, lambda: made(config).eval())
        if callable(choose := getattr(model, "set_experts_implementation", None)):
            choose("batched_mm")  # others ask which experts have tokens
        model(**text_inputs(inspect.signature(model.forward).parameters, range(_TOKENS), None))


@contextlib.contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Keep a logger from writing down the errors that are looked for."""
    logger = logging.getLogger(name)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def _alike(one: Exception, other: Exception) -> bool:
    """Whether two errors say the same, but for the numbers in them."""
    words = [re.sub(r"\d+", "", str(each)) for each in (one, other)]
    return type(one) is type(other) and words[0] == words[1]
