"""The reading of a class equals what a small model of it does, with weights, layer by layer."""

from __future__ import annotations

import inspect
import re

import pytest
import torch

from locant.errors import ConfigError, LocantError
from locant.extension.asked.ask import NoClassError, ask_class
from locant.extension.asked.build import build
from locant.extension.asked.watch import heard
from locant.positions.rotary.rotation import layout_order

transformers = pytest.importorskip("transformers")

from transformers import AttentionInterface  # noqa: E402
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: E402

_LENGTH = 19
_MIXES = "Mamba|Mixer|Conv|Delta|Lightning|Linear.*Attention|Recurrent"  # modules in which tokens meet elsewhere
_WINDOW = 5
_SMALL = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_attention_heads", "n_head"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok"), 2),
    **dict.fromkeys(("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 16),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "moe_intermediate_size", "hidden_size_per_layer_input"), 32),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 512),
    "intermediate_size": 96,
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 128),
    "pad_token_id": 0,
    "rotary_dim": 8,
    "sliding_window": _WINDOW,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "rope_theta": 5000.0}


def _content(name, scaling):
    fields = transformers.CONFIG_MAPPING[name].__dataclass_fields__
    content = {key: value for key, value in _SMALL.items() if key in fields}
    if scaling and "rope_parameters" in fields:
        content["rope_parameters"] = scaling
    return {"model_type": name} | content


def _run(name, content):
    """Return queries, keys and masks of a model with weights, and what its rotary modules multiply by.

    Its attention gives nothing, so that all tokens of a text of one token remain the same.
    """
    seen, amplitudes = [], set()

    def attention(module, query, key, value, mask=None, **_):
        seen.append((names[module], query[0].detach(), key[0, :, :_LENGTH].detach(), mask))
        return value.new_zeros(1, query.shape[2], query.shape[1], value.shape[-1]), None

    def made(module, args, output):
        if isinstance(output, tuple) and len(output) == 2:
            amplitudes.add(round(float((output[0] ** 2 + output[1] ** 2).sqrt().mean()), 4))

    AttentionInterface.register("locant_test", attention)
    AttentionMaskInterface.register("locant_test", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    built = build(content)  # which class, and of which configuration
    if sum(each.numel() for each in built.model.parameters()) > 50_000_000:
        raise ValueError("its sizes have other names")
    if any(re.search(_MIXES, type(each).__name__) for each in built.model.modules()):
        raise ValueError("other layers mix tokens")
    built.config._attn_implementation = "locant_test"
    torch.manual_seed(0)
    with torch.no_grad():
        model = type(built.model)(built.config).eval().float()
        names = {module: path for path, module in model.named_modules()}
        for module in model.modules():
            if "Rotary" in type(module).__name__:
                module.register_forward_hook(made)
        for weight in model.parameters():  # classes set some to 0
            if weight.ndim > 1:
                weight.normal_(std=0.3)
        accepted = inspect.signature(model.forward).parameters
        tokens = torch.full((1, _LENGTH), 7)
        given = {"input_ids": tokens, "decoder_input_ids": tokens, "use_cache": False}
        model(**{key: value for key, value in given.items() if key in accepted})
    return seen, amplitudes


def _unturned(vectors, config, first, layout, sign):
    """Return vectors [H, L, D] turned back by what was read."""
    block = vectors[..., first : first + config.rotary_dim].double()
    halves = block[..., layout_order(config.rotary_dim, source=layout, target="half")]
    pairs = torch.complex(*halves.chunk(2, -1))
    frequencies = torch.tensor([float(each) for each in config.frequencies(_LENGTH)], dtype=torch.float64)
    angles = torch.arange(vectors.shape[1], dtype=torch.float64)[:, None] * frequencies
    return pairs * torch.polar(torch.ones_like(angles), -sign * angles)


def _is_constant(vectors):
    return bool(((vectors - vectors[:, :1]).abs() <= 2e-4 * vectors.abs().amax().clamp_min(1e-9)).all())


def _turns_so(keys, config):
    """Whether keys are rotated as was read, by features at the head's begin or end."""
    ends = {0, keys.shape[-1] - config.rotary_dim}
    return not _is_constant(keys) and any(
        _is_constant(_unturned(keys, config, first, layout, sign))
        for first in ends
        for layout in ("half", "interleaved")
        for sign in (1, -1)  # NanoChat turns by minus the angle
    )


def _check(name, content):
    try:
        with heard():
            seen, amplitudes = _run(name, content)
    except (LocantError, RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        pytest.skip(f"no small model: {error!s:.80}")
    try:
        reading = ask_class(content).reading
    except NoClassError as error:
        pytest.skip(f"read by its entries: {error!s:.80}")
    if not reading.configs:  # keys may move by positions that are added to embeddings
        assert not amplitudes
        return
    windows = {index: kind.window for kind in reading.layers for index in kind.layers}
    checked = set()
    for path, _, keys, mask in seen:
        number = re.search(r"(?:^|\.)(\d+)(?=\.|$)", path)
        if number is None or "cross" in path:
            continue
        index = int(number[1])
        config = reading.of_layer(index)
        assert _is_constant(keys) if config is None else _turns_so(keys, config), path
        if isinstance(mask, torch.Tensor) and mask.shape[-1] == _LENGTH:
            hides = ~mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] < -1e4
            looks_back = max(at + 1 - int(sees.int().argmax()) for at, sees in enumerate(~hides))
            assert looks_back == min(windows[index] or _LENGTH, _LENGTH), path
        checked.add(index)
    if not checked:
        pytest.skip("attention of its own")
    assert checked == set(windows)
    scales = {round(config.attention_scale(_LENGTH), 4) for config in reading.configs.values()}
    if amplitudes and scales:
        assert all(min(abs(scale - each) for each in amplitudes) < 2e-4 for scale in scales)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("scaling", [None, _YARN], ids=["own", "yarn"])
@pytest.mark.parametrize("name", sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) & set(transformers.CONFIG_MAPPING)))
def test_a_class_does_what_was_read(name, scaling):
    _check(name, _content(name, scaling))


@pytest.mark.parametrize(
    "name", ["llama", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "cohere2", "deepseek_v3", "smollm3", "olmo3"]
)
def test_well_known_classes_do_what_was_read(name):
    with heard():
        seen, _ = _run(name, _content(name, None))
    assert seen  # none of these is skipped
    _check(name, _content(name, None))


def test_a_wrong_reading_would_be_noticed():
    content = _content("llama", None)
    with heard():
        seen, _ = _run("llama", content)
    config = ask_class(content).reading.config
    other = ask_class(content | {"rope_theta": 20000.0}).reading.config
    assert all(_turns_so(keys, config) and not _turns_so(keys, other) for _, _, keys, _ in seen)
    with pytest.raises(ConfigError):
        ask_class(content | {"rope_scaling": {"rope_type": "yarnn"}})
