"""Files that llama.cpp refuses to load: keys about positions that are missing, of another type or of a wrong length.

Source: ``load_hparams`` in ``llama-model.cpp``, ``load_arch_hparams`` of every architecture (``keys.json``),
``GKV::get_kv`` and ``get_key_or_arr`` in ``llama-model-loader.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling import SCALINGS
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.base import MOST_LAYERS
from locant.rotary_configs.gguf.architectures import NEEDS_SECTIONS
from locant.rotary_configs.gguf.head_refusals import refused_heads
from locant.rotary_configs.gguf.keys import YARN_KEYS
from locant.rotary_configs.gguf.layers import LINEAR_BETWEEN
from locant.rotary_configs.gguf.loader_facts import architectures_that_read, needed_by
from locant.rotary_configs.gguf.windows import PATTERN, WINDOW, WINDOWS, has_windows, sliding_layers, windows_of

_SWA_KEY = "attention.key_length_swa"
_NEEDED = ("block_count", "context_length", "embedding_length")
_TYPES = {
    **dict.fromkeys(_NEEDED, "uint32"),
    "attention.key_length": "uint32",
    "attention.value_length": "uint32",
    "attention.value_length_swa": "uint32",
    "nextn_predict_layers": "uint32",
    _SWA_KEY: "uint32",
    "rope.dimension_count": "uint32",
    "rope.dimension_count_swa": "uint32",
    "rope.scaling.original_context_length": "uint32",
    "rope.freq_base": "float32",
    "rope.scaling.factor": "float32",
    "rope.scaling.attn_factor": "float32",
    "rope.scaling.alpha": "float32",
    "rope.scaling.finetuned": "bool",
    "rope.scaling.type": "string",
    "attention.causal": "bool",
}
_TYPES_WHERE_READ = {
    "attention.max_alibi_bias": "float32",
    "attention.compress_rope_freq_base": "float32",
    "full_attention_interval": "uint32",
    "attention.key_length_mla": "uint32",
    "attention.value_length_mla": "uint32",
    "attention.key_length_mla_swa": "uint32",
    "attention.value_length_mla_swa": "uint32",
    **dict.fromkeys((f"rope.scaling.yarn_{name}" for name in YARN_KEYS), "float32"),
}
_TYPES_OF_LISTS = ("bool", "uint32", "int32")  # of numbers that are whole (get_arr)
# Cohere's layers before the experts slide otherwise than the others; the key itself is not about positions.
_NEEDED_BESIDES = {"cohere2moe": ("leading_dense_block_count",)}
_TOLD_BELOW = (PATTERN, "rope.dimension_sections")
_BY_LAYER = ("attention.head_count", "attention.head_count_kv")
_AXES = 4
_SCALINGS = tuple(scaling.gguf_type for scaling in SCALINGS.values() if scaling.gguf_type)
_MOST_LAYERS = 512  # LLAMA_MAX_LAYERS


def refusals(metadata: Mapping[str, Any], types: Mapping[str, str]) -> Iterator[Finding]:
    """Yield an error for every key for which llama.cpp refuses the file.

    Args:
        metadata: The file's keys and values.
        types: The types of the values, by key.
    """
    architecture = str(metadata.get("general.architecture"))
    windows = windows_of(architecture, metadata.get(f"{architecture}.block_count"))
    needed = dict.fromkeys((*_NEEDED, *_NEEDED_BESIDES.get(architecture, ()), *needed_by(architecture)))
    for name in needed:
        if name not in _TOLD_BELOW and f"{architecture}.{name}" not in metadata:
            yield _error(f"{architecture}.{name} is missing", "Convert the model again.")
    must_list = (
        windows is not None and windows.period is None and (windows.needed or metadata.get(f"{architecture}.{WINDOW}"))
    )
    if must_list and not str(types.get(f"{architecture}.{PATTERN}")).startswith("array"):
        yield _error(
            f"{architecture}.{PATTERN} does not list for every layer whether it has a window",
            "Convert the model again.",
        )
    count, beyond = (metadata.get(f"{architecture}.{name}") for name in ("block_count", "nextn_predict_layers"))
    if isinstance(count, int) and not 0 < count <= _MOST_LAYERS:
        how = f"above {_MOST_LAYERS}" if count else "no layer"
        yield _error(f"{architecture}.block_count {count} is {how}", "Convert the model again.")
    elif isinstance(count, int) and isinstance(beyond, int) and beyond >= count:
        yield _error(
            f"{architecture}.nextn_predict_layers is {beyond} of {count} layers, and none is left for the next token",
            "State how many of block_count's layers predict tokens beyond the next.",
        )
    kind = metadata.get(f"{architecture}.rope.scaling.type")
    if isinstance(kind, str) and kind not in _SCALINGS:
        yield _error(f"{architecture}.rope.scaling.type '{kind}' is unknown", f"Known: {', '.join(_SCALINGS)}.")
    yield from refused_heads(metadata, architecture)
    if architecture in NEEDS_SECTIONS and f"{architecture}.rope.dimension_sections" not in metadata:
        yield _error(
            f"{architecture}.rope.dimension_sections is missing, the numbers of pairs of each axis",
            "Convert the model again; config.json has them as mrope_section.",
        )
    if windows and windows.stays and metadata.get(f"{architecture}.{WINDOW}") == 0:
        yield Finding(
            "error",
            f"{architecture}.{WINDOW} is 0: the sliding layers of this architecture see nothing then.",
            "State the window in tokens.",
        )
    if windows and _slides_nowhere(metadata, architecture):
        yield Finding(
            "error",
            f"{architecture}.{PATTERN} gives no layer a window, although there is {architecture}.{WINDOW}: llama.cpp "
            "ends when it loads the file.",
            "State which layers have the window, or remove it.",
        )
    read = dict(_TYPES)
    if WINDOW in needed or windows or architecture in architectures_that_read(WINDOW) - {*WINDOWS}:
        read[WINDOW] = "uint32"
    if windows and architecture in architectures_that_read("rope.freq_base_swa"):
        read["rope.freq_base_swa"] = "float32"
    if windows and windows.period is not None and not str(types.get(f"{architecture}.{PATTERN}")).startswith("array"):
        read[PATTERN] = "uint32"
    read |= {name: kind for name, kind in _TYPES_WHERE_READ.items() if architecture in architectures_that_read(name)}
    if f"{architecture}.rope.scaling.factor" not in metadata:
        read["rope.scale_linear"] = "float32"
    for name, expected in read.items():
        key = f"{architecture}.{name}"
        if types.get(key, expected) != expected:
            yield _error(f"{key} is stored as {types[key]}, where {expected} is expected", f"Store it as {expected}.")
    sections = f"{architecture}.rope.dimension_sections"
    if architecture in architectures_that_read("rope.dimension_sections"):
        kind = types.get(sections, "int32")
        if kind != "int32" and not kind.startswith("array"):
            yield _error(f"{sections} is stored as {kind}, where a list of int32 is expected", "Store it as a list.")
    for name in _BY_LAYER:
        key = f"{architecture}.{name}"
        if types.get(key, "uint32") != "uint32" and not types[key].startswith("array"):
            yield _error(f"{key} is stored as {types[key]}, where uint32 is expected, or a list", "Store it as uint32.")
    lengths = dict.fromkeys(_BY_LAYER, metadata.get(f"{architecture}.block_count"))
    if architecture in architectures_that_read("rope.dimension_sections"):
        lengths["rope.dimension_sections"] = _AXES
    if architecture in LINEAR_BETWEEN:
        lengths["attention.recurrent_layers"] = metadata.get(f"{architecture}.block_count")
    if windows and has_windows(Fields(_own(metadata, architecture), ""), architecture):
        lengths[PATTERN] = None  # one that is shorter leaves the other layers without a window
    for name, length in lengths.items():
        kind = types.get(f"{architecture}.{name}", "")
        if kind.startswith("array of ") and kind.removeprefix("array of ") not in _TYPES_OF_LISTS:
            yield _error(f"{architecture}.{name} is an {kind}, where uint32 or int32 is expected", "Store it as int32.")
        values = metadata.get(f"{architecture}.{name}")
        if isinstance(values, Sequence) and not isinstance(values, str) and length not in (None, len(values)):
            what = "axes" if name == "rope.dimension_sections" else "layers"
            yield _error(
                f"{architecture}.{name} has {len(values)} values for {length} {what}", f"State {length} values."
            )


def _error(what: str, remedy: str) -> Finding:
    return Finding("error", f"{what}: llama.cpp refuses to load the file.", remedy, "refused by the engine")


def _own(metadata: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    prefix = f"{architecture}."
    return {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}


def _slides_nowhere(metadata: Mapping[str, Any], architecture: str) -> bool:
    """Return whether the file states a window that no layer has (``GGML_ASSERT(hparams.is_swa_any())``)."""
    own = _own(metadata, architecture)
    pattern, count = own.get(PATTERN), own.get("block_count")
    if not isinstance(count, int) or not 0 < count < MOST_LAYERS or not own.get(WINDOW) or pattern is None:
        return False
    if isinstance(pattern, int) and pattern != 1:
        return False
    keys = Fields(own, f"the GGUF metadata of '{architecture}'")
    return not any(sliding_layers(keys, architecture, count) or (True,))
