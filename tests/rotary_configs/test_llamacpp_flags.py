"""Which words of a command line of llama.cpp are flags about rotary positions, and what they do by its sources."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions import Linear, LongRoPE, Unscaled, YaRN
from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs import ParsedConfig, read_gguf, read_llamacpp
from locant.rotary_configs.gguf.llamacpp_flags import overridden_metadata

_MODEL = RotaryConfig(head_dim=32, max_length=2048)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-rope-scale 4", "Unknown flag '-rope-scale'.* Did you mean '--rope-scale'"),
        ("--Rope-Scale 4", "Unknown flag '--Rope-Scale'.* Did you mean '--rope-scale'"),
        ("\N{EM DASH}rope-scale 4", "Unknown flag '\N{EM DASH}rope-scale'.* Did you mean '--rope-scale'"),
        ("--rope\N{EN DASH}scale 4", "Did you mean '--rope-scale'"),
        ("\N{MINUS SIGN}c 4096", "Unknown flag '\N{MINUS SIGN}c'.* Did you mean '-c'"),
        ("-c=8192", "Unknown flag '-c=8192'.* Did you mean '-c'.* a word of its own, without '='"),
        ("--rope-scale=4", "Did you mean '--rope-scale'.* a word of its own"),
        ("--ctx 8192", "Unknown flag '--ctx'.* Did you mean '--ctx-size'"),
        ("--ropescale 4", "Did you mean '--rope-scale'"),
        ("llama-cli rope-scale 4", "Unknown flag 'rope-scale'"),
        ("LLAMA_ARG_ROPE_SCALES=4", "no variable 'LLAMA_ARG_ROPE_SCALES'.* Did you mean 'LLAMA_ARG_ROPE_SCALE'"),
        ("--rope-scale 0", "divide by 0"),
        ("--rope-freq-base -1", "must not be negative; got -1"),
        ("--rope-freq-base 1e50", "must be a number of 32 bits; got '1e50'"),
        ("--rope-scale k4", "must be a number; got 'k4'"),
        ("--rope-scaling yarn --rope-scale -4", "takes its logarithm, which is no number"),
        ("--rope-scaling longrope", "Unknown --rope-scaling 'longrope' of llama.cpp. Its factors are tensors"),
        ("--rope-scale '4", "a quote is not closed"),
        ("--rope-scale 4\\", "nothing follows the last backslash"),
    ],
)
def test_words_that_llamacpp_does_not_understand_are_refused(flags: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_llamacpp(flags, _MODEL)


@pytest.mark.parametrize(
    "flags",
    [
        "-m /models/yarn-rope.gguf -p 'what is --rope-scale?' --host europe.example",
        "-p '- rope and ctx' --ctx-checkpoints 8 -ctxcp 8 --fit-ctx 4096 --no-context-shift -C ff -ctk q8_0",
        "LLAMA_ARG_CTX_CHECKPOINTS=3 LLAMA_ARG_HOST=europe llama-server --alias rope-scale",
    ],
)
def test_words_about_other_things_are_passed_over(flags: str) -> None:
    parsed = read_llamacpp(flags, _MODEL)
    assert (parsed.config, parsed.findings) == (_MODEL, ())


def test_variables_of_the_environment_count_before_the_flags() -> None:
    environment = "LLAMA_ARG_ROPE_SCALING_TYPE=yarn LLAMA_ARG_ROPE_SCALE=4 LLAMA_ARG_YARN_ORIG_CTX=2048 llama-server"
    parsed = read_llamacpp(environment, _MODEL)
    assert (parsed.config.scaling, parsed.findings) == (YaRN(factor=4.0, original_length=2048), ())
    parsed = read_llamacpp(f"--rope-scale 8 {environment}", _MODEL)
    assert parsed.config.scaling.stretch == 8
    assert [each.message for each in parsed.findings] == [
        "--rope-scale is given twice, 4 and 8: llama.cpp takes the last one."
    ]


@pytest.mark.parametrize(
    ("flags", "factor"),
    [
        ("--rope-scale 4 --rope-freq-scale 0.5", 2),
        ("--rope-freq-scale 0.5 --rope-scale 4", 4),
        ("--rope-scale 8 --rope-freq-scale 0.5 --rope-scale 4", 4),
    ],
)
def test_of_two_flags_for_the_scale_the_last_counts(flags: str, factor: float) -> None:
    parsed = read_llamacpp(f"--rope-scaling linear {flags}", _MODEL)
    assert parsed.config.scaling == Linear(factor=factor, original_length=2048)
    assert "contradict each other: llama.cpp takes the last" in parsed.findings[-1].message


@pytest.mark.parametrize(
    ("flags", "scaling", "finding"),
    [
        # llama_context: YaRN is on where yarn_ext_factor is not 0; the type decides only where that is not given.
        ("--rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0", Linear(factor=4.0, original_length=2048), "linear"),
        (
            "--rope-scale 4 --yarn-ext-factor 1 --yarn-orig-ctx 2048",
            YaRN(factor=4.0, original_length=2048),
            "makes YaRN",
        ),
        ("--rope-freq-scale 0 --rope-scaling none", Unscaled(), ""),
        ("--rope-freq-scale 0", Unscaled(), ""),
    ],
)
def test_what_the_mix_of_yarn_makes(flags: str, scaling: Any, finding: str) -> None:
    parsed = read_llamacpp(flags, _MODEL)
    assert parsed.config.scaling == scaling
    assert finding in "".join(each.message for each in parsed.findings)


def test_the_original_length_of_the_file_is_not_missed() -> None:
    own = YaRN(factor=4.0, original_length=32768)
    parsed = read_llamacpp("--yarn-beta-fast 16", RotaryConfig(head_dim=64, base=1e6, max_length=131072, scaling=own))
    assert parsed.config.scaling == YaRN(factor=4.0, original_length=32768, beta_fast=16.0)
    assert parsed.findings == ()


def test_the_context_leaves_the_trained_length_as_it_is() -> None:
    for context in (1024, 16384):
        explained = read_llamacpp(f"-c {context}", _MODEL).config.explain()
        assert explained.trained_length == 2048


def test_the_context_chooses_the_list_of_longrope() -> None:
    # llama_model::get_rope_factors: the long one where the context exceeds the original length.
    scaling = LongRoPE(short_factors=[1.0] * 4, long_factors=[2.0] * 4, original_length=4096, factor=32)
    model = RotaryConfig(head_dim=8, max_length=131072, scaling=scaling)
    for flags, factor in (("-c 4096", 1), ("-c 4097", 2), ("-c 0", 2)):
        read = read_llamacpp(flags, model).config
        assert read.explain().pairs[0].frequency_after == pytest.approx(1 / factor)
        assert (read.attention_scale(), read.max_length) == (model.attention_scale(), 131072)
    beyond = read_llamacpp("-c 200000", model)
    assert beyond.config.max_length == 131072
    assert "The context is 200000 tokens, but the scaling 'longrope' extends the model to" in beyond.findings[0].message


def test_flags_hold_for_full_attention_where_sliding_layers_have_their_own_base() -> None:
    # llama_model::get_rope_freq_base and get_rope_freq_scale: rope_freq_base_train_swa, not that of the context.
    models = {
        "full_attention": RotaryConfig(head_dim=64, base=1e6, max_length=32768),
        "sliding_attention": RotaryConfig(head_dim=64, max_length=32768),
    }
    parsed = read_llamacpp("--rope-freq-base 500000 --rope-scaling linear --rope-scale 4", models)
    assert parsed.configs["full_attention"].base == 500000
    assert parsed.configs["full_attention"].scaling == Linear(factor=4.0, original_length=32768)
    assert parsed.configs["sliding_attention"] == models["sliding_attention"]
    assert parsed.findings[0].message == (
        "--rope-freq-base 500000, --rope-scaling linear and --rope-scale 4 hold for full_attention layers alone: "
        "sliding_attention layers keep the base 10000 without scaling."
    )
    assert read_llamacpp("-c 4096", models).findings == ()


@pytest.mark.parametrize(
    ("flags", "meant"), [("--rope-freq-scale 4", "--rope-freq-scale 0.25"), ("--rope-scale 0.25", "--rope-scale 4")]
)
def test_a_scale_that_spreads_positions_is_read_and_told_by_its_own_name(flags: str, meant: str) -> None:
    """rope_yarn: theta_interp = freq_scale * theta_extrap, whatever the scale is."""
    model = RotaryConfig(head_dim=64, max_length=4096)
    parsed = read_llamacpp(flags, model)
    assert [float(each) for each in parsed.config.frequencies(4096)] == pytest.approx(
        [4 * float(each) for each in model.frequencies(4096)]
    )
    told = parsed.findings[0]
    assert told.message.startswith(f"{flags} multiplies positions by 4")
    assert told.remedy.endswith(f"it is {meant}.")


def _file(architecture: str, **keys: Any) -> tuple[dict[str, Any], ParsedConfig]:
    usual = {"attention.key_length": 64, "context_length": 4096, "embedding_length": 512, "block_count": 8}
    stated = {f"{architecture}.{key}": value for key, value in {**usual, **keys}.items()}
    metadata = {"general.architecture": architecture} | stated
    return metadata, read_gguf(metadata)


def _run(flags: str, architecture: str, **keys: Any) -> ParsedConfig:
    metadata, parsed = _file(architecture, **keys)
    return read_llamacpp(flags, parsed.configs, metadata=metadata, layers=parsed.layers)


_NONE = {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}


@pytest.mark.parametrize(
    ("flags", "scaling"),
    [
        ("--rope-scale 2", Unscaled()),  # rope_freq_scale = 1 with the type none, which the file keeps
        ("--rope-scaling linear", Linear(factor=4.0, original_length=4096)),
        ("--rope-scaling yarn", YaRN(factor=4.0, original_length=4096)),
        ("--rope-scaling linear --rope-scale 2", Linear(factor=2.0, original_length=4096)),
    ],
)
def test_a_type_that_the_file_states_counts_where_flags_leave_it_out(flags: str, scaling: Any) -> None:
    assert _run(flags, "qwen2", **_NONE).config.scaling == scaling


def test_yarn_by_flags_takes_the_lengths_of_the_file() -> None:
    """n_ctx_orig_yarn: the key, or context_length."""
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    assert _run("--rope-scaling yarn", "qwen2", **linear).config.scaling == YaRN(factor=4.0, original_length=4096)
    stated = {"rope.scaling.original_context_length": 1024}
    found = _run("--rope-scaling yarn --rope-scale 2", "qwen2", **stated).config.scaling
    assert found == YaRN(factor=2.0, original_length=1024)


@pytest.mark.parametrize("flags", ["--rope-scaling linear", "--rope-scaling none", "--yarn-ext-factor 0"])
def test_the_attention_scale_of_the_file_stays_without_yarn(flags: str) -> None:
    """cparams.yarn_attn_factor *= hparams.rope_attn_factor."""
    yarn = YaRN(factor=4.0, original_length=1024, attention_factor=0.9)
    parsed = read_llamacpp(flags, RotaryConfig(head_dim=64, max_length=4096, scaling=yarn))
    relative = 0.9 / yarn.paper_attention_scale()
    assert parsed.config.attention_scale() == pytest.approx(relative)
    factor = 1 if "none" in flags else 4
    assert float(parsed.config.frequencies(4096)[-1]) == pytest.approx(1e4 ** (-62 / 64) / factor)
    assert any(f"attn_factor {relative:g} of the file stays without YaRN" in each.message for each in parsed.findings)


def test_flags_leave_sliding_layers_the_base_and_the_factor_of_the_file() -> None:
    """get_rope_freq_base and get_rope_freq_scale give layers with a window rope_freq_base_train_swa."""
    window = {"attention.sliding_window": 512}
    parsed = _run("--rope-freq-base 500000 --rope-scale 8", "gpt-oss", **window)
    full, sliding = parsed.configs["full_attention"], parsed.configs["sliding_attention"]
    assert (full.base, full.scaling.stretch) == (500000.0, 8.0)
    assert (sliding.base, sliding.scaling) == (10000.0, Unscaled())
    assert {kind.config for kind in parsed.layers} == {*parsed.configs}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    run = _run("--rope-scaling none", "gpt-oss", **window, **yarn)
    switched = run.configs
    assert any("in sliding_attention layers: llama.cpp divides their positions by 4" in f.message for f in run.findings)
    assert (switched["full_attention"].scaling, switched["sliding_attention"].scaling) == (
        Unscaled(),
        Linear(factor=4.0),
    )
    olmo = _run("--rope-freq-base 500000", "olmo2", **window, **yarn).configs  # freq_base for every layer
    assert {each.base for each in olmo.values()} == {500000.0}


def test_flags_scale_the_compressed_attention_of_deepseek_v4() -> None:
    """llama_model_deepseek4: freq_base without compression, freq_scale with it, and no attention scale."""
    keys = {
        "rope.dimension_count": 32,
        "attention.sliding_window": 128,
        "attention.compress_rope_freq_base": 160000.0,
        "attention.compress_ratios": [0, 4] * 4,
    }
    configs = _run("--rope-freq-base 500000 --rope-scaling yarn --rope-scale 4", "deepseek4", **keys).configs
    assert (configs["main"].base, configs["main"].scaling) == (500000.0, Unscaled())
    assert (configs["compress"].base, configs["compress"].scaling.stretch) == (160000.0, 4.0)
    assert configs["compress"].attention_scale() == 1.0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--rope-freq-base 500000", "rope.freq_base 1e+06 by --rope-freq-base 500000"),
        ("--rope-freq-base 1000000", ""),
        ("--rope-scaling linear", "rope.scaling.type 'yarn' by --rope-scaling linear"),
        ("--rope-freq-scale 0.5", "rope.scaling.factor 4 by --rope-freq-scale 0.5"),
        ("--rope-scale 4", ""),
        ("--rope-scaling none --rope-scale 8", "rope.scaling.type 'yarn' by --rope-scaling none"),
    ],
)
def test_keys_of_the_file_in_whose_place_flags_stand(flags: str, said: str) -> None:
    keys = {"rope.freq_base": 1e6, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}
    found = [
        each.message
        for each in _run(flags, "llama", **keys, **{"rope.scaling.original_context_length": 8192}).findings
        if each.message.startswith("Of the keys")
    ]
    assert found == ([f"Of the keys of the file, the flags replace {said}."] if said else [])


def test_overrides_of_keys_change_the_metadata() -> None:
    metadata = {"general.architecture": "llama", "llama.rope.freq_base": 10000.0, "llama.context_length": 4096}
    words = "--override-kv llama.rope.freq_base=float:500000,llama.context_length=int:8192 --override_kv a.b=bool:true"
    changed, findings = overridden_metadata(words, metadata)
    assert changed == {**metadata, "llama.rope.freq_base": 500000.0, "llama.context_length": 8192, "a.b": True}
    assert [each.message for each in findings] == [
        "Of the keys of the file, --override-kv replaces llama.rope.freq_base 10000.0 by 500000.0, "
        "llama.context_length 4096 by 8192."
    ]
    for present in (metadata, {"general.architecture": "llama"}):
        changed, findings = overridden_metadata("--override-kv llama.rope.freq_base=int:500000", present)
        assert changed == present
        assert "has no effect: llama.cpp reads float for 'llama.rope.freq_base'" in findings[0].message


@pytest.mark.parametrize("override", ["llama.rope.freq_base=500000", "a=flt:1", "a=float:x", "a=bool:2", "a=float:nan"])
def test_wrong_overrides_of_keys_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="--override-kv must"):
        overridden_metadata(["--override-kv", override], {})


def test_a_scaling_of_the_file_that_a_flag_switches_off_is_told() -> None:
    run = _run("--rope-scaling none", "command-r", **{"rope.scaling.type": "linear", "rope.scaling.factor": 4.0})
    (found,) = [each for each in run.findings if "switches off" in each.message]
    assert run.config.scaling == Unscaled()
    assert "--rope-scaling none switches off the scaling 'linear' of the file, by the factor 4" in found.message
    assert not _run("--rope-scaling none", "command-r").findings


@pytest.mark.parametrize(
    ("flags", "scaling", "said"),
    [
        ("--rope-scale 4x", Linear(factor=4.0, original_length=2048), "--rope-scale 4x: llama.cpp reads 4, and"),
        ("-c 1k --rope-scaling none", Unscaled(), "--ctx-size 1k: llama.cpp reads 1, and passes over the rest"),
        ("-c 1024.0 --rope-scaling none", Unscaled(), ""),
        ("--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 1e3", YaRN(factor=2, original_length=1), "reads 1, and"),
    ],
)
def test_numbers_are_read_as_far_as_they_go(flags: str, scaling: Any, said: str) -> None:
    """std::stof and std::stoi in common/arg.cpp take the longest beginning that is a number."""
    parsed = read_llamacpp(flags, _MODEL)
    assert parsed.config.scaling == scaling
    told = [each.message for each in parsed.findings if "passes over the rest" in each.message]
    assert (said in told[0]) if said else not told


@pytest.mark.parametrize("flags", ["--rope-scale -4", "--rope-freq-scale -0.25"])
def test_a_scale_below_0_turns_pairs_backwards(flags: str) -> None:
    parsed = read_llamacpp(flags, _MODEL)
    plain = [float(each) for each in _MODEL.frequencies()]
    assert [float(each) for each in parsed.config.frequencies()] == pytest.approx([-each / 4 for each in plain])
    assert f"{flags} turns all pairs backwards" in parsed.findings[0].message


def _with_flags(flags: str, architecture: str, keys: dict[str, Any]) -> ParsedConfig:
    sizes = {"embedding_length": 256, "attention.head_count": 2, "block_count": 4, "context_length": 256}
    own = {**sizes, **keys}
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": own[key] for key in own}
    parsed = read_gguf(metadata)
    return read_llamacpp(flags, parsed.configs, metadata=metadata, layers=parsed.layers)


@pytest.mark.parametrize(
    ("keys", "corners"),
    [
        ({}, (8.0, 1.0)),  # load_hparams: yarn_beta_fast = 8.0f
        ({"rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.yarn_beta_slow": 2.0}, (16.0, 2.0)),
    ],
)
def test_yarn_by_flags_has_the_corners_of_the_file(keys: dict[str, Any], corners: tuple[float, float]) -> None:
    """llama_context: yarn_beta_fast of the context is that of the file where the flag is below 0; b11739 was run."""
    scaling = _with_flags("--rope-scaling yarn --rope-scale 4", "grok", keys).config.scaling
    assert isinstance(scaling, YaRN)
    assert (scaling.beta_fast, scaling.beta_slow) == corners
    other = _with_flags("--rope-scaling yarn --rope-scale 4 --yarn-beta-fast 24", "grok", keys).config.scaling
    assert isinstance(other, YaRN)
    assert other.beta_fast == 24


@pytest.mark.parametrize(
    ("architecture", "keys", "flags", "scale", "first"),
    [
        ("llama", {"rope.scaling.attn_factor": 0.8}, "--rope-scale 2", 0.8, 0.5),
        ("llama", {"rope.scaling.attn_factor": 0.8}, "--rope-scaling yarn --rope-scale 4", 0.8 * 1.1386294361, 1.0),
        (
            "llama",
            {"rope.scaling.attn_factor": 0.8, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            "--rope-scaling none",
            0.8,
            1.0,
        ),
        ("grok", {"rope.scaling.yarn_attn_factor": 1.2}, "--rope-scale 2", 1.2, 0.5),
        ("grok", {"rope.scaling.yarn_attn_factor": 1.2}, "--rope-scale 2 --yarn-attn-factor 0.7", 0.7, 0.5),
        ("grok", {"rope.scaling.yarn_attn_factor": 1.2}, "--rope-scaling yarn --rope-scale 4", 1.1386294361, 1.0),
        ("grok", {"rope.scaling.yarn_ext_factor": 1.0}, "--rope-scaling linear --rope-scale 4", 1.1386294361, 1.0),
        ("grok", {"rope.scaling.yarn_attn_factor": 1.2}, "--rope-scaling none --yarn-ext-factor 1", 1.0, 1.0),
    ],
)
def test_what_a_file_multiplies_cosines_by_stays_under_flags(
    architecture: str, keys: dict[str, Any], flags: str, scale: float, first: float
) -> None:
    """llama_context: rope_attn_factor multiplies whatever the type is, and yarn_attn_factor without YaRN."""
    config = _with_flags(flags, architecture, keys).config
    assert config.attention_scale(256) == pytest.approx(scale)
    assert float(config.frequencies(256)[0]) == pytest.approx(first)


def test_layers_that_keep_the_factor_beside_none_keep_the_attention_scale() -> None:
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 0.8}
    window = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [1, 0, 1, 0]}
    run = _with_flags("--rope-scaling none", "gpt-oss", {**keys, **window, "rope.scaling.original_context_length": 64})
    assert {name: each.attention_scale(256) for name, each in run.configs.items()} == pytest.approx(
        {"full_attention": 0.8, "sliding_attention": 0.8}
    )
    assert float(run.configs["sliding_attention"].frequencies(256)[0]) == 0.25
    assert any("--rope-scaling none does not reach the factor of the file" in each.message for each in run.findings)


@pytest.mark.parametrize(
    "flags",
    [
        *("--rope-scaling none", "--rope-scaling linear --rope-scale 8", "--rope-scale 4 --yarn-ext-factor 0.5"),
        "--rope-scaling linear --rope-scale 4 --yarn-attn-factor 0.7",
    ],
)
def test_deepseek_v4_has_no_attention_scale_under_flags_either(flags: str) -> None:
    keys: dict[str, Any] = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.dimension_count": 64}
    keys |= {"attention.compress_ratios": [0, 0, 4, 128], "attention.compress_rope_freq_base": 16e4}
    run = _with_flags(flags, "deepseek4", {**keys, "rope.scaling.original_context_length": 64})
    assert {each.attention_scale(256) for each in run.configs.values()} == {1.0}


def test_a_length_before_the_extension_by_flag_is_told_where_the_file_has_another() -> None:
    """llama-context.cpp: cparams.n_ctx_orig_yarn is the flag, the key, or n_ctx_train, whichever is there first."""
    model, flags = RotaryConfig(head_dim=128, max_length=16384), "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx"
    other = read_llamacpp(f"{flags} 32768", model)
    assert [each.message for each in other.findings if each.severity == "note"] == [
        "--yarn-orig-ctx 32768 stands in the place of context_length 16384 of the file: YaRN takes it for the length "
        "before the extension."
    ]
    assert not [each for each in read_llamacpp(f"{flags} 16384", model).findings if "--yarn-orig-ctx" in each.message]
