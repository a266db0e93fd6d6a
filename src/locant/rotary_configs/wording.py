"""Messages in the words of the file that they are about, for readers of other software's configurations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec

from locant.errors import ConfigError
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import UNREADABLE, NoRotaryPositionsError, ParsedConfig, error_finding

_HUGGINGFACE = {
    "original_length": "original_max_position_embeddings",
    "max_length": "max_position_embeddings",
    "low_frequency_factor": "low_freq_factor",
    "high_frequency_factor": "high_freq_factor",
    "short_factors": "short_factor",
    "long_factors": "long_factor",
    "rotary_fraction": "partial_rotary_factor",
}
_GGUF = {
    "original_length": "rope.scaling.original_context_length",
    "max_length": "context_length",
    "attention_factor": "the attention scale",
    "beta_fast": "rope.scaling.yarn_beta_fast",
    "beta_slow": "rope.scaling.yarn_beta_slow",
    "rotary_dim": "rope.dimension_count",
}
_FLAGS = {"original_length": "the length before the extension", "max_length": "the context length"}
# The scaling that transformers measures by the declared length.
_DYNAMIC = {"original_length": "max_position_embeddings"}
_NO_ENTRY = {"target_length": "extended length", "length_step": "length step"}

NAMES: dict[str, dict[str, str]] = {"huggingface": _HUGGINGFACE, "gguf": _GGUF, "llamacpp": _FLAGS}
"""Names of the fields of scalings in each format, for messages."""

_Arguments = ParamSpec("_Arguments")


def in_words_of(kind: str, text: str) -> str:
    """Return a message with the names that a file has for the fields of scalings.

    Args:
        kind: A key of :data:`NAMES`.
        text: The message.

    Example:
        >>> in_words_of("huggingface", "The scaling 'yarn' has target_length 2048, below original_length 4096.")
        "The scaling 'yarn' has extended length 2048, below original_max_position_embeddings 4096."
    """
    is_dynamic = kind == "huggingface" and re.search(r"scaling '?dynamic\b", text)
    names = {**NAMES[kind], **_NO_ENTRY, **(_DYNAMIC if is_dynamic else {})}
    return re.sub(r"(?<![\w.])(?:" + "|".join(names) + r")(?!\w)", lambda found: names[found[0]], text)


def finding_in_words_of(kind: str, finding: Finding) -> Finding:
    """Return a finding with the names of a file."""
    return replace(finding, message=in_words_of(kind, finding.message), remedy=in_words_of(kind, finding.remedy))


def speaks_of(
    kind: str, where: str
) -> Callable[[Callable[_Arguments, ParsedConfig]], Callable[_Arguments, ParsedConfig]]:
    """Return a decorator of readers, whose errors and findings then have the names of the file.

    Numbers beyond any range and nesting beyond any depth end in a ConfigError as well.

    Args:
        kind: A key of :data:`NAMES`.
        where: The file, for messages.
    """

    def decorate(read: Callable[_Arguments, ParsedConfig]) -> Callable[_Arguments, ParsedConfig]:
        @functools.wraps(read)
        def reader(*args: _Arguments.args, **options: _Arguments.kwargs) -> ParsedConfig:
            try:
                parsed = read(*args, **options)
            except UNREADABLE as error:
                said = in_words_of(kind, error_finding(error, where).message)
                if isinstance(error, NoRotaryPositionsError):
                    raise NoRotaryPositionsError(said, in_words_of(kind, error.remedy)) from error
                kind_of_error = type(error) if isinstance(error, ConfigError) else ConfigError
                raise kind_of_error(said) from error
            return replace(parsed, findings=tuple(finding_in_words_of(kind, each) for each in parsed.findings))

        return reader

    return decorate


def words_of(text: str) -> set[str]:
    """Return the words of a message, of keys of a GGUF file also what stands behind their last dot."""
    words = set(re.findall(r"\w+(?:\.\w+)*", text))
    return words | {word.rsplit(".", 1)[-1] for word in words}


def words_of_findings(findings: Sequence[Finding]) -> set[str]:
    """Return the words of findings."""
    return words_of(" ".join(each.message for each in findings))
