"""Inspection of the rotary configuration of an existing model: its meaning, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from locant.errors import ConfigError, UsageError
from locant.extension.inspect.code_beside import ReadCode, read_code
from locant.extension.inspect.effects import effects_of_entries
from locant.extension.inspect.engine_differences import engine_differences
from locant.extension.inspect.left_out import without_notes_on_bases
from locant.extension.inspect.model_class.ask import AskedClass, as_the_class, without_reading
from locant.extension.inspect.model_class.ask import ask_class as class_of
from locant.extension.inspect.model_class.unasked import UnaskedClass
from locant.extension.inspect.project_code import read_project
from locant.extension.inspect.stored_frequencies import stored_findings
from locant.extension.inspect.wrong_values import other_wrong_values
from locant.extension.source import Source, check_layers, check_sizes, load_source, resolve_model
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import UNREADABLE, NoRotaryPositionsError, ParsedConfig, error_finding
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.nulls import NEEDED
from locant.rotary_configs.classes.own_code import UNKNOWN_TYPE, type_of_nobody
from locant.rotary_configs.classes.without_rotation import speaks_of_rotation
from locant.rotary_configs.engines.vllm import read_vllm
from locant.rotary_configs.gguf.architectures import CONVERTED_FROM_HALVES
from locant.rotary_configs.gguf.llamacpp import read_llamacpp
from locant.rotary_configs.gguf.llamacpp_flags import flags_where_nothing_rotates, overridden_metadata, parse_flags
from locant.rotary_configs.gguf.loading import refusals
from locant.rotary_configs.gguf.reading import read_gguf
from locant.rotary_configs.huggingface.doubts import doubts_about
from locant.rotary_configs.huggingface.named_classes import class_in_architectures, other_type_in_architectures
from locant.rotary_configs.huggingface.pairing import LAYOUT_MARK
from locant.rotary_configs.huggingface.reading import read_config, read_huggingface
from locant.rotary_configs.huggingface.stacks import kind_of_stack
from locant.rotary_configs.huggingface.text_parts import (
    beside_a_lacking_part,
    text_part,
    text_part_names,
    text_type,
)
from locant.rotary_configs.reach import REACH
from locant.rotary_configs.rotary_names import misplaced_names
from locant.rotary_configs.spellings import stated_layout
from locant.rotary_configs.vision import VisionRotary, read_vision
from locant.rotary_configs.wording import finding_in_words_of, in_words_of


@dataclass(frozen=True)
class Inspection:
    """All that is known about a model's rotary positions.

    Attributes:
        path: The file that was read.
        kind: ``huggingface`` for a config.json, ``gguf``.
        model_type: ``model_type`` of config.json or of its text part; the architecture of a GGUF file.
        declared_length: Length in tokens that the file declares, where it does.
        parsed: What the file means; ``None`` where it contradicts itself or has no rotary positions, which is a finding
            then, an error or a note.
        findings: What is wrong or doubtful, errors first, but behind that nobody knows the model type.
        content: What was read: the text part of config.json, or the metadata.
        text_part: Names of the groups of config.json that lead to that text part; none where it is the whole file.
        checked_against: The class of transformers that was asked what it makes of the file, with its release, where one
            was.
        not_compared: Why the class of transformers could not be asked, in one sentence, where that is so.
        vision: How the vision tower of a multimodal model rotates, where it has one that does.
        engine: The engine whose options are in ``parsed`` besides the file, where some were given: ``vLLM`` or
            ``llama.cpp``.
    """

    path: Path
    kind: Literal["huggingface", "gguf"]
    model_type: str | None
    declared_length: int | None
    parsed: ParsedConfig | None
    findings: tuple[Finding, ...]
    content: Mapping[str, Any]
    engine: str | None = None
    text_part: tuple[str, ...] = ()
    checked_against: str | None = None
    not_compared: str | None = None
    vision: VisionRotary | None = None

    @property
    def has_errors(self) -> bool:
        """Whether something is wrong rather than doubtful."""
        return any(finding.severity == "error" for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON.

        Lengths are in tokens, wavelengths in tokens a turn (``null`` for pairs that stand still), frequencies in
        radians a token; ``null`` stands for what is beyond any float as well.
        """
        configs = {} if self.parsed is None else self.parsed.configs
        return {
            "path": str(self.path),
            "kind": self.kind,
            "model_type": self.model_type,
            "engine": self.engine,
            "checked_against": self.checked_against,
            "not_compared": self.not_compared,
            "declared_length": self.declared_length,
            "layers": {layer: _layer(config, self.kind) for layer, config in configs.items()},
            "layer_types": [] if self.parsed is None else [dataclasses.asdict(kind) for kind in self.parsed.layers],
            "vision": None if self.vision is None else dataclasses.asdict(self.vision),
            "multimodal": {} if self.parsed is None else self.parsed.multimodal,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
        }


