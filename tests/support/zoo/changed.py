"""What is read of changed files, next to what the class of transformers does with them, and what is said of it."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import random
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from locant.errors import ConfigError
from locant.extension.inspect.engine_differences import engine_differences
from locant.extension.inspect.inspection import inspect_model
from locant.extension.inspect.model_class.ask import AskedClass, ask_class
from locant.extension.inspect.model_class.compare import compare_with_class
from locant.extension.inspect.model_class.masks import with_masks
from locant.extension.inspect.model_class.observe import ObservedLayer, attending_layers, observe
from locant.extension.inspect.model_class.small_model import HEADS, build, quiet
from locant.extension.inspect.result import Inspection
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import UNREADABLE
from locant.rotary_configs.wording import finding_in_words_of
from zoo.architectures import Architecture
from zoo.cases import Case, draw_case, with_old_names
from zoo.changes import Change, drawn_changes
from zoo.verdict import LONG, SHORT, first_line, text_config

_FAILS = re.compile(r"\b(fails|refuses|makes no model)\b")
_HEDGED = re.compile(
    r"or fails|fails or|or passes over|or takes|where it needs|but for classes|does not say how|may read"
)
_OF_ENGINES = re.compile(r"[^.;:]*\b(vLLM|llama\.cpp|CTranslate2|engines)\b[^.;]*")
_TELLS_FAILURE = re.compile(r"\b(fails?|refuses?|makes no model|raises|cannot|needs?|error)\b")
_PASSED_OVER = re.compile(r"\bpass(es|ed) over\b|\bno effect\b|\bWithout effect\b|\bnothing reads\b")
_SAYS_THE_SAME = re.compile(r", of which \w+ says the same")
_NOTED = re.compile(r"\b(has|have) no effect: positions are the same|\bWithout effect\b")
_TOKENS = 6


@dataclass(frozen=True)
class ChangedVerdict:
    """The outcome of one changed file.

    Attributes:
        model_type: The architecture.
        change: What was changed.
        outcome: ``right``; ``unsaid`` where the class passes over an entry and nothing says so; ``false`` where a
            finding says what is not so; ``warned`` where something else is read, with a warning; ``silent`` where
            something else is read without; ``failure unsaid`` where the class fails and nothing says so; ``refused``
            where the class loads what is not read; ``error`` for a traceback; ``not built`` where nothing can be told.
        reason: What is so, and what was said.
        with_class: Whether the class was asked in reading, too.
    """

    model_type: str
    change: str
    outcome: str
    reason: str = ""
    with_class: bool = False

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Truth:
    """What a class does with a file.

    Attributes:
        layers: What its layers do in a short text.
        long: What they do in a long one.
        built: Layers with an attention.
        failure: What it raises in their place.
    """

    layers: tuple[ObservedLayer, ...] = ()
    long: tuple[ObservedLayer, ...] = ()
    built: frozenset[int] = frozenset()
    failure: str = ""

    def does_as(self, other: Truth) -> bool:
        """Whether a class does the same with another file, in long texts too where both were asked about them."""
        long = self.long and other.long
        return self._signature(with_long=bool(long)) == other._signature(with_long=bool(long))

    def _signature(self, *, with_long: bool) -> tuple[Any, ...]:
        return (
            self.failure,
            *(
                (
                    each.layer,
                    each.layout,
                    each.scale and round(each.scale, 5),
                    each.mask and each.mask.window,
                    each.rotation
                    and (
                        each.rotation.first,
                        each.rotation.rotary_dim,
                        *(f"{f:.4g}" for f in each.rotation.frequencies),
                    ),
                )
                for each in (*self.layers, *(self.long if with_long else ()))
            ),
        )


@dataclass
class Asked:
    """A class that is asked about one file after another.

    Attributes:
        found: The architecture.
        runs_eagerly: Whether its own file runs with the attention of transformers, so that others may be tried by it.
    """

    found: Architecture
    runs_eagerly: bool = True
    known: dict[str, Truth] = field(default_factory=dict)

    def about(self, content: Mapping[str, Any]) -> Truth:
        """Return what the class does with a file."""
        key = json.dumps(content, sort_keys=True)
        if key not in self.known:
            with warnings.catch_warnings(), quiet():
                warnings.simplefilter("ignore")
                self.known[key] = self._seen(dict(content))
        return self.known[key]

    def _seen(self, content: dict[str, Any]) -> Truth:
        case = Case(self.found.model_type, 0, "", content, "")
        try:
            model = build(text_config(case, self.found.config_class, ()))
            short = tuple(with_masks(model, observe(model, SHORT)))
            built = frozenset(attending_layers(model))
            counts = (
                "position_ids" not in inspect.signature(model.forward).parameters
            )  # the few tokens that it is given
            long = tuple(observe(model, LONG)) if _goes_by_length(content) and not counts else ()
            if self.runs_eagerly:
                _run_eagerly(model)
        except MemoryError:  # a width of the class itself: a smaller model of the same rotation is asked
            asked = ask_class(content)
            if not isinstance(asked, AskedClass):
                return Truth(failure=f"? {asked}")
            return Truth(asked.layers, (), asked.built)
        except Exception as error:  # whatever the class raises
            return Truth(failure=first_line(error))
        return Truth(short, long, built)


def _goes_by_length(content: Mapping[str, Any]) -> bool:
    said = json.dumps([content.get(name) for name in ("rope_parameters", "rope_scaling", "rope_type", "type")])
    return any(kind in said for kind in ("dynamic", "longrope", '"su"', "yarn"))


@torch.no_grad()
def _run_eagerly(model: torch.nn.Module) -> None:
    model.set_attn_implementation("eager")  # type: ignore[operator]
    model(torch.zeros((1, _TOKENS), dtype=torch.long))


def changed_verdicts(
    found: Architecture, seed: int, limit: int, ways: Sequence[bool] = (False,)
) -> Iterator[ChangedVerdict]:
    """Yield the outcomes of changed files of an architecture.

    Args:
        found: The architecture.
        seed: Seed of the changes; it also chooses the form of the file that is changed.
        limit: How many files.
        ways: For each way of reading a file, whether the class is asked in it.
    """
    usual = _usual_file(found, seed)
    if usual is None:
        yield ChangedVerdict(found.model_type, "", "not built", "no small file of the class")
        return
    content, asked, head = usual
    truth = asked.about(content)
    before = {asks_class: read_file(content, asks_class=asks_class) for asks_class in ways}
    for asks_class in ways:
        if before[asks_class].has_errors:
            yield ChangedVerdict(found.model_type, "", "refused", "the file before any change", asks_class)
            return
        if reasons := _differences(before[asks_class], truth):
            yield ChangedVerdict(found.model_type, "", "silent", "; ".join(reasons), asks_class)
            return
    rng = random.Random(f"{found.model_type} {seed}")
    for change, asks_class in itertools.product(drawn_changes(content, head, rng, limit), ways):
        try:
            verdict = _judged(change, asked, truth, before[asks_class], asks_class=asks_class)
        except Exception as error:  # nothing may be raised for a file
            verdict = ChangedVerdict(found.model_type, change.name, "error", first_line(error))
        yield replace(verdict, with_class=asks_class)


def _usual_file(found: Architecture, seed: int) -> tuple[dict[str, Any], Asked, int] | None:
    """Return a file of the class that it loads, the class, and the features of a head."""
    for eagerly in (True, False):
        for heads in HEADS[:-1]:
            try:
                content = draw_case(found.config_class, found.model_type, 0, heads=heads).content
            except Exception:  # whatever the class raises for small sizes
                continue
            asked = Asked(found, runs_eagerly=eagerly)
            for form in (_FORMS[seed % len(_FORMS)], _FORMS[0]):
                formed = _in_form(content, found, form)
                truth = asked.about(formed)
                if truth.failure:
                    continue
                sizes = [each.rotation.head_dim for each in truth.layers if each.rotation is not None]
                return formed, asked, next(iter(sizes), 16)
    return None


_FORMS = ("saved", "old names", "lean")


def _in_form(content: Mapping[str, Any], found: Architecture, form: str) -> dict[str, Any]:
    if form == "old names":
        return with_old_names(dict(content))
    if form == "lean":  # as people write it: without what the class has anyway
        config = found.config_class
        return {
            name: value
            for name, value in content.items()
            if name in ("model_type", "rope_parameters") or getattr(config, name, None) != value
        }
    return dict(content)


def read_file(content: Mapping[str, Any], *, asks_class: bool) -> Inspection:
    """Return what is read of a file with these entries."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return inspect_model(path, ask_class=asks_class)


