"""What was done to a model, and the section of its model card about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from locant.extension.extend.methods import extension_methods, main_layer
from locant.extension.passed_on import card_with
from locant.positions.rotary.config import RotaryConfig
from locant.version import __version__


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
        instead_of: The method that was asked for, where the model cannot have it.
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
    instead_of: str = ""
    measurements: Sequence[MeasuredMethod] = ()
    lengths: tuple[int, int] = (0, 0)
    training: str = ""

    @property
    def why_instead(self) -> str:
        """Why another method was taken than was asked for, in a sentence, or nothing."""
        if not self.instead_of:
            return ""
        scaling = self.before[main_layer(self.before)].scaling.name
        return (
            f"{self.instead_of} cannot be expressed for this model, whose scaling is {scaling}; {self.method} can, "
            "because it goes on from any frequencies."
        )


def write_card(card: str, report: ExtensionReport) -> str:
    """Return a model card with the section about the extension; a section that is there already is replaced.

    Args:
        card: The text of README.md, empty where there is none.
        report: What was done.
    """
    about, (short, long) = extension_methods()[report.method], report.lengths
    adapted = report.training or "The weights are unchanged: the model was not trained on longer texts."
    rows = [
        f"| {layer} | base {old.base:.10g}, {old.describe()} | base {new.base:.10g}, {new.describe()} |"
        for layer, new in report.after.items()
        for old in [report.before[layer]]
    ]
    measured = [
        f"\nThe method was chosen by perplexity, measured on texts of {short:,} and {long:,} tokens:\n",
        f"| method | {short:,} tokens | {long:,} tokens |\n| --- | --- | --- |",
        *(f"| {each.method} | {each.short:.3f} | {each.long:.3f} |" for each in report.measurements),
    ]
    lines = [
        f"## Extended context\n\nThe context of {report.model} was extended from {report.original_length:,} to "
        f"{report.target_length:,} tokens by the method `{report.method}` ({about.source}), with Locant {__version__}. "
        f"{report.why_instead}{' ' if report.instead_of else ''}{adapted}\n",
        "| layers | rotary positions before | now |\n| --- | --- | --- |",
        *rows,
        *(measured if report.measurements else ()),
        f"\n{about.limits}",
    ]
    title = f"{report.model}, extended to {report.target_length:,} tokens"
    return card_with("\n".join(lines), card, command="extend", title=title)
