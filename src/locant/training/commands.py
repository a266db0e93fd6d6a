"""Commands that users are told to try, as they are typed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path


def translate_command(model: Path, text: str | None, languages: Mapping[str, str]) -> str:
    """Return the command that translates a text.

    Args:
        model: The folder of the model.
        text: To translate; ``None`` leaves a place for it.
        languages: What a model for several languages is told, by side.

    Example:
        >>> translate_command(Path("runs/four"), "Guten Tag", {"source": "de", "target": "fr"})
        "locant translate runs/four --source-language de --target-language fr 'Guten Tag'"
    """
    words = ["locant", "translate", str(model)]
    for side, language in languages.items():
        words += [f"--{side}-language", language]
    if text is None:
        return f'{shlex.join(words)} "..."'
    if text.startswith("-"):
        words.append("--")  # or it is taken for an option
    return shlex.join([*words, text])


def evaluate_command(run: Path) -> str:
    """Return the command that evaluates a run."""
    return shlex.join(["locant", "evaluate", str(run)])


def resume_command(run: Path) -> str:
    """Return the command that goes on with a run."""
    return shlex.join(["locant", "train", "--resume", str(run)])