def said_of_class(read: Inspection, content: Mapping[str, Any]) -> list[str]:
    """Return the warnings and errors about what the class does; engines differ for reasons of their own."""
    return [each.message for each in _found_of_class(read, content) if each.severity != "note"]


def _found_of_class(read: Inspection, content: Mapping[str, Any]) -> list[Finding]:
    engines: set[str] = set()
    with contextlib.suppress(*UNREADABLE):
        engines = {
            finding_in_words_of("huggingface", each).message for each in engine_differences(content, read.parsed)
        }
    return [each for each in read.findings if each.message not in engines]


def _judged(change: Change, asked: Asked, usual: Truth, before: Inspection, *, asks_class: bool) -> ChangedVerdict:
    about = (asked.found.model_type, change.name)
    truth = asked.about(change.content)
    read = read_file(change.content, asks_class=asks_class)
    known = {each.message for each in before.findings}
    new = [each for each in _found_of_class(read, change.content) if each.message not in known]
    said = [each.message for each in new if each.severity != "note"]
    if truth.failure.startswith("?"):
        return ChangedVerdict(*about, "not built", truth.failure)
    no_rotation = any("no rotary positions" in each.message for each in read.findings if each.severity == "note")
    if truth.failure:
        told = any(each.severity == "error" or _TELLS_FAILURE.search(each.message) for each in new)
        right = told or no_rotation
        return ChangedVerdict(*about, "right" if right else "failure unsaid", truth.failure)
    rotates = any(each.rotation is not None and each.rotation.layout is not None for each in truth.layers)
    if read.parsed is None and not no_rotation:
        return ChangedVerdict(*about, "refused", " | ".join(said))
    reasons = _differences(read, truth)
    if reasons:
        return ChangedVerdict(*about, "warned" if said else "silent", f"{'; '.join(reasons)} | {' | '.join(said)}")
    changed = not truth.does_as(usual)
    of_class = {message: _OF_ENGINES.sub("", message) for message in said}
    false = [each for each, own in of_class.items() if _FAILS.search(own) and not _HEDGED.search(own)]
    if change.kind == "added" and changed:
        false += [message for message in said if "passes over" in message and message not in false]
    false += [each.message for each in new if _has_an_effect(each.message, change.content, asked, truth)]
    if false:
        return ChangedVerdict(*about, "false", " | ".join(false))
    is_due = rotates and (not changed if change.kind == "added" else changed and change.kind == "renamed")
    if is_due and not said:
        return ChangedVerdict(*about, "unsaid", "the class passes over it")
    return ChangedVerdict(*about, "right", " | ".join(said))


