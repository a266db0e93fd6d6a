"""Reports about extended models, and the section of a model card that holds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from locant.extension.extend.methods import extension_methods
from locant.positions.rotary.config import RotaryConfig
from locant.version import __version__

_START, _END = "<!-- locant extend -->", "<!-- end of locant extend -->"
_SECTION = re.compile(f"\n*{re.escape(_START)}.*?{re.escape(_END)}\n*", re.DOTALL)


@dataclass(frozen=True)
class MeasuredMethod:
    """The perplexities of one candidate of the method ``auto``.

    Attributes:
        method: Its name; ``none`` for the model as it was.
        short: Perplexity of texts of the original length.
        long: Perplexity of texts of the target length, or of as much text as there was.
    """

    method: str
    short: float
    long: float


@dataclass(frozen=True)
class ExtensionReport:
    """What was done to a model.

    Attributes:
        model: Its name.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`.
        original_length: Length in tokens that it read before.
        target_length: Length in tokens that it reads now.
        before: Its rotary configurations, by layer type.
        after: Those it has now.
        measurements: Of the candidates, where the method was chosen by them.
        lengths: The two lengths of text in tokens that were measured.
        training: How it was adapted, in a sentence, or nothing.
    """

    model: str
    method: str
    original_length: int
    target_length: int
    before: dict[str, RotaryConfig]
    after: dict[str, RotaryConfig]
    measurements: Sequence[MeasuredMethod] = ()
    lengths: tuple[int, int] = (0, 0)
    training: str = ""


def write_card(card: str, report: ExtensionReport) -> str:
    """Return a model card with the section about the extension; a section that is there already is replaced.

    Args:
        card: The text of README.md, empty where there is none.
        report: What was done.
    """
    rest = _SECTION.sub("\n", card).rstrip()
    if not rest:
        rest = f"# {report.model}, extended to {report.target_length:,} tokens"
    return f"{rest}\n\n{_START}\n{_section(report)}\n{_END}\n"


def _section(report: ExtensionReport) -> str:
    about = extension_methods()[report.method]
    adapted = report.training or "The weights are unchanged: the model was not trained on longer texts."
    lines = [
        "## Extended context",
        "",
        f"The context of {report.model} was extended from {report.original_length:,} to {report.target_length:,} "
        f"tokens by the method `{report.method}` ({about.source}), with Locant {__version__}. {adapted}",
        "",
        "| layers | rotary positions before | now |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {layer} | {_described(report.before[layer])} | {_described(config)} |"
        for layer, config in report.after.items()
    ]
    if report.measurements:
        lines += ["", *_measured(report)]
    return "\n".join([*lines, "", about.limits])


def _described(config: RotaryConfig) -> str:
    return f"base {config.base:.10g}, {config.describe()}"


def _measured(report: ExtensionReport) -> list[str]:
    short, long = report.lengths
    rows = [f"| {each.method} | {each.short:.3f} | {each.long:.3f} |" for each in report.measurements]
    return [
        f"The method was chosen by perplexity, measured on texts of {short:,} and {long:,} tokens:",
        "",
        f"| method | {short:,} tokens | {long:,} tokens |",
        "| --- | --- | --- |",
        *rows,
    ]
