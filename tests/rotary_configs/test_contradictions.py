"""Entries that contradict each other: what the class of transformers takes is read, and an error names both."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError, LocantError
from locant.extension import inspect_model, to_engine_config
from locant.extension.extend.methods import apply_method
from locant.positions import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, Llama3, YaRN
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.families import PASSES_OVER_GROUPS, is_in_transformers, known_model_types, model_type

_SIZES = {"hidden_size": 256, "num_attention_heads": 8, "max_position_embeddings": 8192}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LISTS = {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
_BY_LAYER = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}


def _llama(**entries: Any) -> dict[str, Any]:
    return {"model_type": "llama", **_SIZES, **entries}


@pytest.mark.parametrize(
    ("config", "read", "said"),
    [
        (_llama(rope_theta=1e4, rope_parameters={"rope_theta": 5e5}), (5e5, "none", None), "500000 .* but 10000"),
        (
            _llama(rope_theta=1e4, rope_scaling=_YARN | {"rope_theta": 5e5}),
            (5e5, "yarn", 2048),
            "rope_theta is 500000 in rope_scaling of config.json but 10000 next to it.* takes the first",
        ),
        (_llama(rope_scaling=_YARN | {"type": "linear"}), (1e4, "yarn", 2048), "'yarn' and type 'linear'"),
        (
            _llama(rope_scaling=_YARN, rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
            (1e4, "yarn", 2048),
            "rope_parameters .'default', rope_theta 500000.0. as well as rope_scaling .'yarn', factor 4.0.",
        ),
        (
            _llama(rope_scaling=_YARN, rope_parameters=_YARN | {"rope_theta": 5e5}),
            (1e4, "yarn", 2048),
            "takes rope_scaling, as is shown",
        ),
        (
            _llama(rope_scaling=_YARN, original_max_position_embeddings=4096),
            (1e4, "yarn", 4096),
            "4096 next to it.* takes the second, as is shown, .* converter takes the first",
        ),
        (
            _llama(model_type="olmo3", rope_scaling=_YARN, original_max_position_embeddings=4096),
            (5e5, "yarn", 2048),
            "takes the first, as is shown",
        ),
        (
            _llama(rope_scaling=_YARN | {"original_max_position_embeddings": 32768}),
            (1e4, "yarn", 32768),
            "the extended length stands where the original one belongs",
        ),
        (_llama(rope_scaling=_LLAMA3), (1e4, "llama3", 8192), r"missing in .*silently takes .* \(8192\).*'llama3'"),
        (
            _llama(rope_scaling=_LLAMA3 | {"low_freq_factor": 8.0, "original_max_position_embeddings": 2048}),
            (1e4, "llama3", 2048),
            "low_freq_factor 8 in rope_scaling of config.json is above high_freq_factor 4.* of less than 8 turns",
        ),
        (_llama(rope_scaling=_LISTS), (1e4, "longrope", 8192), "long factors count in texts beyond that length alone"),
        (
            _llama(rope_scaling={"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4096}),
            (1e4, "dynamic", 8192),
            "takes the original length from max_position_embeddings, which is 8192",
        ),
        (_llama(rope_scaling={"factor": 4.0}), (1e4, "none", None), "factor 4 but rope_type 'default'"),
        (
            _llama(model_type="gemma3_text", rope_theta=5e5, rope_scaling={"factor": 4.0, "rope_theta": 2e6}),
            (2e6, "none", None),
            "rope_theta is 2000000 in rope_scaling of config.json but 500000",
        ),
        (
            _llama(model_type="gemma3_text", rope_scaling=_YARN, rope_parameters=_BY_LAYER),
            (1e6, "yarn", 2048),
            "writes the entries of rope_scaling over those for 'full_attention'",
        ),
    ],
)
def test_what_the_class_takes_is_read(config: dict[str, Any], read: tuple[float, str, Any], said: str) -> None:
    parsed = read_huggingface(config)
    found = next(iter(parsed.configs.values()))
    assert (found.base, found.scaling.name, found.scaling.trained) == read
    errors = [each.message for each in parsed.findings if each.severity == "error"]
    assert any(re.search(said, message) for message in errors), errors
    with pytest.raises(ConfigError, match="Extend it then"):
        apply_method(config, "yarn", 1 << 20)


def test_a_factor_of_longrope_scales_scores_whatever_the_lengths_are() -> None:
    """_compute_longrope_parameters of modeling_rope_utils.py takes the attention scale from the factor, if stated."""
    without = {name: value for name, value in _LISTS.items() if name != "factor"}
    for group, scaled, ends in ((without | {"factor": 4.0}, True, "alone."), (without, False, "as the ratio is 1.")):
        parsed = read_huggingface(_llama(rope_scaling=group))
        (said,) = [each.message for each in parsed.findings if "silently takes" in each.message]
        assert said.endswith(ends)
        assert (parsed.config.attention_scale(100) > 1) is scaled


@pytest.mark.parametrize(
    "config",
    [
        _llama(rope_scaling=_YARN | {"type": "yarn"}),
        _llama(rope_theta=5e5, rope_scaling=_YARN, rope_parameters=_YARN | {"rope_theta": 5e5}),
        _llama(rope_scaling=_YARN, original_max_position_embeddings=2048),
        _llama(rope_theta=5e5, rope_parameters={"rope_theta": 5e5}),
    ],
)
def test_what_is_said_twice_alike_contradicts_nothing(config: dict[str, Any]) -> None:
    assert not [each for each in read_huggingface(config).findings if each.severity == "error"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (_llama(model_type="novel", rope_scaling=_YARN | {"type": "linear"}), "'yarn' and type 'linear'"),
        (_llama(model_type="novel", rope_theta=1e4, rope_parameters={"rope_theta": 5e5}), "500000.* but 10000"),
        (_llama(model_type="novel", rope_scaling=_YARN, rope_parameters={"factor": 1}), "and they differ"),
        (_llama(model_type="novel", rope_scaling=_LLAMA3), "missing in rope_scaling"),
        (_llama(rope_scaling={"rope_type": None, "factor": 2.0}), "rope_type null, which names no scaling"),
    ],
)
def test_what_no_known_class_computes_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_huggingface(config)


_HEADS = {"hidden_size": 2048, "num_attention_heads": 16, "head_dim": 128}


@pytest.mark.parametrize(
    ("config", "rotated", "severity", "said"),
    [
        (
            {"model_type": "minimax_m2", **_HEADS, "rotary_dim": 64, "partial_rotary_factor": 0.25},
            32,
            "error",
            "rotary_dim is 64, but partial_rotary_factor 0.25 of 128 features is 32.* takes the share",
        ),
        ({"model_type": "minimax_m2", **_HEADS, "rotary_dim": 64, "partial_rotary_factor": 0.5}, 64, "error", None),
        (
            {"model_type": "phi", **_HEADS, "rotary_dim": 32},
            64,
            "warning",
            "rotary_dim is 32 .* 'phi' in transformers passes over: it rotates 64",
        ),
        (
            {"model_type": "llama", **_HEADS, "rotary_dim": 32, "partial_rotary_factor": 0.5},
            128,
            "warning",
            "rotary_dim is 32 .* passes over: it rotates 128 features",
        ),
        (
            {"model_type": "llama", **_HEADS, "partial_rotary_factor": 0},
            128,
            "warning",
            "partial_rotary_factor is 0, which the class of 'llama' .* passes over",
        ),
    ],
)
def test_shares_that_contradict(config: dict[str, Any], rotated: int, severity: str, said: str | None) -> None:
    parsed = read_huggingface(config)
    assert parsed.config.rotary_dim == rotated
    found = [each.message for each in parsed.findings if each.severity == severity]
    assert any(re.search(said, message) for message in found) if said else not found


@pytest.mark.parametrize("entries", [{"rotary_pct": 0.0}, {"partial_rotary_factor": 0}])
def test_a_share_of_0_leaves_no_positions(entries: dict[str, Any]) -> None:
    """modeling_gpt_neox.py rotates the first ``int(head_size * share)`` features: none."""
    name = next(iter(entries))
    with pytest.raises(NoRotaryPositionsError, match=f"{name} is 0: no feature of a head is rotated"):
        read_huggingface({"model_type": "gpt_neox" if name == "rotary_pct" else "phi", **_HEADS, **entries})
    with pytest.raises(ConfigError, match="above 0 and at most 1; got 0"):
        read_huggingface({"model_type": "novel", **_HEADS, "partial_rotary_factor": 0})


@pytest.mark.parametrize(
    ("entries", "frequencies", "said"),
    [
        ({"rope_theta": True}, [1, 1, 1, 1], "rope_theta in config.json is true, which is no number"),
        (
            {"rope_parameters": {"rope_theta": True}},
            [1, 1, 1, 1],
            "rope_theta in rope_parameters of config.json is true",
        ),
        ({"rope_theta": 1}, [1, 1, 1, 1], "rope_theta is 1, with which all pairs turn by the same angle"),
        ({"rope_theta": 0.0625}, [1, 2, 4, 8], "rope_theta is 0.0625, with which later pairs turn faster"),
        ({"rope_theta": 1e300}, [1, 0, 0, 0], "rope_theta is 1e.300, which is beyond float32"),
        (
            {"rope_theta": 1e39, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
            [0.5, 0, 0, 0],
            "rope_theta is 1e.39, which is beyond float32",
        ),
    ],
)
def test_bases_that_cannot_be_meant(entries: dict[str, Any], frequencies: list[float], said: str) -> None:
    """modeling_llama.py: ``1.0 / base ** (arange(0, dim, 2) / dim)`` in float32."""
    sizes = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 4096}
    parsed = read_huggingface({**sizes, **entries})
    assert [float(each) for each in parsed.config.frequencies()] == pytest.approx(frequencies)
    severity = "warning" if "float32" in said else "error"
    found = [each.message for each in parsed.findings if each.severity == severity]
    assert any(re.search(said, message) for message in found), found
    with pytest.raises(ConfigError):
        read_huggingface({**sizes, **entries, "rope_theta": 0})


def _scaled(kind: str, base: float = 1e4, **entries: Any) -> dict[str, Any]:
    """Return a model of 8192 tokens with a scaling whose numbers no model is meant with."""
    own = {"llama3": _LLAMA3, "longrope": _LISTS, "yarn": _YARN, "linear": {}, "dynamic": {}}[kind]
    original = {} if kind in ("linear", "dynamic") else {"original_max_position_embeddings": 2048}
    return _llama(rope_theta=base, rope_scaling={**own, **original, "rope_type": kind, **entries})


_OUT_OF_RANGE = [
    (_scaled("linear", factor=0.5), "factor in .* is 0.5, which turns all pairs 2 times as fast"),
    (_scaled("linear", factor=-4.0), "factor in .* is -4, below 0, which turns all pairs backwards"),
    (_scaled("yarn", factor=0.5), "which turns slow pairs 2 times as fast"),
    (_scaled("yarn", factor=-2.0, mscale=1.0, mscale_all_dim=0.7), "which turns slow pairs backwards"),
    (_scaled("yarn", beta_fast=1, beta_slow=32), "beta_slow 32 in .* is above beta_fast 1: .* ramp backwards"),
    (_scaled("yarn", beta_fast=0.5, truncate=False), "beta_slow 1 in .* is above beta_fast 0.5"),
    (_scaled("yarn", attention_factor=-1.5), "attention_factor in .* is -1.5.* the sign changes none"),
    (_scaled("yarn", base=0.5), "rope_theta is 0.5, with which later pairs turn faster"),
    (_scaled("yarn", base=0.5, original_max_position_embeddings=100), "rope_theta is 0.5"),
    (_scaled("yarn", base=2.0), "All pairs make more than 32 turns .* interpolate all of them, as is shown"),
    (_scaled("llama3", factor=0.25), "which turns slow pairs 4 times as fast"),
    (_scaled("llama3", factor=-8.0), "which turns slow pairs backwards"),
    (_scaled("dynamic", factor=0.5), "below 1: the scaling 'dynamic' slows pairs 0.5 times as much"),
    (_scaled("dynamic", factor=0), "below 1: the scaling 'dynamic' scales nothing beyond the trained length"),
    (_scaled("longrope", factor=0.5), "factor in .* is 0.5, below 1, though .* takes the attention scale 1"),
    (_scaled("longrope", factor=-1), "factor in .* is -1, below 1"),
]


@pytest.mark.parametrize(("config", "said"), _OUT_OF_RANGE)
def test_numbers_out_of_range_are_computed_as_the_functions_of_transformers_do(
    config: dict[str, Any], said: str
) -> None:
    """``ROPE_INIT_FUNCTIONS``, which warn of such numbers and compute with them all the same."""
    torch = pytest.importorskip("torch")
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    kind = pytest.importorskip("transformers").LlamaConfig
    parsed = read_huggingface(copy.deepcopy(config))
    told = [each.severity for each in parsed.findings if re.search(said, each.message)]
    assert told in (["error"], ["warning"]), parsed.findings
    rope = {**config["rope_scaling"], "rope_theta": config["rope_theta"]}
    theirs = kind(**_SIZES, rope_parameters=rope)
    longer = rope["rope_type"] in ("dynamic", "longrope")
    for length in (None, 20_000) if longer else (None,):
        wanted, scale = functions[rope["rope_type"]](theirs, "cpu", length and torch.tensor(length))
        ours = [float(each) for each in parsed.config.frequencies(length)]
        assert ours == pytest.approx(wanted.tolist(), rel=1e-5, abs=1e-12)
        assert parsed.config.attention_scale(length) == pytest.approx(scale, rel=1e-6)
    assert parsed.config.explain().pairs
    if told == ["error"]:
        with pytest.raises(ConfigError, match="Extend it then"):
            apply_method(config, "linear", 1 << 20)


def test_pairs_that_turn_faster_or_backwards_are_shown_so() -> None:
    fates = [
        {pair.fate for pair in read_huggingface(_scaled(kind, factor=factor)).config.explain().pairs}
        for kind, factor in (("linear", 0.5), ("linear", -2.0), ("yarn", 0.5), ("llama3", -2.0))
    ]
    assert fates == [{"faster"}, {"backwards"}, {"kept", "faster"}, {"kept", "interpolated", "backwards"}]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (_scaled("linear", factor=0), "factor in .* is 0: transformers divides the frequencies of all pairs by it"),
        (_scaled("yarn", factor=0), "factor in .* is 0: transformers divides the frequencies of slow pairs"),
        (_scaled("llama3", factor=0.0), "factor in .* is 0: transformers divides the frequencies of slow pairs"),
        (_scaled("yarn", base=1), "The base is 1, and YaRN divides by its logarithm, which is 0"),
        (_scaled("yarn", attention_factor=0.0), "is 0, which multiplies cosine and sine: rotated features add nothing"),
        (_scaled("dynamic", factor=-1.0), "beyond 2 times that length no angle is a number"),
    ],
)
def test_numbers_of_which_no_angles_follow_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_huggingface(config)


@pytest.mark.parametrize("config", [config for config, _ in _OUT_OF_RANGE if config["rope_theta"] == 1e4])
def test_code_that_is_not_known_is_asked_for_numbers_within_their_range(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        read_huggingface({**config, "model_type": "novel"})


@pytest.mark.parametrize("kind", ["linear", "yarn", "llama3", "dynamic"])
@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "hf4", "hf5", "ctranslate2"])
def test_numbers_out_of_range_are_written_for_no_engine(kind: str, engine: str, tmp_path: Path) -> None:
    content = {**_scaled(kind, factor=0.5), "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(LocantError, match=r"is not written for the scaling|cannot express"):
        to_engine_config(inspect_model(tmp_path, ask_class=False), engine)


def test_scalings_of_ones_own_have_factors_from_1_on() -> None:
    for make in (
        lambda: Linear(factor=0.5),
        lambda: YaRN(factor=0.5, original_length=2048),
        lambda: YaRN(factor=2, original_length=2048, beta_slow=64),
        lambda: Llama3(factor=-1, original_length=2048),
        lambda: DynamicNTK(factor=0.5, original_length=2048),
    ):
        with pytest.raises(ConfigError):
            make()


@pytest.mark.parametrize("base", [1, 0.5, 0, True])
def test_a_configuration_of_ones_own_has_a_base_above_1(base: float) -> None:
    with pytest.raises(ConfigError, match="must be a number above 1"):
        RotaryConfig(head_dim=8, base=base)


def test_what_was_meant_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Unknown rope_type 'none' .* Did you mean 'default'\?"):
        read_huggingface(_llama(rope_scaling={"rope_type": "none"}))
    types = {"num_hidden_layers": 3, "layer_types": ["local_attention", "global_attn", "slidng_attention"]}
    said = [each.message for each in read_huggingface(_llama(model_type="cohere2", **types)).findings]
    for name, meant in zip(types["layer_types"], ("sliding", "full", "sliding"), strict=True):
        assert any(f"'{name}' in layer_types" in each and f"Did you mean '{meant}_attention'" in each for each in said)


_TWICE = (
    {"rope_theta": 20_000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 30_000.0}},
    {"rope_theta": 20_000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": 30_000.0}},
    {
        "rope_theta": 20_000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 30_000.0},
    },
    {"rope_theta": 20_000.0, "rope_scaling": {"rope_type": "dynamic", "type": "linear", "factor": 2.0}},
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("entries", _TWICE, ids=range(len(_TWICE)))
def test_every_class_takes_what_is_read(entries: dict[str, Any]) -> None:
    known = pytest.importorskip("transformers").CONFIG_MAPPING
    compared, wrong = 0, list[tuple[Any, ...]]()
    for name in known_model_types():
        kind = model_type(name)
        if name not in known or kind is None or not kind.rotates or kind.text_part or kind.reads_images:
            continue
        if not is_in_transformers(name) or kind.rope_by_layer or name in PASSES_OVER_GROUPS:
            continue
        try:
            theirs = known[name](**copy.deepcopy(entries)).rope_parameters
        except Exception:  # whatever a class raises for it
            continue
        try:
            parsed = read_huggingface({"model_type": name, **copy.deepcopy(entries)})
        except ConfigError as error:  # of other entries, which these small files leave out
            wrong += [(name, error)] if "eep one of them" in str(error) else []
            continue
        if any(finding.code == "odd share" for finding in parsed.findings):
            continue  # a base of the reading's own stands for that of an odd number of features
        found = parsed.configs
        if list(found) == ["all"] and theirs and "rope_theta" in theirs:
            scaling = found["all"].scaling
            read = found["all"].base, scaling.name, scaling.as_options().get("factor")
            scaled = "none" if theirs["rope_type"] == "default" else theirs["rope_type"]
            compared += 1
            wrong += [(name, read, theirs)] if read != (theirs["rope_theta"], scaled, theirs.get("factor")) else []
    assert not wrong, wrong
    assert compared > 100


def test_a_base_of_the_file_beside_another_group_is_what_dbrx_takes() -> None:
    """The class of transformers reads rope_theta, and none in attn_config (configuration_dbrx.py)."""
    file = {"model_type": "dbrx", "d_model": 256, "n_heads": 4, "n_layers": 2}
    file["attn_config"] = {"rope_theta": 5e5, "clip_qkv": 8}
    parsed = read_huggingface({**file, "rope_theta": 1e6})
    assert parsed.config.base == 1e6
    (said,) = [each.message for each in parsed.findings if "attn_config" in each.message]
    assert said.endswith("passes over it and takes 1000000, as is shown.")
    assert read_huggingface(file).config.base == 1e4
    (said,) = [each.message for each in read_huggingface(file).findings if "attn_config" in each.message]
    assert said.endswith("passes over it and takes 10000, as is shown.")
    assert not [each for each in read_huggingface(file).findings if "has no rope_theta" in each.message]


@pytest.mark.parametrize("entries", [{"rope_theta": None}, {"rope_theta": None, "rope_parameters": None}])
def test_null_for_a_base_takes_the_rotation_of_olmo_hybrid_away(entries: dict[str, Any]) -> None:
    """modeling_olmo_hybrid.py has no rotary_emb where rope_parameters have null for rope_theta."""
    types = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    file = {"model_type": "olmo_hybrid", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
    with pytest.raises(NoRotaryPositionsError, match=r"rope_theta is null in config\.json: the class of 'olmo_hybrid'"):
        read_huggingface({**file, "layer_types": types, **entries})
    assert read_huggingface({**file, "layer_types": types, "rope_parameters": None}).config.base == 10000


def _of_null(content: dict[str, Any]) -> list[Finding]:
    return [each for each in read_huggingface(content).findings if "switches no rotation off" in each.message]


def test_null_for_the_groups_switches_no_rotation_off() -> None:
    """``standardize_rope_params`` fills in what is null; only null for the base in a group counts in OLMo-Hybrid."""
    sizes = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
    hybrid = {"model_type": "olmo_hybrid", **sizes}
    (found,) = _of_null(hybrid | {"rope_parameters": None})
    assert found.severity == "warning"
    assert "rotates with the base 10000" in found.message
    assert "rope_theta null in rope_parameters" in found.remedy
    assert [each.severity for each in _of_null({"model_type": "llama", **sizes, "rope_parameters": None})] == ["note"]
    assert not _of_null(hybrid)
    assert not _of_null(hybrid | {"rope_parameters": None, "rope_theta": 5e5})
    assert not _of_null(hybrid | {"rope_parameters": None, "rope_scaling": {"rope_type": "linear", "factor": 2.0}})


def test_a_base_of_0_is_said_to_make_no_numbers() -> None:
    """1 / 0**(2i/d) is infinite for all pairs but the first, and the cosine of that NaN."""
    with pytest.raises(ConfigError, match=r"is 0\. The base .* frequencies infinite or NaN"):
        read_huggingface({"model_type": "nemotron", **_SIZES, "rope_theta": 0})


def test_numbers_of_layers_in_a_list_of_ones_are_told() -> None:
    with pytest.raises(ConfigError, match="is about 2 layers, but there are 8: it has a 1 for each layer that rotates"):
        read_huggingface({"model_type": "smollm3", **_SIZES, "num_hidden_layers": 8, "no_rope_layers": [3, 7]})