def _has_an_effect(message: str, content: Mapping[str, Any], asked: Asked, truth: Truth) -> bool:
    """Whether the class does something else without the entries of which a finding says that they have no effect.

    Of findings that name other entries, too, one without an effect is enough.
    """
    own = _SAYS_THE_SAME.sub("", _OF_ENGINES.sub("", message))
    if not _PASSED_OVER.search(own):
        return False
    named = [path for path in _paths(content) if re.search(rf"(?<![\w.]){re.escape(path[-1])}(?![\w.]*\w)", own)]
    others = [asked.about(_without(content, path)) for path in named]
    changes = [not each.failure and not each.does_as(truth) for each in others]
    return any(changes) if _NOTED.search(own) else bool(changes) and all(changes)


def _paths(content: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in content.items():
        if name != "model_type":
            yield (*place, name)
        if isinstance(value, Mapping):
            yield from _paths(value, (*place, name))


def _without(content: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    first, *rest = path
    return {
        name: _without(value, rest) if name == first else value
        for name, value in content.items()
        if name != first or rest
    }


def _differences(read: Inspection, truth: Truth) -> list[str]:
    """Return where the class does something else than was read."""
    rotating = [each for each in truth.layers if each.rotation is not None and each.rotation.layout is not None]
    if read.parsed is None:
        return [f"read without rotation, but the class rotates {len(rotating)} layers"] if rotating else []
    try:
        found = compare_with_class(read.parsed, truth.layers, SHORT[-1] + 1, truth.built)
        found += [] if found or not truth.long else compare_with_class(read.parsed, truth.long, LONG[-1] + 1)
    except ConfigError as error:
        return [str(error)]
    reasons = [f"{each.subject} of {list(each.layers)}: {each.read}, but the class: {each.found}" for each in found]
    layers = {index for kind in read.parsed.layers if kind.config is not None for index in kind.layers}
    if truth.built and layers - truth.built:
        reasons.append(f"layers {sorted(layers - truth.built)} are read, and the class has none")
    return reasons
