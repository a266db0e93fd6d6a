"""Inspection of the rotary configuration of an existing model: its meaning, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from locant.errors import UsageError
from locant.extension.inspect.code_beside import ReadCode
from locant.extension.inspect.effects import effects_of_entries
from locant.extension.inspect.engine_differences import engine_differences
from locant.extension.inspect.left_out import without_notes_on_bases
from locant.extension.inspect.model_class.ask import AskedClass, as_the_class, without_reading
from locant.extension.inspect.model_class.ask import ask_class as class_of
from locant.extension.inspect.model_class.unasked import UnaskedClass
from locant.extension.inspect.reading import code_around, read_source, stated_length, stated_model_type
from locant.extension.inspect.result import Inspection
from locant.extension.inspect.stored_frequencies import stored_findings
from locant.extension.inspect.wrong_values import other_wrong_values
from locant.extension.source import Source, check_layers, check_sizes, load_source, resolve_model
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import UNREADABLE, NoRotaryPositionsError, ParsedConfig, error_finding
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.nulls import NEEDED
from locant.rotary_configs.classes.own_code import UNKNOWN_TYPE, type_of_nobody
from locant.rotary_configs.engines.vllm import read_vllm
from locant.rotary_configs.gguf.architectures import CONVERTED_FROM_HALVES
from locant.rotary_configs.gguf.llamacpp import read_llamacpp
from locant.rotary_configs.gguf.llamacpp_flags import flags_where_nothing_rotates, overridden_metadata, parse_flags
from locant.rotary_configs.gguf.loading import refusals
from locant.rotary_configs.huggingface.doubts import doubts_about
from locant.rotary_configs.huggingface.named_classes import other_type_in_architectures
from locant.rotary_configs.huggingface.pairing import LAYOUT_MARK
from locant.rotary_configs.huggingface.text_parts import beside_a_lacking_part, text_part, text_part_names, text_type
from locant.rotary_configs.reach import REACH
from locant.rotary_configs.rotary_names import misplaced_names
from locant.rotary_configs.vision import read_vision
from locant.rotary_configs.wording import finding_in_words_of


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
            code = code_around(source)
        check_sizes(source.kind, content)
        has_usual_sizes = True
        asks = asks and other_type_in_architectures(source.content) is None
        is_known = source.kind == "huggingface" and families.model_type(text_type(source.content)) is not None
        if is_known:  # what cannot be read is not built either
            parsed = read_source(source, None, code)
        answer = class_of(source.content) if asks else None
        asked = answer if isinstance(answer, AskedClass) else None
        parsed = own = parsed or read_source(source, asked, code)
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
            error, source.content, lambda each: read_source(replace(source, content=each), None, code), source.path.name
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
    model_type = stated_model_type(source, content)
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
    length = stated_length(source.kind, model_type, stated)
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


def _repeated(source: Source) -> Iterator[Finding]:
    for name in source.repeated:
        yield Finding(
            "warning",
            f"'{name}' stands twice in one group of {source.path.name}; readers of JSON take the last, and drop the "
            "others without a word.",
            "Keep one of them.",
        )
