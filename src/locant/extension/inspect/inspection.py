"""Inspection of the rotary configuration of an existing model: its meaning, and what is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from locant.errors import LocantError, UsageError
from locant.extension.inspect.result import Inspection
from locant.extension.source import LAYOUT_MARK, load_source, resolve_model
from locant.parsing import parse_json
from locant.rotary_configs.case import Case
from locant.rotary_configs.config_json import read_huggingface
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.findings import find
from locant.rotary_configs.gguf import read_gguf, read_llamacpp
from locant.rotary_configs.reading import UNREADABLE, NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.vllm import merge_hf_overrides, served_length
from locant.rotary_configs.vocabulary import LENGTHS, text_config_path


def inspect_model(
    model: Path | str,
    *,
    hf_overrides: str | None = None,
    llamacpp: str | None = None,
    ask_class: bool = True,
) -> Inspection:
    """Read what a model's rotary configuration means, and find what is wrong with it.

    The class of the installed transformers is asked, by a model without weights; where there is none, the entries are
    read. Code of the model's folder is never run, and its weights are not read.

    Args:
        model: A folder with config.json, a config.json, a GGUF file, ``smollm2`` or an id on Hugging Face's Hub, of
            which only JSON files are downloaded.
        hf_overrides: JSON of vLLM's ``--hf-overrides``: the model is inspected as vLLM runs it with them.
        llamacpp: Flags of llama.cpp: the model is inspected as llama.cpp runs it with them.
        ask_class: Whether to ask the class of transformers, whose import takes seconds.

    Returns:
        The meaning and the findings; a configuration that cannot be right is a finding, not an exception.

    Raises:
        UsageError: There is nothing at that path, or nothing that can be read as one of these; or the options of an
            engine do not go with the file or with each other.
        ConfigError: The options of an engine are wrong or contradict the file.
        CheckpointError: The Hub could not be asked, or refuses.
        MissingExtraError: The package that a name asks for is not installed.

    Example:
        >>> import json, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "config.json").write_text(json.dumps({
        ...     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 32768,
        ...     "rope_scaling": {"rope_type": "linear", "factor": 8.0}}))
        >>> "served-length" in [each.code for each in inspect_model(folder, ask_class=False).findings]
        True
    """
    source = load_source(resolve_model(model, weights=False))
    if hf_overrides and llamacpp:
        raise UsageError("Options of vLLM and flags of llama.cpp are both given; a model is run by one of them.")
    if hf_overrides and source.kind == "gguf":
        raise UsageError(f"{source.path} is a GGUF file; the overrides of vLLM change a config.json.")
    if llamacpp and source.kind != "gguf":
        raise UsageError(f"{source.path} is no GGUF file, which the flags of llama.cpp go with.")
    engine = "vLLM" if hf_overrides else "llama.cpp" if llamacpp else None
    not_compared: str | None = None
    case = Case(source.kind, source.content, engine=engine, tensors=tuple(source.tensors), repeated=source.repeated)
    if source.kind == "gguf":
        model_type = source.content.get("general.architecture")
        case = _read(case, lambda: read_gguf(source.content, source.tensors))
        if llamacpp and case.reading is not None:
            case = replace(case, reading=read_llamacpp(llamacpp, source.content, source.tensors))
        case = replace(case, declared=_length(lambda: Fields(case.content, "").whole(case.key("context_length"))))
    else:
        mark = source.content.get(LAYOUT_MARK)  # of locant convert-layout, which no class reads
        case = replace(case, content={name: each for name, each in source.content.items() if name != LAYOUT_MARK})
        if hf_overrides:
            content = _completed(case.content) if ask_class else case.content
            merged, dropped = merge_hf_overrides(content, hf_overrides)
            case = replace(case, content=merged, dropped=tuple(dropped.items()))
        case = replace(case, path=text_config_path(case.content))
        model_type = case.part.get("model_type") or case.content.get("model_type")
        case, not_compared = _asked(case) if ask_class else (case, "The class in transformers was not asked.")
        if case.reading is None and not case.no_rope:
            case = _read(case, lambda: read_huggingface(case.content))
        if mark in ("half", "interleaved") and case.reading is not None:
            source_of = f"{case.reading.source}, and converted to the layout '{mark}'"
            configs = {name: replace(config, layout=mark) for name, config in case.reading.configs.items()}
            case = replace(case, reading=replace(case.reading, configs=configs, source=source_of))
        case = replace(case, declared=case.declared or _length(lambda: Fields(case.part, "").whole(*LENGTHS)))
        case = replace(case, served=case.served or _length(lambda: served_length(case.part)))
    return Inspection(
        source.path,
        source.kind,
        model_type if isinstance(model_type, str) else None,
        case.declared,
        case.reading,
        find(case),
        case.part,
        case.content,
        case.path,
        case.class_name,
        not_compared,
        engine,
    )


def _length(read: Callable[[], int | None]) -> int | None:
    """Return a length; an entry that is none is left to those who read the file."""
    try:
        return read()
    except UNREADABLE:
        return None


def _read(case: Case, read: Callable[[], ParsedConfig]) -> Case:
    """Return a case with what a reader makes of it, or with why it cannot be read."""
    try:
        reading = read()
        reading.explain()
    except NoRotaryPositionsError as error:
        return replace(case, no_rope=str(error))
    except UNREADABLE as error:
        return case if case.refusal else replace(case, unreadable=str(error))
    return replace(case, reading=reading)


def _completed(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the class makes of a file, which vLLM merges its options into."""
    from locant.extension.asked.build import completed_config
    from locant.extension.asked.watch import heard

    with heard(), contextlib.suppress(LocantError):  # which is reported when the class is asked
        completed: Mapping[str, Any] = parse_json(completed_config(content).to_json_string(use_diff=False))
        return completed
    return content


def _asked(case: Case) -> tuple[Case, str | None]:
    """Return a case with what its class makes of it, and why that is not asked or not the whole truth."""
    from locant.extension.asked.ask import ClassRefusesError, NoClassError, TooLargeError, ask_class
    from locant.extension.asked.name import declared_length
    from locant.extension.inspect.effects import idle_entries

    try:
        asked = ask_class(case.content)
    except NoRotaryPositionsError as error:
        return replace(case, no_rope=str(error)), None
    except ClassRefusesError as error:
        return replace(case, refusal=str(error)), None
    except (NoClassError, TooLargeError) as error:
        return case, str(error)
    reading: ParsedConfig | None = asked.reading if asked.reading.configs else None
    no_rope = None if reading else f"{asked.name} rotates nothing: it has other positions than rotary ones, or none."
    case = replace(
        case,
        class_name=f"{asked.name} of transformers {asked.release}",
        said=asked.said,
        noted=asked.notes,
        no_rope=no_rope,
    )
    served = _length(lambda: served_length(asked.config.to_dict()))
    case = replace(case, declared=declared_length(asked.config), served=served)
    if reading is not None:
        case = _read(case, lambda: reading)
        if not case.engine:  # the entries are those of the file
            idle, untried = idle_entries(case.content, case.path, asked)
            case = replace(case, idle=idle, untried=untried)
    own = "The file names code of its own (auto_map), which is never run and may do something else."
    return case, own if asked.has_own_code else None