def inspect_model(
    model: Path | str,
    *,
    hf_overrides: str | None = None,
    llamacpp: str | None = None,
    ask_class: bool = True,
) -> Inspection:
    """Read what a model's rotary configuration means, and find what is wrong with it.

    Nothing of the model is executed, and of its weights only frequencies are read. Where transformers is installed and
    has a class for the model type, that class is asked as well: a model with tiny widths, without weights.

    Args:
        model: A folder with config.json, a config.json, a GGUF file, ``smollm2`` or an id on Hugging Face's Hub, of
            which only JSON files are downloaded.
        hf_overrides: JSON of vLLM's ``--hf-overrides``: the model is inspected as vLLM runs it with them.
        llamacpp: Flags of llama.cpp: the model is inspected as llama.cpp runs it with them.
        ask_class: Whether to compare with the class of transformers, whose import takes seconds.

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
        ...     "model_type": "llama", "head_dim": 128, "rope_theta": 10000.0, "max_position_embeddings": 32768,
        ...     "rope_scaling": {"type": "linear", "factor": 8.0}}))
        >>> for finding in inspect_model(folder).findings:
        ...     print(finding.severity, finding.message)  # doctest: +NORMALIZE_WHITESPACE
        warning transformers: declared for 32768 tokens. vLLM: serves 262144 by default, which it derives from the
        factor of the scaling 'linear'.
    """
    source = load_source(resolve_model(model, weights=False))
    engine, overridden = _engine(hf_overrides, llamacpp, source), list[Finding]()
    if llamacpp:
        source, overridden = _with_overrides(source, llamacpp)
    content, parsed, has_usual_sizes, found = source.content, None, False, list(overridden)
    answer: AskedClass | UnaskedClass | None = None
    code: ReadCode | None = None
    own: ParsedConfig | None = None
    asks = ask_class and source.kind == "huggingface" and not hf_overrides and not llamacpp
    try:
        if source.kind == "huggingface":
            check_layers(source.content)
            content = text_part(source.content)
            code = _code_of(source)
        check_sizes(source.kind, content)
        has_usual_sizes = True
        asks = asks and other_type_in_architectures(source.content) is None
        is_known = source.kind == "huggingface" and families.model_type(text_type(source.content)) is not None
        if is_known:  # what cannot be read is not built either
            parsed = _read(source, None, code)
        answer = class_of(source.content) if asks else None
        asked = answer if isinstance(answer, AskedClass) else None
        parsed = own = parsed or _read(source, asked, code)
        if asked is not None:
            is_measure = "auto_map" not in source.content and LAYOUT_MARK not in source.content
            parsed, said = as_the_class(asked, parsed, content, is_measure=is_measure)
            found += said
            # A class that was seen to compute the file needs nothing of what that leaves out.
            findings = tuple(each for each in parsed.findings if each.code != NEEDED)
            parsed = replace(parsed, findings=findings)
        parsed.explain()
    except UNREADABLE as error:
        parsed = None
        found.append(error_finding(error, source.path.name))
        found += other_wrong_values(
            error, source.content, lambda each: _read(replace(source, content=each), None, code), source.path.name
        )
        if source.kind == "huggingface" and has_usual_sizes and not isinstance(error, NoRotaryPositionsError):
            # What the error says of an entry is not said again.
            words = {word.strip("'.,:;") for each in found for word in each.message.split()}
            found += [each for each in doubts_about(content) if each.message.split(" ")[0].strip("'") not in words]
        if isinstance(error, NoRotaryPositionsError):
            found += refusals(source.content, source.types) if source.kind == "gguf" else ()
            found += flags_where_nothing_rotates(llamacpp) if llamacpp else ()
            answer = class_of(source.content) if asks and answer is None else answer
            found += without_reading(answer, source.content) if source.kind == "huggingface" else ()
            found += [] if hf_overrides or llamacpp else effects_of_entries(source, None, None, None, found)
    else:
        found += parsed.findings
        found += refusals(source.content, source.types) if source.kind == "gguf" else ()
        refused = answer.finding(source.content) if isinstance(answer, UnaskedClass) else None
        found += [] if refused is None else [refused]
        kind = asked.kind if asked is not None else None if code is None else code.kind
        # With options of an engine, the findings are those about what it runs.
        found += [] if hf_overrides or llamacpp else effects_of_entries(source, own, parsed, kind, found)
        found = without_notes_on_bases(found)
    asked = answer if isinstance(answer, AskedClass) else None
    found += _repeated(source)
    found += misplaced_names(source.content) if content is not source.content else ()
    model_type = _model_type(source, content)
    if hf_overrides and parsed is not None:
        parsed = read_vllm(hf_overrides, source.content)
        found = [*parsed.findings, *_repeated(source)]
    elif llamacpp and parsed is not None:
        run = read_llamacpp(llamacpp, parsed.configs, metadata=content, layers=parsed.layers)
        scalings = [[each.scaling for each in read.configs.values()] for read in (run, parsed)]
        kept = [each for each in parsed.findings if each.code != REACH or scalings[0] == scalings[1]]
        of_loader = [*refusals(source.content, source.types)] if source.kind == "gguf" else []
        found = [*run.findings, *overridden, *kept, *of_loader, *_repeated(source)]
        parsed = replace(parsed, configs=run.configs, layers=run.layers, findings=(*run.findings, *kept))
    elif source.kind == "huggingface" and has_usual_sizes:
        # What an engine makes of a model type that only its class explains is not known.
        is_known = families.model_type(text_type(source.content)) is not None
        is_explained = not is_known and not (asked is None and code is None)
        found += [] if is_explained else engine_differences(source.content, parsed)
        found += [] if parsed is None else stored_findings(source.path.parent, parsed.configs)
    elif source.kind == "gguf" and parsed is not None and model_type in CONVERTED_FROM_HALVES:
        found.append(
            Finding(
                "note",
                f"GGUF files of the architecture '{model_type}' hold queries and keys permuted from halves to "
                "neighbours, hence the layout.",
                "--as hf4, hf5 and ctranslate2 speak of the weights before that, in halves.",
            )
        )
    vision = None
    if source.kind == "huggingface" and has_usual_sizes:
        try:
            vision = read_vision(source.content)
        except UNREADABLE as error:
            found.append(replace(error_finding(error, source.path.name), severity="warning"))
    found += type_of_nobody(source.content) if source.kind == "huggingface" and answer is None and not engine else []
    found = [finding_in_words_of(source.kind, finding) for finding in found]
    order = ("error", "warning", "note")
    # Where nobody knows the model type, all else is read by entries that may be of other code.
    found = sorted(dict.fromkeys(found), key=lambda each: (each.code != UNKNOWN_TYPE, order.index(each.severity)))
    beside = beside_a_lacking_part(source.content) if source.kind == "huggingface" and has_usual_sizes else []
    stated = {name: value for name, value in content.items() if name not in beside}
    length = _declared_length(source.kind, model_type, stated)
    read_lengths = {each.max_length for each in own.configs.values()} if own is not None else set()
    if length not in read_lengths and len(read_lengths) == 1:  # a class may set another one, as Zamba 2's does
        length = next(iter(read_lengths)) or length
    against = None if asked is None else f"{asked.name} of transformers {asked.release}"
    return Inspection(
        source.path,
        source.kind,
        model_type,
        length,
        parsed,
        tuple(found),
        content,
        engine,
        text_part=text_part_names(source.content) if source.kind == "huggingface" and has_usual_sizes else (),
        checked_against=against,
        not_compared=str(answer) if isinstance(answer, UnaskedClass) else None,
        vision=vision,
    )


