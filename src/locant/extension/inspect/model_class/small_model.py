"""The smallest model of a class of transformers that rotates as a configuration says."""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from locant.extension.inspect.model_class.observe import ATTENTION
from locant.rotary_configs.spellings import is_count

if TYPE_CHECKING:
    from torch import nn

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads")
_KV_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "kv_n_heads", "multi_query_group_num")
_WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")
_COUNTS = (
    (r"vocab", 64),
    (r"^(num|n)_(local_|routed_|total_)?experts$|^moe_num_experts$", 4),
    (r"experts_per_tok|moe_k$|moe_topk|num_experts_per_token|top_k_experts", 2),
    (r"shared_experts$", 1),
    (r"^n_group$|^(mamba_)?n_?groups$|^mamba_n_groups$|^topk_group$|^num_expert_groups?$|^num_limited_groups$", 1),
    (r"(intermediate|ffn|mlp).*(size|dim)$|^ffn_dim$|^d_ff$|^n_inner$|expert.*(size|dim)$", 32),
    (r"(lora|low)_rank$|_lora_rank|lora_r$", 16),
    (r"^cross_num_(attention|key_value)_heads$", 2),
    (r"^hidden_size_per_layer_input$", 32),
    (r"^linear_(num_((key|value)_)?heads|((key|value)_)?head_dim)$", 8),  # of recurrences, which rotate nothing
    (r"^(mamba_)?chunk_size$", 8),  # of a text in a state space, which is filled up to it
)
_NEEDED = re.compile(
    r"^vocab_size$|^(num|n)_(local_|routed_|shared_)?experts$|experts_per_tok|top_k_experts|^(num_experts_)?top_?k$"
    r"|moe_intermediate_size|first_k_dense_replace"
)
_LINKED = re.compile(r"^(embedding_size|condition_dim|text_hidden_size|(adapter_)?out(put)?_(dim|hidden_size))$")
"""Entries that are the width of the model where they are as large, also within the configuration of a part."""

_DIVIDED = "projection_dim"
"""An entry that CLVP divides by its heads, for the features that it rotates; others compute them by the width."""

_LARGEST = 1 << 28
"""Most numbers that a small model may hold; a file that states absurd sizes is not built."""
_MOST = 1e3  # of a weight that a class has drawn
HEADS = (2, 4, 8, None)
"""Numbers of heads to try, in this order: some classes need several; ``None`` is the configuration's own."""


