"""The reference of all settings, docs/settings.md, from the classes; run as a program, this writes it again."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from locant.models import DecodingSettings, RNNConfig, TransformerConfig
from locant.models.config import LayerKind
from locant.settings import Settings
from locant.text import corpus_settings
from locant.text.batches import BatchSettings
from locant.text.cleaning import CleaningSettings
from locant.text.noise import NoiseSettings
from locant.text.tokenizer import TokenizerSettings
from locant.training import Recipe
from locant.training.settings import FineTuningSettings, LoraSettings, TrainingSettings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
SECTIONS: dict[str, type[Settings]] = {
    "Recipe": Recipe,
    "corpus: files": corpus_settings.FilesCorpus,
    "corpus: tsv": corpus_settings.TsvCorpus,
    "corpus: jsonl": corpus_settings.JsonlCorpus,
    "corpus: huggingface": corpus_settings.HuggingFaceCorpus,
    "corpus: bible": corpus_settings.BibleCorpus,
    "corpus: mixture": corpus_settings.MixtureCorpus,
    "corpus: languages": corpus_settings.LanguagesCorpus,
    "noise": NoiseSettings,
    "cleaning": CleaningSettings,
    "tokenizer": TokenizerSettings,
    "batches": BatchSettings,
    "model": TransformerConfig,
    "model.kinds": LayerKind,
    "model: rnn": RNNConfig,
    "training": TrainingSettings,
    "finetuning": FineTuningSettings,
    "finetuning.lora": LoraSettings,
    "decoding": DecodingSettings,
}
HEAD = """# Settings

<!-- generated: python tools/settings_page.py -->

Every key of a recipe, with its default and meaning. On the command line, `locant train RECIPE training.steps=2000` sets
one, with dots for sections. [Train a translator](training.md) explains how they work together. A default of `null` is
a key that is not set, or that Locant chooses.
"""


def described(settings: type[Settings]) -> dict[str, str]:
    """Return what the docstrings of a class and its bases tell of each field, as Markdown."""
    found: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        text = inspect.cleandoc(base.__doc__ or "") if issubclass(base, Settings) else ""
        attributes = re.search(r"^(?:Attributes|Args):\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE)
        for entry in re.split(r"\n(?=    \w)", (attributes[1] if attributes else "").rstrip()):
            name, mark, meaning = entry.strip().partition(": ")
            if mark:
                plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?([\w]+)`", r"`\1`", " ".join(meaning.split()))
                found[name] = plain.replace("``", "`").replace("|", "or")
    return found


def shown(value: Any) -> str:
    """Return a default as a recipe would have it."""
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, Settings):
        return "below"
    if value is None or isinstance(value, bool):
        return f"`{'null' if value is None else str(value).lower()}`"
    return "empty" if value in ("", (), [], {}) else f"`{value}`"


def values(annotation: Any) -> str:
    """Return what a key may be: its choices, or the kind of its value."""
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    members = [each for each in get_args(annotation) if each is not type(None)]
    if get_origin(annotation) in (Union, UnionType) and len(members) == 1:
        return values(members[0])
    names = {int: "integer", float: "number", bool: "true or false", str: "text", Path: "file"}
    return names.get(annotation, "")


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, settings in SECTIONS.items():
        meanings = described(settings)
        rows = [
            f"| `{name}` | {values(field.annotation)} | {shown(field.get_default(call_default_factory=True))} | "
            f"{field.description or meanings.get(name, '')} |"
            for name, field in settings.model_fields.items()
            if name not in ("kind", "architecture", "source_vocab_size", "target_vocab_size")
        ]
        about = inspect.cleandoc(settings.__doc__ or "").partition("\n\n")[0].replace("``", "`")
        about = re.sub(r":\w+:`~?(?:[\w.]*\.)?([\w]+)`", r"`\1`", " ".join(about.split()))
        heads = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([f"## {title}", "", about, "", *heads, *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