def _engine(hf_overrides: str | None, llamacpp: str | None, source: Source) -> str | None:
    if hf_overrides and llamacpp:
        raise UsageError("Options of vLLM and flags of llama.cpp are both given; a model is run by one of them.")
    if hf_overrides and source.kind == "gguf":
        raise UsageError(f"{source.path} is a GGUF file; the overrides of vLLM change a config.json.")
    return "vLLM" if hf_overrides else "llama.cpp" if llamacpp else None


def _with_overrides(source: Source, llamacpp: str) -> tuple[Source, list[Finding]]:
    """Return a file as llama.cpp reads it with ``--override-kv``, and what is doubtful about that."""
    if source.kind != "gguf":
        if parse_flags(llamacpp).overrides:
            raise UsageError(f"{source.path} is no GGUF file; --override-kv of llama.cpp changes the keys of one.")
        return source, []
    content, findings = overridden_metadata(llamacpp, source.content)
    # Of a key that an override replaces, llama.cpp does not look at the type in the file.
    types = {key: kind for key, kind in source.types.items() if content.get(key) is source.content.get(key)}
    return replace(source, content=content, types=types), findings


def _code_of(source: Source) -> ReadCode | None:
    """Return what the code beside the file says, or that of its project, for a model type that is not known here."""
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


