"""Reading of a source's rotary configuration, by its class, the code around it, or its entries alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.extension.inspect.code_beside import ReadCode, read_code
from locant.extension.inspect.model_class.ask import AskedClass
from locant.extension.inspect.project_code import read_project
from locant.extension.source import Source
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.without_rotation import speaks_of_rotation
from locant.rotary_configs.gguf.reading import read_gguf
from locant.rotary_configs.huggingface.named_classes import class_in_architectures
from locant.rotary_configs.huggingface.reading import read_config, read_huggingface
from locant.rotary_configs.huggingface.stacks import kind_of_stack
from locant.rotary_configs.huggingface.text_parts import text_part, text_type
from locant.rotary_configs.spellings import stated_layout


def code_around(source: Source) -> ReadCode | None:
    """Return what the code beside a file says, or that of its project, for a model type that is not known here.

    Args:
        source: The file.
    """
    name = text_type(source.content)
    if families.model_type(name) is not None:
        return None
    beside = read_code(source.path.parent, source.content, name)
    part = text_part(source.content)
    is_told = stated_layout(part) is not None or class_in_architectures(source.content) is not None
    is_told = is_told or "auto_map" in source.content  # then its code is elsewhere
    if beside is not None or is_told or not speaks_of_rotation(part):
        return beside
    return read_project(source.path.parent, name)


def read_source(source: Source, asked: AskedClass | None, code: ReadCode | None) -> ParsedConfig:
    """Return what a file means, and who says so where that is not the class that is known here.

    Args:
        source: The file.
        asked: The class of transformers, where it was asked.
        code: The code around the file, where it says something.

    Raises:
        ConfigError: The file says nothing that can be read, or contradicts itself.
    """
    if source.kind == "gguf":
        return read_gguf(source.content, source.tensors)
    if asked is not None and families.model_type(text_type(source.content)) is None:
        parsed = read_config(source.content, kind=asked.kind)
        said = Finding(
            "note",
            f"The model type '{asked.kind.name}' is not known here; what its class does was read from {asked.name} of "
            f"transformers {asked.release}.",
            "Compare with the code that trained the model, if it was another.",
        )
        return replace(parsed, findings=(*parsed.findings, said))
    if code is not None:
        parsed = read_config(source.content, kind=code.kind)
        return replace(parsed, findings=(*parsed.findings, *code.findings()))
    if not _has_rotary_entries(source.content):
        raise ConfigError(
            f"{source.path.name} says nothing about rotary positions, and its model type is not known to have any."
        )
    parsed = read_huggingface(source.content)
    return replace(parsed, findings=(*parsed.findings, *_doubts_by_code(source, parsed)))


def _doubts_by_code(source: Source, parsed: ParsedConfig) -> Iterator[Finding]:
    """Yield a warning where a file is known by its entries alone, and the code around it pairs features otherwise."""
    content, folder = source.content, source.path.parent
    is_named = any(part.get("model_type") is not None for part in (content, text_part(content)))
    if is_named or families.model_type(text_type(content)) is None:
        return
    code = read_code(folder, content, None) or read_project(folder, None)
    layouts = {config.layout for config in parsed.configs.values()}
    if code is not None and code.kind.rotates and code.kind.layout not in layouts:
        yield Finding(
            "warning",
            f"By its entries the file is of code that pairs features in the layout '{min(layouts)}', which is shown; "
            f"but {code.file} around it {code.says}.",
            "Compare with the code that trained the model.",
        )


def _has_rotary_entries(content: Mapping[str, Any]) -> bool:
    text = text_part(content)
    groups = content.values() if text is content else (text,)  # a vision tower beside a text part tells nothing of it
    parts = [content, *(part for part in groups if isinstance(part, Mapping))]
    known = (families.model_type(str(part.get("model_type"))) for part in parts)
    names = any("rope" in key or "rotary" in key for part in parts for key in part)
    stated = any(speaks_of_rotation(part) for part in parts)
    name = text_type(content)
    is_named = families.model_type(name) is not None or name in families.TURNS_BEFORE_PROJECTIONS
    is_named = is_named or kind_of_stack(name) is not None
    return any(known) or names or stated or is_named or class_in_architectures(content) is not None


def stated_model_type(source: Source, content: Mapping[str, Any]) -> str | None:
    """Return the model type that a file states, or the architecture of a GGUF file.

    Args:
        source: The file.
        content: Its text part.
    """
    names = ("general.architecture",) if source.kind == "gguf" else ("model_type",)
    found = next((part[name] for part in (content, source.content) for name in names if part.get(name)), None)
    return found if isinstance(found, str) else None


def stated_length(kind: str, model_type: str | None, content: Mapping[str, Any]) -> int | None:
    """Return the length in tokens that a file states for its model, if it is a whole number.

    Args:
        kind: ``huggingface`` or ``gguf``.
        model_type: The architecture of a GGUF file.
        content: The text part of the file.
    """
    names = (f"{model_type}.context_length",) if kind == "gguf" else ("max_position_embeddings", "n_positions")
    found = (content.get(name) for name in names)
    return next((int(length) for length in found if isinstance(length, int | float) and length % 1 == 0), None)
