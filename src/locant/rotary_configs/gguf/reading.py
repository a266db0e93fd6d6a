"""Reading rotary positions from GGUF files, as llama.cpp reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling import FrequencyScaling, Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.axes import several_axes
from locant.rotary_configs.base import NoRotaryPositionsError, ParsedConfig, declared_length
from locant.rotary_configs.gguf.architectures import (
    ALIBI_BY_FILE,
    ALIBI_OF_GRAPH,
    AXES_BY_SECTIONS,
    HALVES_FULL_ATTENTION,
    KNOWN,
    PAIRED_OTHERWISE,
    PASSES_OVER_SCALING,
    SEPARATE_PART,
    SEVERAL_AXES,
    graph_of,
    in_keys_of_the_file,
    layout_of,
)
from locant.rotary_configs.gguf.axes_of_texts import note_on_axes
from locant.rotary_configs.gguf.deviations import base_of_graph, windows_of_graph
from locant.rotary_configs.gguf.indexers import rotation_of_indexer
from locant.rotary_configs.gguf.keys import YARN_KEYS, base_of_earlier_graphs, keys_without_effect, without_unread
from locant.rotary_configs.gguf.layers import layers_of
from locant.rotary_configs.gguf.loader_facts import architectures_that_read
from locant.rotary_configs.gguf.scaling import Tensors, scaling_of
from locant.rotary_configs.gguf.sizes import sizes_of, sliding_sizes
from locant.rotary_configs.gguf.sliding import FULL, SLIDING, by_layer_types, passes_over_base, states_own_sizes
from locant.rotary_configs.gguf.windows import has_windows
from locant.rotary_configs.huggingface.doubts import with_checked_axes
from locant.rotary_configs.huggingface.layers import layers_without_positions
from locant.rotary_configs.reach import reach_of_scaling
from locant.rotary_configs.unusual_bases import config_class
from locant.rotary_configs.usual_values import refuse_impossible, unusual_values
from locant.rotary_configs.wording import speaks_of, words_of, words_of_findings

_SECTIONS = "rope.dimension_sections"
_AXES = 4
_OF_SLIDING_HEADS = ("attention.key_length_swa", "rope.dimension_count_swa")


@speaks_of("gguf", "The GGUF file")
def read_gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Sequence[float]] | None = None) -> ParsedConfig:
    """Read the rotary positions of a GGUF file.

    Args:
        metadata: The file's keys and values.
        tensors: Its tensors of factors: ``rope_freqs.weight`` (Llama 3's scaling and 'proportional'), or
            ``rope_factors_short.weight`` and ``rope_factors_long.weight`` (LongRoPE), where it has them.

    Returns:
        The configurations, with the layout that the file's projections have.

    Raises:
        ConfigError: The architecture, a type or a key is unknown, a value is missing or out of range, or llama.cpp
            would compute what no rotary configuration expresses.

    Example:
        >>> parsed = read_gguf({
        ...     "general.architecture": "llama", "llama.context_length": 16384, "llama.attention.key_length": 128,
        ...     "llama.rope.freq_base": 1e6, "llama.rope.scaling.type": "none"})
        >>> parsed.config.layout, parsed.config.base
        ('interleaved', 1000000.0)
    """
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ConfigError("The GGUF metadata has no general.architecture, which all other keys begin with.")
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    try:
        parsed = _read(metadata, architecture, own, tensors)
    except NoRotaryPositionsError as error:
        passed_over = keys_without_effect(own, architecture, words_of(str(error)), rotates=False)
        said = " ".join([str(error), *(each.message for each in passed_over)])
        raise NoRotaryPositionsError(said, error.remedy) from error
    told = (
        replace(each, message=in_keys_of_the_file(each.message), remedy=in_keys_of_the_file(each.remedy))
        for each in parsed.findings
    )
    return replace(parsed, findings=tuple(told))


def _read(
    metadata: Mapping[str, Any],
    architecture: str,
    own: dict[str, Any],
    tensors: Mapping[str, Sequence[float]] | None,
) -> ParsedConfig:
    """Return what the keys of an architecture say."""
    if architecture not in SEVERAL_AXES and own.get(_SECTIONS) in ([0] * 3, [0] * 4):
        del own[_SECTIONS]  # what llama.cpp has where the file says nothing
    if not has_windows(Fields(own, ""), architecture):
        own = {key: value for key, value in own.items() if key not in _OF_SLIDING_HEADS or value != 0}
    keys = Fields(own, f"the GGUF metadata of '{architecture}'")
    read = without_unread(own, architecture)
    refuse_impossible(read, keys.where, takes_small_bases=True)
    findings = [*unusual_values(read, keys.where), *_of_another_architecture(metadata, architecture)]
    if architecture in ALIBI_BY_FILE and not own.get("attention.max_alibi_bias"):
        raise NoRotaryPositionsError(
            f"llama.cpp does not rotate in the architecture '{architecture}': no rotary positions, and no ALiBi "
            f"either, because attention.max_alibi_bias is missing or 0 in {keys.where}: causal masks alone tell the "
            "order of a text.",
            "State attention.max_alibi_bias, which is 8 in published models, if the weights were trained with ALiBi.",
        )
    bias = _other_bias(keys, architecture)
    findings += [] if bias is None else [bias]
    graph = graph_of(architecture, own)
    sections = _sections(keys, architecture, findings)
    try:
        layout = layout_of(graph, several_axes=bool(sections))
    except NoRotaryPositionsError as error:
        if bias is None:
            raise
        raise NoRotaryPositionsError(f"{error} {bias.message}", bias.remedy) from error
    has_own = states_own_sizes(keys, graph)
    head_dim, rotary_dim = sizes_of(keys, graph, findings, has_own=has_own)
    if sum(sections) > head_dim:
        findings.append(
            Finding(
                "error",
                f"{_SECTIONS} {sections} are more pairs than a head has features, {head_dim}: llama.cpp ends when it "
                "rotates.",
                "Convert the model again; config.json has them as mrope_section.",
            )
        )
    base = base_of_graph(keys, graph, head_dim, findings)
    length = keys.whole("context_length")
    given = {name.removesuffix(".weight") + ".weight": tuple(values) for name, values in (tensors or {}).items()}
    if architecture in HALVES_FULL_ATTENTION:  # the tensors are as long as the attention with most pairs needs
        most = max(rotary_dim, sliding_sizes(keys, architecture)[1]) // 2
        given = {name: values[: rotary_dim // 2] if len(values) == most else values for name, values in given.items()}
    scaling = _in_graph(graph, scaling_of(keys, graph, given, rotary_dim, base, findings), findings)
    config = config_class(base)(
        head_dim=head_dim,
        base=base,
        rotary_dim=rotary_dim,
        layout=layout,
        scaling=scaling,
        max_length=declared_length(scaling, length, findings),
    )
    again = partial(_scaling_again, keys, graph, given)
    by_type = by_layer_types(keys, graph, config, again, findings)
    configs, layers = layers_of(keys, graph, by_type)
    if FULL in configs and SLIDING in by_type and SLIDING not in configs:
        findings += passes_over_base(keys, architecture, config.base)
    elif FULL in configs and SLIDING in configs:
        findings += base_of_earlier_graphs(keys, architecture, config.base, configs[SLIDING].base)
    if any(layer.window for layer in layers):
        findings += windows_of_graph(keys, architecture)
    if keys.text("rope.scaling.type") != "none":
        remedy = "Compare with the configuration that the file was made from."
        findings += reach_of_scaling(configs, layers, "of the file", remedy)
    findings += _notes_on_parts(keys, graph, rotary_dim)
    findings += rotation_of_indexer(keys, graph, configs, layout)
    findings += layers_without_positions(layers, "llama.cpp does not rotate queries and keys there")
    findings += _without_yarn(keys)
    findings += keys_without_effect(own, architecture, words_of_findings(findings))
    if not sections:
        return ParsedConfig(configs, tuple(findings), layers=layers)
    alternates = SEVERAL_AXES.get(architecture, False)
    several = several_axes(sections, "alternating" if alternates else "sections", rotary_dim // 2)
    stated = [int(size) for size in _four_sections(keys)]
    findings.append(note_on_axes(stated, rotary_dim // 2, alternates=alternates))
    parsed = ParsedConfig(configs, tuple(findings), dict.fromkeys(configs, several), layers)
    return with_checked_axes(parsed, _SECTIONS, splits=False)


def _without_yarn(keys: Fields) -> Iterator[Finding]:
    """Yield that keys of YaRN have no effect, which nothing has read because the scaling is another."""
    for name in keys.untaken():
        if name.removeprefix("rope.scaling.yarn_") in YARN_KEYS:
            value = keys.number(name)
            yield Finding(
                "warning",
                f"{name} {value:g} has no effect: the scaling of the file is not YaRN.",
                "Remove it, or state rope.scaling.type 'yarn' if that is meant.",
            )


def _in_graph(architecture: str, scaling: FrequencyScaling, findings: list[Finding]) -> FrequencyScaling:
    """Return the scaling of a file in the graph of its architecture, which has none in a few."""
    if architecture not in PASSES_OVER_SCALING or scaling == Unscaled():
        return scaling
    findings.append(
        Finding(
            "warning",
            f"llama.cpp passes over the scaling '{scaling.name}' in the architecture '{architecture}', whose graph has "
            "none.",
            "Compare with the model's publication.",
        )
    )
    return Unscaled()


def _scaling_again(keys: Fields, architecture: str, tensors: Tensors, rotary_dim: int, base: float) -> FrequencyScaling:
    """Return the scaling of layers with other features or another base, of which the findings are known."""
    return scaling_of(keys, architecture, tensors, rotary_dim, base, [])


def _other_bias(keys: Fields, architecture: str) -> Finding | None:
    """Return the finding about the largest bias of ALiBi, where the graph has another one or none."""
    name = "attention.max_alibi_bias"
    stated, taken = keys.number(name) or 0.0, ALIBI_OF_GRAPH.get(architecture, 0.0)
    if architecture in ALIBI_BY_FILE or stated in (0.0, taken):
        return None
    instead = f"the bias is {taken:g} there" if taken else "there is no ALiBi there"
    return Finding(
        "warning",
        f"llama.cpp passes over {name} {stated:g} in the architecture '{architecture}': {instead}.",
        "Compare with the model's publication: weights that were trained with that bias need a graph that reads it.",
    )


def _of_another_architecture(metadata: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that keys about the rotation begin with the name of another architecture."""
    for key, value in metadata.items():
        prefix, _, name = key.partition(".")
        if name.startswith("rope.") and prefix not in (architecture, "clip"):
            yield Finding(
                "warning",
                f"{key} is {in_json(value)}, but the architecture is '{architecture}': llama.cpp passes over the key.",
                f"State {architecture}.{name}, if it is meant.",
            )


def _sections(keys: Fields, architecture: str, findings: list[Finding]) -> list[int]:
    """Return the numbers of pairs of each axis, where positions have several."""
    of_any_kind = keys.get(_SECTIONS)
    if architecture not in architectures_that_read(_SECTIONS) and not _are_whole(of_any_kind):
        if of_any_kind is not None:
            findings.append(
                Finding(
                    "note",
                    f"{_SECTIONS} {in_json(of_any_kind):.40} has no effect: llama.cpp does not read it in "
                    f"the architecture '{architecture}'.",
                    "Remove it.",
                )
            )
        return []
    stated = _four_sections(keys)
    sections = [int(size) for size in stated if size]
    if sections and graph_of(architecture, keys.values) != architecture:
        findings.append(_sections_of_a_draft(sections))
        return []
    if architecture == "dflash" and len(sections) == 1:  # its graph asks for any section; one axis is that of text
        return []
    has_axes = architecture in SEVERAL_AXES or (
        architecture in AXES_BY_SECTIONS and len(stated) > 1 and all(stated[:2])  # llama_hparams::use_mrope
    )
    if not sections or has_axes or architecture not in KNOWN:
        return sections
    findings.append(
        Finding(
            "warning",
            f"llama.cpp passes over {_SECTIONS} {sections} in the architecture '{architecture}', whose "
            f"positions have one axis{' unless the first two are not 0' if architecture in AXES_BY_SECTIONS else ''}.",
            "Convert the model to an architecture whose positions have several axes, if it reads images.",
        )
    )
    return []


def _sections_of_a_draft(sections: Sequence[int]) -> Finding:
    return Finding(
        "error",
        f"{_SECTIONS} {list(sections)} beside hyper_connection.count: the graph of drafts of DeepSeek-V4 has one "
        "axis, and llama.cpp ends when it rotates.",
        "Remove the sections.",
    )


def _are_whole(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(each, int) and not isinstance(each, bool) for each in value)


def _four_sections(keys: Fields) -> tuple[float, ...]:
    """Return the sections as the loader takes them: one number stands for all four (``get_key_or_arr``)."""
    value = keys.get(_SECTIONS)
    return (value,) * _AXES if is_number(value) else keys.numbers(_SECTIONS) or ()


def _notes_on_parts(keys: Fields, architecture: str, rotary_dim: int) -> Iterator[Finding]:
    if architecture in PAIRED_OTHERWISE:
        yield Finding(
            "warning",
            f"llama.cpp pairs neighbours in the architecture '{architecture}', as is shown; the class of "
            f"'{architecture}' in transformers pairs halves, and the converter permutes no weights.",
            "Compare the scores of the two: one of them reads the weights otherwise than they were trained.",
        )
    if architecture not in SEPARATE_PART:
        return
    whole = keys.whole("attention.key_length_mla") or keys.whole("attention.key_length")
    if whole is not None and whole > rotary_dim:
        yield Finding(
            "note",
            f"Heads have {whole} features, of which the last {rotary_dim} are rotated, a part of their own that the "
            "configuration is about.",
            "Rotate that part alone.",
        )