def _read(source: Source, asked: AskedClass | None, code: ReadCode | None) -> ParsedConfig:
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


def _repeated(source: Source) -> Iterator[Finding]:
    for name in source.repeated:
        yield Finding(
            "warning",
            f"'{name}' stands twice in one group of {source.path.name}; readers of JSON take the last, and drop the "
            "others without a word.",
            "Keep one of them.",
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


def _model_type(source: Source, content: Mapping[str, Any]) -> str | None:
    names = ("general.architecture",) if source.kind == "gguf" else ("model_type",)
    found = next((part[name] for part in (content, source.content) for name in names if part.get(name)), None)
    return found if isinstance(found, str) else None


def _declared_length(kind: str, model_type: str | None, content: Mapping[str, Any]) -> int | None:
    names = (f"{model_type}.context_length",) if kind == "gguf" else ("max_position_embeddings", "n_positions")
    found = (content.get(name) for name in names)
    return next((int(length) for length in found if isinstance(length, int | float) and length % 1 == 0), None)


def _layer(config: RotaryConfig, kind: str) -> dict[str, Any]:
    assert config.rotary_dim is not None
    explanation = config.explain()
    return {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_share": config.rotary_dim / config.head_dim,
        "layout": config.layout,
        "base": config.base,
        "scaling": {"name": config.scaling.name, **config.scaling.as_options()},
        "trained_length": explanation.trained_length,
        "effective_length": explanation.effective_length,
        "attention_scale": explanation.attention_scale,
        "attention_temperature": _finite(explanation.attention_temperature),
        "bands": [
            {
                "first_pair": band[0].index,
                "last_pair": band[-1].index,
                "fate": band[0].fate,
                "wavelengths": [_finite(pair.wavelength) for pair in (band[0], band[-1])],
                "scaled_wavelengths": [_finite(pair.scaled_wavelength) for pair in (band[0], band[-1])],
            }
            for band in explanation.bands
        ],
        "frequencies": [pair.frequency_after for pair in explanation.pairs],
        "incomplete_pairs": list(explanation.incomplete_pairs),
        "notes": [in_words_of(kind, note) for note in explanation.notes],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
