"""The class of the installed transformers, asked on weights without memory: kinds of models, and kinds of refusals."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import pytest
import torch

from locant.errors import ConfigError, LocantError
from locant.extension import AskedClass, ClassRefusesError, NoClassError, ask_class
from locant.extension.layouts.rows import ask_layout
from locant.positions import DynamicNTK, Linear, LongRoPE, YaRN
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.reading import NoRotaryPositionsError

transformers = pytest.importorskip("transformers")

_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}
_DEEPSEEK_V3 = {"model_type": "deepseek_v3", "max_position_embeddings": 163840, "rope_theta": 10000}
_DEEPSEEK_V3["rope_scaling"] = {
    "type": "yarn",
    "factor": 40,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
}


def _asked(content: dict[str, Any], **changes: Any) -> AskedClass:
    return ask_class({**content, **changes})


@pytest.mark.parametrize(
    ("scaling", "kind"),
    [
        ({"rope_type": "linear", "factor": 4.0}, Linear),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}, YaRN),
        ({"rope_type": "dynamic", "factor": 2.0}, DynamicNTK),
        (
            {
                "rope_type": "longrope",
                "factor": 4.0,
                "original_max_position_embeddings": 2048,
                "short_factor": [1.0] * 64,
                "long_factor": [1.0 + pair for pair in range(64)],
            },
            LongRoPE,
        ),
    ],
)
def test_a_scaling_has_its_name_and_makes_the_frequencies_of_the_class(
    scaling: dict[str, Any], kind: type[Any]
) -> None:
    """The truth is the class's own function of frequencies, for short texts and for long ones."""
    asked = _asked(_LLAMA, rope_scaling=scaling)
    config = asked.reading.config
    assert type(config.scaling) is kind
    function = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[scaling["rope_type"]]
    for length in (16, 8192 * 3):
        theirs, scale = function(asked.config, "cpu", seq_len=length)
        assert [float(each) for each in config.frequencies(length)] == pytest.approx(theirs.tolist(), rel=1e-5)
        assert config.attention_scale(length) == pytest.approx(scale)


def test_frequencies_that_no_scaling_makes_are_measured() -> None:
    asked = _asked(_LLAMA, rope_scaling={"rope_type": "linear", "factor": 0.5})
    config = asked.reading.config
    assert isinstance(config.scaling, Measured)
    plain = [500000.0 ** (-pair / 64) for pair in range(64)]
    assert [float(each) for each in config.frequencies()] == pytest.approx([2 * each for each in plain], rel=1e-5)


def test_several_axes() -> None:
    rope = {"type": "mrope", "mrope_section": [16, 24, 24]}
    reading = _asked({"model_type": "qwen2_vl", "num_hidden_layers": 2, "rope_scaling": rope}).reading
    (axes,) = reading.multimodal.values()
    assert tuple(axes["sections"]) == (16, 24, 24)
    assert list(axes["axis_of_pair"]) == [0] * 16 + [1] * 24 + [2] * 24
    assert not axes["interleaved"]


@pytest.mark.parametrize(
    ("changes", "stage", "named"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": "4"}}, "build", "'str'"),
        ({"rope_scaling": {"rope_type": "yarnn", "factor": 4.0}}, "build", "yarnn"),
        ({"num_attention_heads": 0}, "config", "division"),
    ],
)
def test_the_class_refuses_in_its_own_words(changes: dict[str, Any], stage: str, named: str) -> None:
    with pytest.raises(ClassRefusesError) as caught:
        _asked(_LLAMA, **changes)
    assert isinstance(caught.value, ConfigError)
    assert named in str(caught.value)
    assert stage == caught.value.stage


@pytest.mark.parametrize("content", [{}, {"model_type": "x" * 100_000}, {"model_type": 7}, {"auto_map": {}}])
def test_there_is_no_class(content: dict[str, Any]) -> None:
    with pytest.raises(NoClassError) as caught:
        ask_class(content)
    assert len(str(caught.value)) < 300


def test_code_beside_a_file_is_told_and_not_run() -> None:
    asked = _asked(_LLAMA, auto_map={"AutoModel": "modeling_evil.Evil"})
    assert asked.has_own_code
    assert asked.reading.config.base == 500000.0


@pytest.mark.parametrize("changes", [{"num_hidden_layers": 10**6}, {"head_dim": 10**9}, {"hidden_size": 10**9}])
def test_absurd_sizes_end_soon(changes: dict[str, int]) -> None:
    """With an answer or with a refusal, but without the memory that such a model would take."""
    try:
        asked = _asked(_LLAMA, **changes)
    except LocantError:
        return
    assert asked.seconds < 15


def test_transformers_is_left_as_it_was() -> None:
    """Its models attend as before, and log as before."""
    import logging

    logger = logging.getLogger("transformers")
    before = logger.level, list(logger.handlers), logger.propagate
    small = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    model = transformers.LlamaModel(transformers.LlamaConfig(**small, vocab_size=16)).eval()
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        first = model(tokens).last_hidden_state
        ask_class(_LLAMA)
        assert torch.equal(model(tokens).last_hidden_state, first)
    assert (logger.level, list(logger.handlers), logger.propagate) == before
    assert not math.isnan(float(first.sum()))


@pytest.mark.parametrize(
    ("content", "axes", "in_turn"),
    [
        ({"model_type": "qwen3_vl_text", "head_dim": 16}, (0, 1, 2, 0, 1, 2, 0, 0), True),
        ({"model_type": "ernie4_5_vl_moe_text", "head_dim": 16}, (1, 2, 1, 2, 1, 2, 0, 0), False),
    ],
)
def test_axes_that_take_turns(content: dict[str, Any], axes: tuple[int, ...], in_turn: bool) -> None:
    sections = [axes.count(axis) for axis in ((1, 2, 0) if axes[0] else (0, 1, 2))]
    base = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections}
    reading = _asked(content, num_hidden_layers=1, rope_parameters=base).reading
    (found,) = reading.multimodal.values()
    assert (found["axis_of_pair"], found["interleaved"]) == (axes, in_turn)


def test_a_class_that_cannot_be_watched_says_why() -> None:
    """The class rotates 64 features, of which its own table has 32: it fails at its first token."""
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "partial_rotary_factor": 0.5}
    with pytest.raises(NoClassError, match="computes no text"):
        _asked(_LLAMA, rope_scaling=rope)


def test_there_is_no_text() -> None:
    for model_type in ("clip_vision_model", "whisper"):
        with pytest.raises(NoRotaryPositionsError):
            ask_class({"model_type": model_type})


def test_there_is_no_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoClassError):
        ask_class(_LLAMA)


def test_rows_that_are_mixed_are_not_told() -> None:
    """A convolution makes rotated features of Zaya's keys of several rows."""
    with pytest.raises(LocantError):
        ask_layout({"model_type": "zaya", "num_hidden_layers": 2})