def reduced_entries(
    entries: Mapping[str, Any], layers: int | None = None, heads: int | None = 2, *, fills: bool = True
) -> dict[str, Any]:
    """Return the entries of a configuration with everything small that does not decide how heads are rotated.

    Args:
        entries: All entries of a configuration's class, as ``to_dict`` gives them.
        layers: How many layers to keep; all where it is ``None``.
        heads: How many heads to keep; all where it is ``None``.
        fills: Whether to fill in the size of heads, and the numbers of those of keys and of experts, where they are
            null, with which some classes fail.
    """
    small = dict(entries)
    # JetMoE counts its heads of keys alone, and those of queries by its experts.
    given = next((small[name] for name in (*_HEADS, *_KV_HEADS) if is_count(small.get(name))), None)
    width = next((small[name] for name in _WIDTHS if is_count(small.get(name))), None)
    stated = small.get("head_dim") if is_count(small.get("head_dim")) else None
    size = width // given if width and given else stated
    if fills and size and small.get("head_dim", size) is None:
        small["head_dim"] = size
    for name, value in entries.items():
        if isinstance(value, Mapping) and ("model_type" in value or name.endswith("_config")):
            small[name] = reduced_entries(value, layers, heads, fills=fills)
        elif name.endswith("_token_id") or name.endswith("_token_index"):
            small[name] = 0 if isinstance(value, int) else None
        elif is_count(value) or (fills and value is None and _NEEDED.search(name)):
            count = _most_of(name)
            small[name] = value if count is None else count if value is None else min(value, count)
        elif isinstance(value, list) and value and all(map(is_count, value)) and (count := _most_of(name)) is not None:
            small[name] = [min(each, count) for each in value]  # one for every layer
    kept = min(given or 0, heads or given or 0)
    if given and kept < given:
        for name in (*_HEADS, *_KV_HEADS):
            if is_count(small.get(name)):
                small[name] = kept if small[name] >= given else _heads_of_keys(kept, given, small[name])
            elif fills and name == "num_key_value_heads" and name in small:
                small[name] = kept
    if given and size and kept:
        # Where heads have a size of their own, the width only has to be a multiple of their number.
        is_free = stated and width and stated * given != width
        for name in _WIDTHS:
            if is_count(small.get(name)):
                small[name] = (min(size, 64) if is_free else size) * kept
        if is_count(small.get(_DIVIDED)):
            small[_DIVIDED] = max(1, small[_DIVIDED] * kept // given)
    _shrink_states(small)
    _link_widths(small, entries)
    _link_parts(small)
    if layers is not None:
        _shorten(small, layers)
    return small


def _heads_of_keys(kept: int, given: int, keys: int) -> int:
    """Return how many heads of keys a small model has beside so many heads of queries.

    One is enough for two of queries; more of them keep several where the file has several, which some classes want.
    """
    wanted = 1 if kept == 2 or keys == 1 else max(2, kept * keys // given)
    return next(count for count in range(wanted, 0, -1) if kept % count == 0)


def _most_of(name: str) -> int | None:
    """Return how many of something a small model has at most, ``None`` for what decides how heads are rotated."""
    return next((count for words, count in _COUNTS if re.search(words, name)), None)


def _link_widths(small: dict[str, Any], entries: Mapping[str, Any]) -> None:
    """Keep equal to the width of the model what was."""
    name = next((name for name in _WIDTHS if is_count(small.get(name))), None)
    if name is None or small[name] == entries[name]:
        return

    def linked(group: Mapping[str, Any]) -> dict[str, Any]:
        return {key: small[name] for key, value in group.items() if value == entries[name] and _LINKED.search(key)}

    small.update(linked(entries))
    for part, group in entries.items():
        if isinstance(group, Mapping) and (changed := linked(group)):
            small[part] = {**small[part], **changed}


def _link_parts(small: dict[str, Any]) -> None:
    """Let parts that name the width of another one have it as it is now: BLT's ``hidden_size_global``."""
    for part, group in [(part, group) for part, group in small.items() if isinstance(group, Mapping)]:
        for name in [name for name in group if str(name).startswith("hidden_size_")]:
            other = small.get(f"{name.removeprefix('hidden_size_')}_config")
            if isinstance(other, Mapping) and is_count(other.get("hidden_size")):
                small[part] = {**small[part], name: other["hidden_size"]}


def _shrink_states(small: dict[str, Any]) -> None:
    """Let the heads of a state space be as wide as its inner layer, as these classes want it."""
    width = next((small[name] for name in _WIDTHS if is_count(small.get(name))), None)
    for heads, size in (
        ("mamba_n_heads", "mamba_d_head"),
        ("n_mamba_heads", "mamba_headdim"),
        ("mamba_num_heads", "mamba_head_dim"),
    ):
        if width and is_count(small.get(heads)) and is_count(small.get(size)):
            inner = small.get("mamba_d_ssm") or width * (small.get("mamba_expand") or small.get("expand") or 1)
            small[heads] = min(small[heads], 4)
            small[size] = int(inner) // small[heads]


def _shorten(small: dict[str, Any], layers: int) -> None:
    """Keep the first layers: numbers of layers, and lists that have one entry for each."""
    counts = {small[name] for name in _LAYERS if is_count(small.get(name))}
    for name in _LAYERS:
        if is_count(small.get(name)):
            small[name] = min(small[name], layers)
    for name, value in small.items():
        if isinstance(value, list) and len(value) in counts and len(value) > layers:
            small[name] = value[:layers]
        if name == "num_kv_shared_layers" and counts and max(counts) > layers:
            small[name] = 0
        if name == "per_layer_config" and isinstance(value, Mapping):
            small[name] = {index: each for index, each in value.items() if int(index) < layers}


def entries_of(config: Any) -> dict[str, Any]:
    """Return the entries of a configuration from which its class makes all others."""
    fields = getattr(type(config), "__dataclass_fields__", {})
    entries = config.to_dict()
    entries.pop("model_type", None)
    return {
        name: value for name, value in entries.items() if not fields or name in fields or name == "per_layer_config"
    }


def model_class(config_class: type[Any]) -> type[nn.Module] | None:
    """Return the class of the bare model for a configuration's class of transformers, ``None`` where there is none."""
    from transformers import PreTrainedModel
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    named: type[nn.Module] | None = None
    with contextlib.suppress(KeyError, ValueError, ImportError, AttributeError):
        found = MODEL_MAPPING[config_class]
        named = found[0] if isinstance(found, tuple) else found
        assert named is not None
        if "For" not in named.__name__.removeprefix(config_class.__name__.removesuffix("Config")):
            return named  # otherwise one with heads, and with parts that are not about text
    name = config_class.__module__.replace(".configuration_", ".modeling_")
    try:
        module = importlib.import_module(name)
    except ImportError:
        return named
    fitting = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, PreTrainedModel)
        and each.__module__ == name
        and not each.__name__.endswith("PreTrainedModel")
        and _is_for(each, config_class)
    ]
    stem = config_class.__name__.removesuffix("Config")
    fitting.sort(key=lambda each: (each.__name__ != f"{stem}Model", "For" in each.__name__, len(each.__name__)))
    bare = next(iter(fitting), None)
    return named if bare is None or (named is not None and "For" in bare.__name__) else bare


