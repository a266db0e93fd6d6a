"""What graphs of llama.cpp have in the place of a key or a flag, and which finding says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.extension import Inspection, inspect_model
from locant.extension.inspect import inspection
from locant.extension.source import Source
from locant.positions import Linear, Unscaled
from locant.rotary_configs import ParsedConfig, read_gguf, read_llamacpp

_SIZES = {"embedding_length": 256, "attention.head_count": 2, "block_count": 4, "context_length": 2048}
_WINDOW: dict[str, Any] = {"attention.sliding_window": 512, "attention.sliding_window_pattern": [1, 0, 1, 0]}


def _metadata(architecture: str, keys: dict[str, Any]) -> dict[str, Any]:
    own = {**_SIZES, **keys}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": own[key] for key in own}


def _read(architecture: str, **keys: Any) -> ParsedConfig:
    return read_gguf(_metadata(architecture, {name.replace("__", "."): keys[name] for name in keys}))


def _run(flags: str, architecture: str, **keys: Any) -> ParsedConfig:
    metadata = _metadata(architecture, keys)
    parsed = read_gguf(metadata)
    return read_llamacpp(flags, parsed.configs, metadata=metadata, layers=parsed.layers)


def _inspect(monkeypatch: pytest.MonkeyPatch, metadata: dict[str, Any], flags: str | None = None) -> Inspection:
    source = Source(Path("model.gguf"), "gguf", metadata)
    monkeypatch.setattr(inspection, "resolve_model", lambda *_, **__: source.path)
    monkeypatch.setattr(inspection, "load_source", lambda _: source)
    return inspect_model("model.gguf", llamacpp=flags)


def test_half_of_the_stated_features_of_step_35_is_told() -> None:
    """step35.cpp: hparams.n_rot_full = hparams.n_rot_full / 2."""
    window = {"attention__sliding_window": 512, "attention__sliding_window_pattern": [1, 0, 1, 0]}
    parsed = _read("step35", **window, rope__dimension_count=64)
    assert {name: each.rotary_dim for name, each in parsed.configs.items()} == {
        "full_attention": 32,
        "sliding_attention": 64,
    }
    assert [each.message for each in parsed.findings] == [
        "rope.dimension_count 64: in the architecture 'step35' llama.cpp rotates 32 features in layers of full "
        "attention, half of them, and 64 in those with a window."
    ]
    (left_out,) = _read("step35", **window).findings
    assert left_out.message.startswith("rope.dimension_count is missing: in the architecture 'step35' llama.cpp")
    assert "rotates 64 features in layers of full attention, half of those of a head, and 128 in" in left_out.message


@pytest.mark.parametrize(("architecture", "window"), [("llama4", 8192), ("smallthinker", 4096)])
def test_a_window_of_the_graph_is_told_where_the_file_has_another(architecture: str, window: int) -> None:
    (found,) = [each for each in _read(architecture, attention__sliding_window=16).findings if "window" in each.message]
    assert found.severity == "warning"
    assert found.message == (
        f"llama.cpp passes over attention.sliding_window 16 in the architecture '{architecture}': the window is "
        f"{window} with any number above 0."
    )
    same = _read(architecture, attention__sliding_window=window)
    assert not any("window" in each.message for each in same.findings)


@pytest.mark.parametrize("architecture", ["modern-bert", "gemma-embedding"])
def test_that_a_window_counts_both_sides_is_told(architecture: str) -> None:
    """LLAMA_SWA_TYPE_SYMMETRIC in llama-hparams.h: half of it on each side."""
    parsed = _read(architecture, attention__sliding_window=16)
    assert {each.window for each in parsed.layers if each.window} == {9}
    assert any("attention.sliding_window 16 counts both sides" in each.message for each in parsed.findings)


def test_a_base_that_earlier_graphs_pass_over_is_told() -> None:
    """mellum.cpp of llama-cpp-python 0.3.36 gives ggml_rope_ext freq_base in sliding layers, build b11739 their own."""
    bases: dict[str, Any] = {"rope.freq_base": 500000.0, "rope.freq_base_swa": 10000.0}
    parsed = read_gguf(_metadata("mellum", {**_WINDOW, **bases}))
    assert {name: each.base for name, each in parsed.configs.items()} == {
        "full_attention": 500000.0,
        "sliding_attention": 10000.0,
    }
    (found,) = parsed.findings
    assert found.severity == "warning"
    assert "rope.freq_base_swa 10000 is read and not used in earlier builds of llama.cpp" in found.message
    assert "turns layers with a window with rope.freq_base 500000" in found.message
    for architecture, other in (("mellum", {"rope.freq_base": 10000.0}), ("gemma3", {}), ("olmo2", {})):
        findings = read_gguf(_metadata(architecture, {**_WINDOW, **bases, **other})).findings
        assert not any("earlier builds" in each.message for each in findings)


def test_the_base_that_alpha_makes_is_told() -> None:
    parsed = _read("hunyuan-dense", rope__scaling__alpha=1000.0)
    assert parsed.config.base == pytest.approx(1e4 * 1000 ** (128 / 126))
    assert "rope.scaling.alpha 1000 makes the base 11158839.93 of rope.freq_base 10000" in parsed.findings[0].message


def test_a_base_by_flag_is_not_raised_by_alpha() -> None:
    """llama_context: cparams.rope_freq_base is that of the flag, and rope_freq_base_train the raised one."""
    run = _run("--rope-freq-base 500000", "hunyuan-dense", **{"rope.scaling.alpha": 1000.0})
    assert run.config.base == 500000
    assert "--rope-freq-base 500000 is the base itself: llama.cpp raises" in run.findings[0].message
    assert not _run("--rope-freq-base 500000", "qwen2", **{"rope.scaling.alpha": 1000.0}).findings


def test_the_graph_of_deepseek_ocr_has_one_base_and_whole_heads() -> None:
    """deepseek2.cpp: GGML_ASSERT(fabs(freq_base - 10000.0) < 1e-4), and n_embed_head for n_dims."""
    said = "is not 10000, the only base with which the graph of 'deepseek2-ocr' in llama.cpp does not end the program"
    with pytest.raises(ConfigError, match=rf"rope.freq_base 50000 in .* {said}"):
        _read("deepseek2-ocr", rope__freq_base=5e4)
    with pytest.raises(ConfigError, match=f"--rope-freq-base 50000 {said}"):
        _run("--rope-freq-base 50000", "deepseek2-ocr")
    assert _run("--rope-freq-base 10000", "deepseek2-ocr").findings == ()
    parsed = _read("deepseek2-ocr", rope__dimension_count=64)
    assert parsed.config.rotary_dim == 128
    assert "passes over rope.dimension_count 64 in the architecture 'deepseek2-ocr'" in parsed.findings[0].message


@pytest.mark.parametrize("architecture", ["muse-glimmer", "maple"])
def test_flags_that_reach_no_layer_that_rotates_have_no_effect(architecture: str) -> None:
    """get_rope_freq_base: sliding layers keep that of the file, and the others are not rotated."""
    run = _run("--rope-freq-base 500000 --rope-scale 4", architecture, **_WINDOW)
    assert (run.config.base, run.config.scaling) == (10000.0, Unscaled())
    assert [each.message for each in run.findings if "no effect" in each.message] == [
        "--rope-freq-base 500000 and --rope-scale 4 have no effect: sliding_attention layers keep the base 10000 "
        "without scaling, and the others do not rotate."
    ]
    assert not any(
        "no effect" in each.message for each in _run("--rope-freq-base 1e4", architecture, **_WINDOW).findings
    )


def test_flags_do_not_reach_graphs_with_a_base_of_their_own_or_without_scaling() -> None:
    run = _run("--rope-freq-base 500000 --rope-scaling linear --rope-scale 4", "cogvlm")
    assert (run.config.base, run.config.scaling) == (10000.0, Unscaled())
    assert [each.message for each in run.findings] == [
        "--rope-freq-base 500000, --rope-scaling linear and --rope-scale 4 have no effect: all layers keep the base "
        "10000 without scaling."
    ]
    run = _run("--rope-scaling linear --rope-scale 4", "deepseek2-ocr")
    assert run.config.scaling == Unscaled()
    assert "have no effect: all layers stay without scaling" in run.findings[0].message


def test_which_layers_a_flag_holds_for_is_told_of_each() -> None:
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    run = _run("--rope-freq-base 500000 --rope-scaling none", "gemma2", **_WINDOW, **linear)
    assert run.configs["sliding_attention"].scaling == Linear(factor=4.0)
    said = [each.message for each in run.findings]
    assert (
        "--rope-freq-base 500000 holds for full_attention layers alone: sliding_attention layers keep the base 10000."
        in said
    )
    run = _run("--rope-scale 8", "gemma2", **_WINDOW, **linear)
    kept = "--rope-scale 8 holds for full_attention layers alone: sliding_attention layers keep the scaling 'linear' of"
    assert any(kept in each.message for each in run.findings)
    run = _run("--rope-freq-base 500000 --rope-scale 8", "olmo2", **_WINDOW)
    assert {each.base for each in run.configs.values()} == {500000.0}
    assert any("--rope-scale 8 holds for full_attention layers alone" in each.message for each in run.findings)


def test_flags_without_effect_on_any_layer_are_told_once() -> None:
    for flags, said in {
        "--yarn-orig-ctx 4096": ["--yarn-orig-ctx without YaRN has no effect."],
        "--rope-scaling none": [],
    }.items():
        assert [each.message for each in _run(flags, "gemma3", **_WINDOW).findings] == said
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    found = [each.message for each in _run("--rope-scaling none", "gemma3", **_WINDOW, **linear).findings]
    assert sum("switches off the scaling 'linear'" in each for each in found) == 1
    both = [each.message for each in _run("--rope-scale 4 --yarn-orig-ctx 4096", "gemma3", **_WINDOW).findings]
    assert (
        "--rope-scale 4 holds for full_attention layers alone: sliding_attention layers stay without scaling." in both
    )
    muse = _run("--yarn-orig-ctx 4096", "muse-glimmer", **_WINDOW).findings[0].message
    assert muse.startswith("--yarn-orig-ctx 4096 has no effect: sliding_attention layers stay without scaling, and the")
    magnified = _run("--yarn-attn-factor 2", "muse-glimmer", **_WINDOW)
    assert magnified.config.attention_scale() == 2
    assert "--yarn-attn-factor 2 without YaRN multiplies cosine and sine" in magnified.findings[0].message


def test_a_magnitude_by_flag_reaches_sliding_layers_of_most_graphs() -> None:
    """gemma3.cpp gives ggml_rope_ext attn_factor in all layers; mellum.cpp gives sliding ones 1."""
    run = _run("--yarn-attn-factor 1.5", "gemma3", **_WINDOW)
    assert {each.attention_scale() for each in run.configs.values()} == {1.5}
    assert not any("alone" in each.message for each in run.findings)
    run = _run("--yarn-attn-factor 1.5", "mellum", **_WINDOW)
    assert [each.attention_scale() for each in run.configs.values()] == [1.5, 1.0]
    yarn = _run("--yarn-attn-factor 1.5 --rope-scaling yarn --rope-scale 2", "gemma3", **_WINDOW)
    assert yarn.configs["sliding_attention"].scaling == Unscaled()


@pytest.mark.parametrize("architecture", ["bloom", "refact", "gpt2", "mpt", "mamba", "t5"])
def test_flags_have_no_effect_where_nothing_rotates(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = _metadata(architecture, {})
    said = [each.message for each in _inspect(monkeypatch, metadata, "--rope-freq-base 5e5 --rope-scale 4").findings]
    assert "--rope-freq-base 5e5 and --rope-scale 4 have no effect: the model does not rotate." in said
    assert not any("no effect" in each.message for each in _inspect(monkeypatch, metadata, "-c 512").findings)
    with pytest.raises(ConfigError, match="Unknown --rope-scaling 'yarm'"):
        _inspect(monkeypatch, metadata, "--rope-scaling yarm")


def _stored() -> Iterator[tuple[str, dict[str, Any]]]:
    records: dict[str, Any] = json.loads(Path(__file__).with_name("gguf_graphs.json").read_text("utf-8"))
    for name, record in records.items():
        if name != "source":
            for changes, _ in record["cases"]:
                yield (
                    name,
                    {key: value for key, value in {**record["metadata"], **changes}.items() if value is not None},
                )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "key", ["rope.freq_base", "rope.freq_base_swa", "attention.sliding_window", "rope.dimension_count"]
)
def test_what_a_file_states_is_in_the_table_or_told(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for architecture, keys in _stored():
        if key not in keys:
            continue
        found = _inspect(monkeypatch, _metadata(architecture, keys))
        assert found.parsed is not None
        configs = found.parsed.configs.values()
        shown = {each.window for each in found.parsed.layers}
        shown |= {number for each in configs for number in (each.base, each.rotary_dim)}
        assert keys[key] in shown or any(key in each.message for each in found.findings), (architecture, keys)


@pytest.mark.parametrize(
    ("architecture", "scaling", "said", "remedy"),
    [
        ("phi3", Linear(factor=4.0), "takes the type for 'linear' with the factor 4", "Convert the model again"),
        ("qwen2", Linear(factor=4.0), "takes the type for 'linear' with the factor 4", "llama.cpp loads no such lists"),
        ("llama", Unscaled(), "scales nothing", "Convert the model again"),
    ],
)
def test_longrope_without_its_lists(architecture: str, scaling: Any, said: str, remedy: str) -> None:
    """llama_context: yarn_ext_factor is 0 with the type 'longrope', and freq_scale is 1 / factor."""
    factor = {} if scaling == Unscaled() else {"rope__scaling__factor": 4.0}
    parsed = _read(architecture, rope__scaling__type="longrope", **factor)
    assert parsed.config.scaling == scaling
    (error,) = [each for each in parsed.findings if each.severity == "error"]
    assert error.message == (
        "rope.scaling.type is 'longrope', but the file has neither rope_factors_short.weight nor "
        f"rope_factors_long.weight: llama.cpp {said}, as is shown."
    )
    assert remedy in error.remedy


@pytest.mark.parametrize("scaling", [{}, {"type": "linear", "factor": 4.0}, {"type": "yarn", "factor": 4.0}])
def test_deepseek_v4_takes_no_attention_scale_of_the_file(scaling: dict[str, Any]) -> None:
    """deepseek4.cpp: dsv4_rope_attn_factor takes away what rope_yarn multiplies by, and nothing else is handed over."""
    keys = {f"rope__scaling__{key}": value for key, value in {**scaling, "attn_factor": 0.5}.items()}
    sizes = {"rope__dimension_count": 64, "attention__compress_rope_freq_base": 16e4}
    parsed = _read("deepseek4", attention__compress_ratios=[0, 0, 4, 128], **sizes, **keys)
    assert {each.attention_scale() for each in parsed.configs.values()} == {1.0}
    assert any("passes over rope.scaling.attn_factor 0.5 in the arch" in each.message for each in parsed.findings)


@pytest.mark.parametrize(
    ("scaling", "scale", "said"),
    [
        ({}, 1.2, "rope.scaling.yarn_attn_factor 1.2 beside no rope.scaling.type: llama.cpp multiplies"),
        ({"type": "linear", "factor": 4.0, "attn_factor": 0.5}, 0.6, "attn_factor 0.5 and rope.scaling.yarn_attn_fac"),
        ({"type": "yarn", "factor": 4.0, "yarn_ext_factor": 0.0}, 1.2, "beside rope.scaling.type 'yarn': llama.cpp"),
        ({"type": "yarn", "factor": 4.0}, 1.1386294361119891, "yarn_attn_factor has no effect since December 2025"),
    ],
)
def test_grok_is_magnified_without_yarn(scaling: dict[str, Any], scale: float, said: str) -> None:
    """llama_context: yarn_attn_factor of the file stays where yarn_ext_factor is 0."""
    keys = {f"rope__scaling__{key}": value for key, value in {**scaling, "yarn_attn_factor": 1.2}.items()}
    parsed = _read("grok", **keys)
    assert parsed.config.attention_scale() == pytest.approx(scale)
    assert any(said in each.message for each in parsed.findings)


def test_layers_that_keep_the_factor_beside_none_are_magnified_as_well() -> None:
    keys = {"rope__scaling__type": "none", "rope__scaling__factor": 4.0, "rope__scaling__attn_factor": 0.5}
    parsed = _read("gpt-oss", **{key.replace(".", "__"): value for key, value in _WINDOW.items()}, **keys)
    assert {name: each.attention_scale() for name, each in parsed.configs.items()} == {
        "full_attention": 0.5,
        "sliding_attention": 0.5,
    }
    assert float(parsed.configs["sliding_attention"].frequencies()[0]) == 0.25
    assert not [each for each in parsed.findings if "rope.scaling.factor 4 has no effect" in each.message]


def test_modern_bert_has_heads_of_the_first_layer_in_all() -> None:
    sliding = {"attention__sliding_window": 8, "attention__key_length_swa": 64}
    parsed = _read("modern-bert", **sliding)
    assert {each.head_dim for each in parsed.configs.values()} == {128}
    assert any("passes over attention.key_length_swa 64" in each.message for each in parsed.findings)


def test_a_pattern_without_a_window_is_told_to_lack_it() -> None:
    said = [each.message for each in _read("gemma3", attention__sliding_window_pattern=3).findings]
    assert any(
        each.startswith("attention.sliding_window_pattern 3 has no effect: with no attention.sl") for each in said
    )


def test_more_pairs_than_a_head_has_features_end_the_program() -> None:
    """ggml_mrope_cache_init: GGML_ASSERT(sect_dims <= ne0)."""
    parsed = _read("qwen2vl", rope__dimension_sections=[64, 64, 64, 0])
    assert parsed.findings[0].severity == "error"
    assert "[64, 64, 64] are more pairs than a head has features, 128: llama.cpp ends" in parsed.findings[0].message
    (one,) = _read("dflash", rope__dimension_sections=[64, 0, 0, 0], rope__freq_base=1e4).configs.values()
    assert one.layout == "half"


def test_a_draft_with_hyper_connections_has_the_layers_of_deepseek_v4() -> None:
    """llama_model_rope_type, and graph_dsv4 of dflash.cpp: pairs of neighbours, behind, with the base alone."""
    keys = {
        **{"attention.key_length": 64, "attention.value_length": 64, "rope.dimension_count": 32},
        **{"attention.sliding_window": 8, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0},
    }
    plain = _read("dflash", **keys, **{"attention.sliding_window_pattern": [1, 0, 1, 0]})
    assert (plain.config.layout, plain.config.head_dim, plain.config.scaling.stretch) == ("half", 64, 4)
    draft = {**keys, "hyper_connection.count": 4}
    parsed = _read("dflash", **draft)
    assert (parsed.config.layout, parsed.config.head_dim) == ("interleaved", 32)
    assert parsed.config.scaling == Unscaled()
    assert [(each.layers, each.window) for each in parsed.layers] == [((0, 1, 2, 3), 8)]
    assert any("of which the last 32 are rotated" in each.message for each in parsed.findings)
    said = "llama.cpp passes over the scaling 'yarn' in the architecture 'dflash' with hyper_connection.count, whose"
    assert any(each.message.startswith(said) for each in parsed.findings)
    run = _run("--rope-scale 8 --rope-freq-base 500", "dflash", **draft)
    assert (run.config.base, run.config.scaling) == (500, Unscaled())
    wrong = _read("dflash", **draft, **{"rope.dimension_sections": [16, 0, 0, 0]})
    assert any(each.severity == "error" and "[16] beside hyper_connection" in each.message for each in wrong.findings)
