"""Small checkpoints of every architecture in the other rotary layout and back, and the page of what became of them."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from layout_checkpoints import logits, save_checkpoint, weight_bytes

from locant.errors import LocantError
from locant.extension import convert_layout
from locant.extension.inspect.model_class.small_model import entries_of, quiet, reduced_entries
from zoo.architectures import Architecture
from zoo.cases import draw_case
from zoo.facts import mentions_rotation

_HEADS = (4, 8, 2)
_TOLERANCE = 1e-3  # of the largest logit

Outcome = Literal["converted", "refused", "different", "not built"]


@dataclass(frozen=True)
class Conversion:
    """The outcome of one checkpoint.

    Attributes:
        model_type: The architecture.
        seed: What its options were drawn by; ``None`` for a multimodal model.
        outcome: ``converted``; ``refused`` by Locant; ``different`` where logits or bytes are not those of before;
            ``not built`` where the class makes no model.
        reason: The message, or what differs.
        class_name: The class of the checkpoint.
        source: Its layout.
        tensors: Kinds of tensors that were permuted.
        switch: The entry of config.json that was set.
        difference: Largest difference of logits before and after.
        unturned: The same where pairs are turned as before, with random weights of low rank.
        largest: The largest logit.
    """

    model_type: str
    seed: int | None
    outcome: Outcome
    reason: str = ""
    class_name: str = ""
    source: str = ""
    tensors: tuple[str, ...] = ()
    switch: str = ""
    difference: float = 0.0
    unturned: float = 0.0
    largest: float = 0.0

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return asdict(self)


def conversions(found: Architecture, seeds: Iterable[int] = (0, 1)) -> Iterator[Conversion]:
    """Yield the outcomes of an architecture; nothing for one that does not read text or does not rotate.

    Args:
        found: The architecture.
        seeds: Seeds of the options of a text model. A multimodal one has the options of its class, in small.
    """
    if found.kind == "composite":
        yield _of_heads(found, None)
    elif found.kind == "text" and mentions_rotation(found.config_class):
        for seed in seeds:
            yield _of_heads(found, seed)


def _of_heads(found: Architecture, seed: int | None) -> Conversion:
    """Return the outcome with a number of heads of which the class makes a model."""
    outcome = None
    for heads in _HEADS:
        each = _of_content(found, seed, heads)
        if each.outcome != "not built":
            return each
        outcome = outcome or each
    assert outcome is not None
    return outcome


def _of_content(found: Architecture, seed: int | None, heads: int) -> Conversion:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        try:
            if seed is None:
                content = _composite(found.config_class, heads)
            else:
                content = draw_case(found.config_class, found.model_type, seed, heads=heads).content
            save_checkpoint(path / "model", content)
            before = logits(path / "model")
        except Exception as error:  # whatever the class raises
            return Conversion(found.model_type, seed, "not built", _first_line(error))
        return _converted(found.model_type, seed, path, before)


def _composite(config_class: Any, heads: int) -> dict[str, Any]:
    with quiet():
        config = config_class()
        small = reduced_entries(entries_of(config), layers=2, heads=heads)
        content: dict[str, Any] = config_class(**copy.deepcopy(small)).to_dict()
    return json.loads(json.dumps(content, default=str)) | {"model_type": config_class.model_type}


def _converted(model_type: str, seed: int | None, path: Path, before: Any) -> Conversion:
    report = None
    for layout in ("interleaved", "half"):
        try:
            report = convert_layout(path / "model", path / "other", layout).report
            break
        except LocantError as error:
            if "already" not in str(error):
                return Conversion(model_type, seed, "refused", str(error))
        except Exception as error:  # none should be raised
            return Conversion(model_type, seed, "different", _first_line(error))
    assert report is not None
    after = logits(path / "other")
    try:
        convert_layout(path / "other", path / "again", report.source)
    except LocantError as error:
        return Conversion(model_type, seed, "different", f"the way back: {_first_line(error)}")
    largest, difference = float(before.abs().max()), float((before - after).abs().max())
    if not difference <= _TOLERANCE * largest:  # is it what layers that attend sharply make of rounding?
        exact = [logits(path / name, torch.float64) for name in ("model", "other")]
        difference = float((exact[0] - exact[1]).abs().max())
    wrong = []
    if not difference <= _TOLERANCE * largest:
        wrong.append(f"logits differ by {difference:.1e} of {largest:.1e}")
    if weight_bytes(path / "again") != weight_bytes(path / "model"):
        wrong.append("the way back gives other bytes")
    return Conversion(
        model_type,
        seed,
        "different" if wrong else "converted",
        "; ".join(wrong),
        report.class_name,
        report.source,
        tuple(dict.fromkeys(_short(name) for name, _, _ in report.groups())),
        "" if report.switch is None else f"{report.switch[0]}: {json.dumps(report.switch[1])}",
        difference,
        report.proof.unturned,
        largest,
    )


def _short(name: str) -> str:
    """Return the name of a tensor within its layer."""
    return name.rpartition(".*.")[2]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"


_TITLES = {
    "different": "Different",
    "refused": "Refused",
    "not built": "Configurations of which the class makes no model, or one that computes nothing from a text alone",
}
_HEAD = ("transformers", "torch", "machine", "architectures", "not_reached")


def page(record: Mapping[str, Any]) -> str:
    """Return the page about a record.

    Args:
        record: ``transformers`` and ``torch``, their versions; ``machine``; ``architectures``, how many there are;
            ``not_reached``, those of them that were not visited; ``conversions``, each as plain data.
    """
    every = [Conversion(**each) for each in record["conversions"]]
    counts = Counter(each.outcome for each in every)
    converted: dict[str, list[Conversion]] = {}
    for each in every:
        if each.outcome == "converted":
            converted.setdefault(each.model_type, []).append(each)
    missing: Sequence[str] = record["not_reached"]
    reached = f"All {record['architectures']} model types of the package were visited."
    if missing:
        reached = f"Of the package's {record['architectures']} model types {len(missing)} were not reached."
    lines = [
        "# Checkpoints in the other rotary layout",
        "",
        f"Every architecture of transformers {record['transformers']} that reads text and speaks of rotary positions,",
        "found by walking the package. Small checkpoints with random weights, norms and biases, one with the options",
        "of the class and one with options drawn at random, are converted by",
        "[`locant convert-layout`](../convert-layout.md), loaded again by transformers and read with their pairs",
        "turned in the new layout: by the class where it has an entry for that, otherwise by Locant's rotation in",
        "the class. Then they are converted back. `make zoo-layouts` makes this page anew.",
        "",
        f"{len(every)} checkpoints of {len({each.model_type for each in every})} architectures: {counts['converted']} "
        f"of {len(converted)} converted, with the same logits, and with the same bytes after the way back; "
        f"{counts['different']} different; {counts['refused']} refused with a reason. Of {counts['not built']} "
        f"configurations the class itself makes no model that reads a text. {reached}",
        "",
        f"({record['machine']}.)",
        "",
        "The difference is the largest of any logit before and after, in float32, relative to the largest logit;",
        "beside it, in the class with weights of low rank, the largest difference where pairs are turned as before.",
        "",
        "| model type | checkpoints | layout | tensors | entry that is set | difference | wrong pairs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(name, cases) for name, cases in sorted(converted.items())),
    ]
    for outcome, title in _TITLES.items():
        listed = _by_reason([each for each in every if each.outcome == outcome])
        lines += ["", f"## {title}", "", *listed] if listed else []
    if missing:
        lines += ["", "## Not reached", "", f"Many of them read no text, or do not rotate: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _row(name: str, cases: list[Conversion]) -> str:
    tensors = ", ".join(dict.fromkeys(tensor for each in cases for tensor in each.tensors))
    sources = " and ".join(sorted({each.source for each in cases}))
    switches = ", ".join(sorted({each.switch for each in cases if each.switch}))
    difference = max(each.difference / each.largest for each in cases)
    unturned = min(each.unturned for each in cases)
    return f"| {name} | {len(cases)} | {sources} | {tensors} | {switches} | {difference:.1e} | {unturned:.1e} |"


def _by_reason(found: list[Conversion]) -> list[str]:
    """Return a line for every model type and reason, with the seeds that had it."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for each in found:
        reason = " ".join(each.reason.split()).replace("<", "&lt;")[:240]
        seeds.setdefault((each.model_type, reason), []).extend([] if each.seed is None else [each.seed])
    return [f"- {name}{_seeds(which)}: {reason}" for (name, reason), which in seeds.items()]


def _seeds(which: list[int]) -> str:
    return f", seed {' and '.join(map(str, which))}" if which else ""


def as_json(record: Mapping[str, Any]) -> str:
    """Return a record as JSON, with a line for every case."""
    head = "".join(f"{json.dumps(name)}: {json.dumps(record[name])},\n" for name in _HEAD)
    cases = ",\n".join(json.dumps(each) for each in record["conversions"])
    return f'{{{head}"conversions": [\n{cases}\n]}}\n'