def _is_for(model: type[Any], config_class: type[Any]) -> bool:
    stated = (getattr(model, "config_class", None), model.__annotations__.get("config"))
    return config_class in stated or config_class.__name__ in stated


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from printing."""
    from transformers.utils import logging as theirs

    before = theirs.get_verbosity()
    theirs.set_verbosity(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        theirs.set_verbosity(before)


def build(config: Any) -> nn.Module:
    """Return a model of a configuration with random weights, ready to be observed.

    Raises:
        MemoryError: The model would be too large, whatever was made small.
        Exception: Whatever the class raises for a configuration that it cannot compute.
    """
    found = model_class(type(config))
    if found is None:
        raise LookupError(f"transformers has no model class for {type(config).__name__}")
    return build_watched(config, lambda: _within_memory(found, config))


def build_watched(config: Any, make: Callable[[], nn.Module]) -> nn.Module:
    """Return the model that ``make`` makes, its attention the observed one where the class allows it.

    Args:
        config: What ``make`` reads; how it attends is written into it.
        make: Makes the model, its random numbers always the same.

    Raises:
        MemoryError: The model would be too large.
        Exception: Whatever ``make`` raises where the class attends in its own way too.
    """
    from locant.extension.inspect.model_class.observe import register

    register()
    config._experts_implementation = "eager"  # others have wishes about widths
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config._attn_implementation = ATTENTION
        try:
            return make()
        except MemoryError:
            raise
        except Exception:
            config._attn_implementation = "eager"  # classes with an attention of their own
            return make()


def _within_memory(found: type[Any], config: Any) -> nn.Module:
    if _numbers_of(found, config) > _LARGEST:
        raise MemoryError(f"{found.__name__} of this configuration is too large to be tried.")
    model: nn.Module = found(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some classes leave what memory happened to hold
            if parameter.is_floating_point() and not bool((parameter.abs() < _MOST).all()):
                parameter.normal_(std=0.02)
    return model


def _numbers_of(found: type[Any], config: Any) -> int:
    """Return how many numbers a model holds, without memory for them."""
    try:
        with torch.device("meta"):
            model = found(copy.deepcopy(config))
    except (NotImplementedError, RuntimeError):
        return 0  # a class that reads its own tables while it is built, which no meta tensor can answer
    tensors = [*model.parameters(), *model.buffers()]
    return sum(tensor.numel() for tensor in tensors)
