"""The section of a model card that says how a model's context was extended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from locant.extension.inspect.engine_differences import describe
from locant.positions.rotary.config import RotaryConfig
from locant.version import __version__

_START, _END = "<!-- locant extend -->", "<!-- end of locant extend -->"
_SECTION = re.compile(f"\n*{re.escape(_START)}.*?{re.escape(_END)}\n*", re.DOTALL)

SOURCES = {
    "linear": "position interpolation, Chen et al. 2023, arXiv:2306.15595",
    "ntk": "NTK-aware interpolation, as given in Peng et al. 2023, arXiv:2309.00071, section 3.1",
    "dynamic": "dynamic NTK, as given in Peng et al. 2023, arXiv:2309.00071, section 3.3",
    "yarn": "YaRN, Peng et al. 2023, arXiv:2309.00071",
    "longrope": "two lists of factors, Ding et al. 2024, arXiv:2402.13753, with those of NTK-by-parts for long texts",
}
"""What each method is, and where it was published."""

_LIMITS = {
    "linear": "Short texts are interpolated as well, which costs some quality there.",
    "ntk": "Short texts are changed a little as well.",
    "dynamic": "Frequencies follow the length of the text. transformers keeps cached keys as they were turned before, "
    "so generating beyond the original length gives other scores than reading the same text; vLLM fixes the "
    "frequencies for the longest text instead.",
    "yarn": "Short texts are scaled as well, which costs a little quality there.",
    "longrope": "Texts up to the original length are read exactly as before. transformers changes the list when a text "
    "exceeds it, and keys cached before keep the other one; vLLM and llama.cpp take the long list for all texts.",
}


@dataclass(frozen=True)
class Measurement:
    """What was measured of one candidate.

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
        method: One of :data:`~locant.extension.extend.methods.METHODS`.
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
    measurements: Sequence[Measurement] = ()
    lengths: tuple[int, int] = (0, 0)
    training: str = ""


def write_card(card: str, account: ExtensionReport) -> str:
    """Return a model card with the section about the extension; a section that is there already is replaced.

    Args:
        card: The text of README.md, empty where there is none.
        account: What was done.
    """
    rest = _SECTION.sub("\n", card).rstrip()
    if not rest:
        rest = f"# {account.model}, extended to {account.target_length:,} tokens"
    return f"{rest}\n\n{_START}\n{_section(account)}\n{_END}\n"


def _section(account: ExtensionReport) -> str:
    adapted = account.training or "The weights are unchanged: the model was not trained on longer texts."
    lines = [
        "## Extended context",
        "",
        f"The context of {account.model} was extended from {account.original_length:,} to {account.target_length:,} "
        f"tokens by the method `{account.method}` ({SOURCES[account.method]}), with Locant {__version__}. {adapted}",
        "",
        "| layers | rotary positions before | now |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {layer} | {_said(account.before[layer])} | {_said(config)} |" for layer, config in account.after.items()
    ]
    if account.measurements:
        lines += ["", *_measured(account)]
    return "\n".join([*lines, "", _LIMITS[account.method]])


def _said(config: RotaryConfig) -> str:
    return f"base {config.base:.10g}, {describe(config)}"


def _measured(account: ExtensionReport) -> list[str]:
    short, long = account.lengths
    rows = [f"| {each.method} | {each.short:.3f} | {each.long:.3f} |" for each in account.measurements]
    return [
        f"The method was chosen by perplexity, measured on texts of {short:,} and {long:,} tokens:",
        "",
        f"| method | {short:,} tokens | {long:,} tokens |",
        "| --- | --- | --- |",
        *rows,
    ]
