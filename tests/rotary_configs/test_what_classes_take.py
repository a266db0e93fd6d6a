"""Entries that a class of transformers takes, or passes over, where only its own code tells which."""

from __future__ import annotations

import copy
import inspect
import json
import math
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from zoo.entries import PATH, entries_of_all
from zoo.scalings import keeps_short_list

from locant.errors import ConfigError
from locant.extension import inspect_model
from locant.extension.inspect.model_class.small_model import build
from locant.positions.scaling import LongRoPE, Proportional, Unscaled
from locant.positions.scaling.explain import explain_frequencies
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import (
    read_gguf,
    read_huggingface,
    read_vllm,
    write_ctranslate2,
    write_gguf,
    write_huggingface,
)
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.entries import TYPES_OF_TRANSFORMERS
from locant.rotary_configs.classes.families import (
    HALVES_FOR_BOTH_WAYS,
    HEEDS_MSCALE,
    INDEXERS,
    LEARNS_FREQUENCIES,
    LOOKS_BOTH_WAYS,
    NULL_GROUP_STANDS_STILL,
    PASSES_OVER_BASE,
    PASSES_OVER_GROUPS,
    SCALES_SCORES,
    TAKES_ROTARY_EMB_BASE,
    known_model_types,
    model_type,
)
from locant.rotary_configs.usual_values import unusual_values

_SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
}
_GROUPS = {
    name: {"rope_type": "default", "rope_theta": base}
    for name, base in (("full_attention", 5e5), ("sliding_attention", 1e4))
}


def _run(config_class: Any, file: dict[str, Any]) -> None:
    """Run a small model of a class; the attention is transformers' own, for ``build`` sets one that only observes."""
    small = {
        "vocab_size": 16,
        "pad_token_id": 0,
        "n_routed_experts": 4,
        "first_k_dense_replace": 2,
        "intermediate_size": 64,
    }
    keys = {"num_key_value_heads": file["num_attention_heads"] or 1}
    model = build(config_class.from_dict({**keys, **file, **small}))
    model.set_attn_implementation("eager")
    model(torch.zeros((1, 4), dtype=torch.long))


_RAISED = {
    "rope_type is null in": "None",
    "num_attention_heads is 0 in": "modulo by zero",
    "tells the types of 5 layers": "must be equal to the number of `layer_types`",
    "Layers are of the type 'chunked_attention', for which the class of 'olmo3'": "chunked_attention",
    "has one rotation for all layers, looks for rope_type beside the groups, and fails": "rope_type",
    "head_dim is 24 in config.json, which the class of": "must match the size of tensor",
    "there is no number for their window": "'NoneType' object|modulo by zero",
    "use_sliding_window is false": "'NoneType' object",
    "has no groups for layer types": "full_attention",
    "angles for 16 features, but 64 features of a head are rotated": "must match the size of tensor",
    "lacks llama_4_scaling_beta": "'Tensor' and 'NoneType'",
    "looks for one of every type, has none of its own": "full_attention",
}
"""What a class raises, by what a finding says of it."""


def _findings(content: dict[str, Any]) -> list[Finding]:
    return [each for each in read_huggingface(content).findings if each.severity != "note"]


def _said(content: dict[str, Any]) -> str:
    return " ".join(each.message for each in _findings(content))


class TestMiMo:
    """configuration_mimo_v2_flash.py of transformers takes layer_types and rope_parameters alone."""

    def _file(self, **entries: Any) -> dict[str, Any]:
        return {"model_type": "mimo_v2_flash", **_SIZES, "head_dim": 192, "num_hidden_layers": 12, **entries}

    def test_what_the_publishers_code_reads_alone_is_passed_over(self) -> None:
        parsed = read_huggingface(self._file(rope_theta=123456, swa_rope_theta=777, partial_rotary_factor=0.5))
        bases = {layer: (config.base, config.rotary_dim) for layer, config in parsed.configs.items()}
        assert bases == {"full_attention": (5e6, 64), "sliding_attention": (1e4, 64)}
        said = " ".join(each.message for each in parsed.findings if each.severity == "warning")
        for entry in ("rope_theta is 123456", "swa_rope_theta 777", "partial_rotary_factor is 0.5"):
            assert entry in said
        assert "published models have" not in said

    def test_its_pattern_of_layers_is_passed_over(self) -> None:
        own = [int(index > 0 and (index + 1) % 6 > 0) for index in range(12)]
        assert not _findings(self._file(hybrid_layer_pattern=own))
        reversed_ones = self._file(hybrid_layer_pattern=own[::-1])
        assert "passes over hybrid_layer_pattern" in _said(reversed_ones)
        full = next(each for each in read_huggingface(reversed_ones).layers if each.name == "full_attention")
        assert full.layers == (0, 5, 11)

    def test_as_published_it_is_said_of_nothing(self) -> None:
        entries = {"rope_theta": 5000000, "swa_rope_theta": 10000, "partial_rotary_factor": 0.334}
        assert not _findings(self._file(**entries))

    def test_its_own_code_reads_them(self) -> None:
        parsed = read_huggingface(self._file(rope_theta=123456, auto_map={"AutoModel": "modeling_mimo.Model"}))
        assert parsed.configs["full_attention"].base == 123456


class TestBasesByLayer:
    """modeling_granite_swa.py has a rotation for each base of layer_rope_theta."""

    _FILE: ClassVar[dict[str, Any]] = {
        "model_type": "granite_swa",
        **_SIZES,
        "layer_rope_theta": [10000, 0, 50000, 10000],
    }

    def test_two_bases_in_one_layer_type(self) -> None:
        parsed = read_huggingface(self._FILE | {"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 2})
        found = [None if config is None else config.base for config in map(parsed.of_layer, range(4))]
        assert found == [10000, None, 50000, 10000]
        assert sorted(parsed.configs) == ["base 10000", "base 50000"]

    def test_one_base_is_that_of_all(self) -> None:
        parsed = read_huggingface(self._FILE | {"layer_rope_theta": [10000, 0, 10000, 10000]})
        assert (parsed.config.base, parsed.of_layer(1)) == (10000, None)

    def test_too_few_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="is about 2 layers, but there are 4"):
            read_huggingface(self._FILE | {"layer_rope_theta": [10000, 50000]})


class TestUltraBert:
    """configuration_ultrabert.py: existing checkpoints store windows and bases for each layer."""

    _FILE: ClassVar[dict[str, Any]] = {"model_type": "ultrabert", **_SIZES, "attention_windows": [64, 64, None, 64]}

    def test_windows_and_bases(self) -> None:
        parsed = read_huggingface(self._FILE | {"rope_theta": [1e4, 1e4, 3e5, 1e4]})
        assert [parsed.of_layer(index).base for index in range(4)] == [1e4, 1e4, 3e5, 1e4]  # type: ignore[union-attr]
        assert {kind.name: kind.window for kind in parsed.layers} == {"sliding_attention": 65, "full_attention": None}

    def test_the_last_base_of_a_type_counts(self) -> None:
        file = self._FILE | {"rope_theta": [1e4, 1e4, 3e5, 2e4]}
        assert read_huggingface(file).configs["sliding_attention"].base == 2e4
        assert "takes the last for all of them" in _said(file)

    def test_the_first_window_counts(self) -> None:
        """``next(window for window in attention_windows if window)`` is the sliding_window of all layers."""
        file = self._FILE | {"attention_windows": [None, 64, 128, 64]}
        windows = {kind.name: kind.window for kind in read_huggingface(file).layers}
        assert windows == {"full_attention": None, "sliding_attention": 65}
        assert "windows of 64 and 128 tokens; the class of 'ultrabert' in transformers takes the first, 64," in _said(
            file
        )
        assert "takes the first" not in _said(self._FILE)

    def test_the_window_is_told_by_the_name_of_the_file(self) -> None:
        said = [each.message for each in read_huggingface(self._FILE).findings if "each token itself" in each.message]
        assert len(said) == 1
        assert said[0].startswith("Of attention_windows 64 in config.json, the class of 'ultrabert'")

    def test_a_window_beside_those_of_the_layers_is_passed_over(self) -> None:
        findings = read_huggingface(self._FILE | {"sliding_window": 32}).findings
        said = " ".join(each.message for each in findings)
        assert "sliding_window is 32 in config.json, but the class of 'ultrabert' in transformers takes 64 of " in said
        assert "Of attention_windows 64 in config.json" in said
        assert "in its place" not in _said(self._FILE | {"sliding_window": 64})

    def test_without_windows_the_class_has_its_own(self) -> None:
        file = self._FILE | {"attention_windows": [None, None, None, None], "layer_types": ["sliding_attention"] * 4}
        assert read_huggingface(file).layers[0].window == 129
        said = " ".join(each.message for each in read_huggingface(file).findings)
        assert "a window of 129 tokens to each side, each token itself among them, of the 128 tokens" in said

    def test_one_base_for_all_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="must be a list with the base of every layer"):
            read_huggingface(self._FILE | {"rope_theta": 1e4})


def test_nanochat_turns_backwards() -> None:
    """rotate_half of modeling_nanochat.py returns (x2, -x1), where Llama's returns (-x2, x1)."""
    parsed = read_huggingface({"model_type": "nanochat", **_SIZES})
    assert (parsed.config.layout, parsed.config.base, parsed.config.rotary_dim) == ("half", 1e4, 64)
    assert [each.code for each in parsed.findings if each.severity == "warning"] == ["turns backwards"]


def test_grok_2_is_known_by_its_architecture() -> None:
    """Its model type, git, is that of a model of images in transformers."""
    grok = {"model_type": "git", "architectures": ["Grok1ForCausalLM"], **_SIZES, "rope_theta": 208533496}
    assert read_huggingface(grok).config.base == 208533496
    assert "read as the class of 'grok-1', which architectures names" in _said(grok)
    with pytest.raises(NoRotaryPositionsError):
        read_huggingface({key: value for key, value in grok.items() if key != "rope_theta"})
    with pytest.raises(NoRotaryPositionsError):
        read_huggingface(grok | {"architectures": ["GitForCausalLM"]})


_LISTS: dict[str, Any] = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32, "type": "longrope"}
_LONG: dict[str, Any] = {**_SIZES, "max_position_embeddings": 32768, "original_max_position_embeddings": 4096}


class TestTwoScales:
    """modeling_phimoe.py: short_mscale up to the original length, long_mscale beyond."""

    _FILE: ClassVar[dict[str, Any]] = {
        "model_type": "phimoe",
        **_LONG,
        "rope_scaling": {**_LISTS, "short_mscale": 1.1, "long_mscale": 1.3},
    }

    @pytest.mark.parametrize("name", ["phimoe", "phi3small"])
    def test_both_are_read(self, name: str) -> None:
        config = read_huggingface(self._FILE | {"model_type": name}).config
        assert [config.attention_scale(length) for length in (1, 4096, 4097, None)] == [1.1, 1.1, 1.3, 1.3]

    def test_the_class_of_phimoe_takes_the_short_list_alone(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(json.dumps(self._FILE), encoding="utf-8")
        said = " ".join(each.message for each in inspect_model(tmp_path, ask_class=False).findings)
        assert "takes short_factor of rope_scaling of config.json for texts of any length, also beyond 4096" in said
        assert "transformers changes from the short" not in said
        assert "transformers: short factors for all texts. vLLM" in said
        other = self._FILE | {"model_type": "phi3small"}
        assert "for texts of any length" not in " ".join(each.message for each in read_huggingface(other).findings)

    def test_the_one_list_of_phimoe_is_shown_as_such(self) -> None:
        config = read_huggingface(self._FILE).config
        notes = explain_frequencies(config.scaling, config.head_dim, config.base).notes
        assert "Texts of all lengths take the same factors." in notes
        assert "Texts up to 4096 tokens have the attention scale 1.1, longer ones 1.3." in notes
        assert not any("Shown for" in each for each in notes)
        assert "factors for any length of 32 numbers from 1 to 1, attention_factor 1.3" in config.describe()
        assert "long_factors" not in config.describe()
        two = read_huggingface(self._FILE | {"model_type": "phi3small"}).config
        assert "short_factors of 32 numbers from 1 to 1, long_factors of 32 numbers from 2 to 2" in two.describe()

    def test_lists_of_the_classes(self) -> None:
        transformers = pytest.importorskip("transformers")
        group = {"rope_type": "default", "rope_theta": 10000.0}
        small = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 32}
        small |= {"num_key_value_heads": 2, "intermediate_size": 32, "pad_token_id": 0, "rope_parameters": group}
        small |= {"max_position_embeddings": 64, "original_max_position_embeddings": 64}
        assert keeps_short_list(transformers.PhimoeConfig, small, 8)
        assert not keeps_short_list(transformers.Phi3Config, small, 8)

    def test_a_fixed_length_chooses_one(self) -> None:
        scaling = read_huggingface(self._FILE).config.scaling
        assert isinstance(scaling, LongRoPE)
        assert [scaling.fixed_for(length).attention_scale(9000) for length in (4096, 8192)] == [1.1, 1.3]

    def test_they_are_written_and_read_again(self) -> None:
        config = read_huggingface(self._FILE).config
        written = write_huggingface(config, model_type="phimoe")
        again = read_huggingface({key: value for key, value in (self._FILE | written).items() if value is not None})
        assert [again.config.attention_scale(length) for length in (1, 9000)] == [1.1, 1.3]

    def test_formats_with_one_scale_refuse_them(self) -> None:
        config = read_huggingface(self._FILE).config
        with pytest.raises(ConfigError, match=r"scales 1\.1 of short texts and 1\.3 of long ones"):
            write_ctranslate2(config)
        with pytest.raises(ConfigError, match=r"scales 1\.1 of short texts and 1\.3 of long ones"):
            write_gguf(config, "phi3")

    def test_vllm_takes_both(self) -> None:
        """Phi3LongRoPEScaledRotaryEmbedding has a table for each list, with a scale of its own."""
        served = read_vllm({}, self._FILE).config
        assert served.attention_scale(9000) == 1.1  # it serves the original length by default
        assert not [each for each in read_vllm({}, self._FILE).findings if "attention scale" in each.message]

    def test_other_classes_pass_over_them(self) -> None:
        file = self._FILE | {"model_type": "llama"}
        plain = read_huggingface(file | {"rope_scaling": _LISTS}).config
        assert read_huggingface(file).config == plain
        assert "passes over short_mscale 1.1 and long_mscale 1.3" in _said(file)


class TestMPT:
    """modeling_mpt.py of llm-foundry: attn_config with rope, rope_impl and a group for each implementation."""

    _FILE: ClassVar[dict[str, Any]] = {
        "model_type": "mpt",
        "d_model": 512,
        "n_heads": 8,
        "n_layers": 4,
        "max_seq_len": 2048,
    }
    _OWN: ClassVar[dict[str, Any]] = {"auto_map": {"AutoModelForCausalLM": "modeling_mpt.MPTForCausalLM"}}

    def test_its_own_code_rotates(self) -> None:
        config = read_huggingface(self._FILE | self._OWN | {"attn_config": {"rope": True, "rope_theta": 500000}}).config
        assert (config.base, config.head_dim, config.layout) == (500000, 64, "half")

    def test_its_scaling(self) -> None:
        group = {"rope": True, "rope_impl": "hf", "rope_hf_config": {"type": "linear", "factor": 4.0}}
        config = read_huggingface(self._FILE | self._OWN | {"attn_config": group}).config
        assert (config.scaling.name, config.scaling.stretch) == ("linear", 4)

    def test_xpos_is_refused(self) -> None:
        group = {"rope": True, "rope_dail_config": {"type": "xpos"}}
        with pytest.raises(ConfigError, match="'xpos', whose decay"):
            read_huggingface(self._FILE | self._OWN | {"attn_config": group})

    def test_the_class_of_transformers_has_alibi(self) -> None:
        with pytest.raises(ConfigError, match="has ALiBi, whatever the file says"):
            read_huggingface(self._FILE | {"attn_config": {"rope": True}})


@pytest.mark.parametrize(("name", "base"), [("gpt_neox", 25000.0), ("llama", 3e4)])
def test_which_of_two_bases_counts(name: str, base: float) -> None:
    """convert_rope_params_to_dict of configuration_gpt_neox.py takes rotary_emb_base; others never look for it."""
    file = {"model_type": name, **_SIZES, "rotary_emb_base": 25000, "rope_theta": 30000}
    assert read_huggingface(file).config.base == base
    assert (name in TAKES_ROTARY_EMB_BASE) is (base == 25000)
    taken = "rotary_emb_base, 25000" if name == "gpt_neox" else "rope_theta"
    assert f"in transformers passes over: it takes {taken}." in _said(file)


@pytest.mark.parametrize("base", [999.0, 70000.0])
def test_a_base_beside_groups_that_have_their_own(base: float) -> None:
    file = {"model_type": "mellum", **_SIZES, "rope_parameters": _GROUPS, "rope_theta": base}
    assert [each.message.partition(" stands")[0] for each in _findings(file)] == [f"rope_theta {base:g}"]
    assert not _findings(file | {"rope_theta": 5e5})


def test_a_null_group_of_layers_without_positions() -> None:
    """CohereCompassTextModel gives layers of such a type no angles."""
    groups = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": None}
    types = ["sliding_attention"] * 3 + ["full_attention"]
    file = {**_SIZES, "head_dim": 128, "hidden_size": 1024, "rope_parameters": groups, "layer_types": types}
    parsed = read_huggingface({"model_type": "cohere_compass_text", **file})
    assert parsed.of_layer(3) is None
    assert not _findings({"model_type": "cohere_compass_text", **file})
    assert "is null: it does not say how such layers rotate" in _said({"model_type": "olmo3", **file})


_YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 8192, "rope_theta": 1e6}


@pytest.mark.parametrize(("name", "scales"), [("ministral3", False), ("mistral4", True), ("deepseek_v3", True)])
def test_scores_scaled_by_the_class(name: str, scales: bool) -> None:
    group = _YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}
    parsed = read_huggingface({"model_type": name, **_SIZES, "rope_parameters": group})
    assert any("multiply all scores" in each.message for each in parsed.findings) is scales


@pytest.mark.parametrize(("name", "scales"), [("youtu", True), ("deepseek_v3", True), ("llama", False)])
def test_scores_are_multiplied_by_mscale_all_dim_alone(name: str, scales: bool) -> None:
    """``yarn_apply_mscale`` asks for no ``mscale``; cosine and sine are scaled by both or by neither."""
    group = {**_YARN, "mscale_all_dim": 1.0}
    parsed = read_huggingface({"model_type": name, **_SIZES, "rope_parameters": group})
    said = [each.message for each in parsed.findings]
    assert any("for cosine and sine transformers takes neither without the other" in each for each in said)
    assert any("multiply all scores by" in each for each in said) is scales
    classes = pytest.importorskip("transformers.models.youtu.modeling_youtu")
    assert classes.yarn_apply_mscale(group, 1.0) == pytest.approx((0.1 * math.log(group["factor"]) + 1) ** 2)


def _sources() -> Path:
    transformers = pytest.importorskip("transformers")
    return Path(transformers.__file__).parent / "models"


def test_which_classes_scale_scores() -> None:
    names = pytest.importorskip("transformers.models.auto.modeling_auto").MODEL_MAPPING_NAMES
    files = [file for file in _sources().glob("*/modeling_*.py") if "mscale_all_dim" in file.read_text()]
    folders = {file.parent for file in files}
    found = {
        name
        for folder in folders
        for file in folder.glob("configuration_*.py")
        for name in re.findall(r'^    model_type = "(\w+)"', file.read_text(), flags=re.MULTILINE)
    }
    # Some model types have the class of another one.
    classes = {each for file in files for each in re.findall(r"^class (\w+)", file.read_text(), flags=re.MULTILINE)}
    found |= {name for name, own in names.items() if isinstance(own, str) and own in classes}
    assert {folder.name for folder in folders} <= {name.removesuffix("_text") for name in SCALES_SCORES}
    assert found >= SCALES_SCORES - {"hy_v4_vl_text"}


def test_which_classes_take_rotary_emb_base() -> None:
    files = [file for file in _sources().glob("*/configuration_*.py") if "rotary_emb_base" in file.read_text()]
    assert {file.parent.name for file in files} == TAKES_ROTARY_EMB_BASE


def test_which_classes_leave_layers_without_a_group_still() -> None:
    asks = re.compile(r"if self\.config\.rope_parameters\[layer_type\] is (not )?None")
    files = {file.parent.name for file in _sources().glob("*/modeling_*.py") if asks.search(file.read_text())}
    assert files == {name.removesuffix("_text") for name in NULL_GROUP_STANDS_STILL}


def test_a_yarn_of_llama_cpp_without_its_factor() -> None:
    """llama_model::load_hparams: rope_freq_scale_train is 1 where neither key is there."""
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": 131072,
        "llama.attention.key_length": 128,
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.original_context_length": 32768,
    }
    parsed = read_gguf(metadata)
    assert (parsed.config.scaling, parsed.config.max_length) == (Unscaled(), 131072)
    (finding,) = parsed.findings
    assert finding.message.startswith("rope.scaling.factor is missing beside rope.scaling.type 'yarn'")
    assert finding.remedy.startswith("State rope.scaling.factor 4,")


def test_the_decoder_of_two_stacks_is_the_text_part() -> None:
    stacks = {
        f"{name}_config": {"model_type": f"dia_{name}", **_SIZES, "head_dim": 64, "rope_theta": base}
        for name, base in (("encoder", 10000), ("decoder", 20000))
    }
    assert read_huggingface({"model_type": "dia", **stacks}).config.base == 20000


def test_encoders_of_series_and_of_sound() -> None:
    """modeling_timesfm2_5.py and modeling_lasr.py of transformers turn halves by the base 10000."""
    series = read_huggingface({"model_type": "timesfm2_5", **_SIZES, "head_dim": 64})
    sound = read_huggingface({"model_type": "lasr_ctc", "encoder_config": {"model_type": "lasr_encoder", **_SIZES}})
    for parsed in (series, sound):
        assert (parsed.config.layout, parsed.config.base, parsed.config.head_dim) == ("half", 1e4, 64)
        assert {each.severity for each in parsed.findings} == {"note"}


_SAYS: dict[str, Any] = {
    "no_rope_layers": [1, 0, 1, 0],
    "no_rope_layer_interval": 2,
    "layer_rope_theta": [1e4, 0, 1e4, 0],
    "sliding_window_pattern": 2,
    "rope_scaling_layers": [0],
    "attn_layer_indices": [0],
    "full_attention_interval": 2,
    "global_attn_every_n_layers": 2,
    "rope_local_base_freq": 2e4,
    "local_rope_theta": 2e4,
}


@pytest.mark.parametrize("entry", _SAYS)
def test_entries_about_layers_that_the_class_does_not_read(entry: str) -> None:
    """LlamaConfig has none of them; code of people's own may."""
    plain = {"model_type": "llama", **_SIZES, "rope_theta": 5e5, "sliding_window": 64}
    parsed = read_huggingface(plain | {entry: _SAYS[entry]})
    assert (parsed.configs, parsed.layers) == (read_huggingface(plain).configs, read_huggingface(plain).layers)
    assert f"{entry} is " in _said(plain | {entry: _SAYS[entry]})
    own = read_huggingface(plain | {entry: _SAYS[entry], "model_type": "novel"})
    assert (own.configs, own.layers) != (parsed.configs, parsed.layers)


def test_a_window_of_some_layers_is_for_classes_that_have_it() -> None:
    """Gemma2Config has no max_window_layers, Qwen2Config has."""
    file = {**_SIZES, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}
    types = {
        name: [k.name for k in read_huggingface({"model_type": name, **file}).layers] for name in ("gemma2", "qwen2")
    }
    first = {name: read_huggingface({"model_type": name, **file}).layers[0].layers for name in types}
    assert first == {"gemma2": (0, 2), "qwen2": (0, 1)}


@pytest.mark.slow
def test_the_entries_of_all_classes_are_those_of_the_installed_release() -> None:
    """Fields, kinds of their values, and names in the code; classes that a release does not have yet are left out."""
    transformers = pytest.importorskip("transformers")
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    found = entries_of_all()
    assert {name: each for name, each in found.items() if each != stored.get(name)} == {} or (
        transformers.__version__ < "5.24"
    )


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "gptj", "rotary_dim": None}, "rotary_dim is null"),
        ({"model_type": "stablelm", "max_position_embeddings": None}, "max_position_embeddings is null"),
        ({"model_type": "gemma3_text", "head_dim": None}, "head_dim is null"),
        ({"model_type": "llama", "num_attention_heads": 8.0}, "num_attention_heads is 8.0"),
        ({"model_type": "olmo3", "sliding_window": "4096"}, "sliding_window is '4096'"),
        ({"model_type": "modernbert", "local_attention": None}, "local_attention is null"),
    ],
)
def test_values_of_a_kind_that_the_class_refuses(entries: dict[str, Any], said: str) -> None:
    """The fields of configurations are checked (huggingface_hub.dataclasses.strict)."""
    transformers = pytest.importorskip("transformers")
    file = {**_SIZES, "n_embd": 512, "n_head": 8, "n_layer": 4, **entries}
    assert f"{said} in config.json, where the class of '{entries['model_type']}'" in _said(file)
    with pytest.raises(Exception, match=r"[vV]alidation"):
        transformers.CONFIG_MAPPING[entries["model_type"]].from_dict(file)


def test_heads_by_an_entry_that_the_class_does_not_read() -> None:
    file = {"model_type": "olmo3", **_SIZES, "rope_theta": 5e5}
    assert read_huggingface(file | {"kv_channels": 24}).configs == read_huggingface(file).configs
    assert "kv_channels is 24 in config.json, which the class of 'olmo3'" in _said(file | {"kv_channels": 24})
    assert read_huggingface(file | {"kv_channels": 24, "model_type": "novel"}).config.head_dim == 24


def test_lists_of_attention_of_minimax() -> None:
    """MiniMaxConfig reads layer_types; attn_type_list is of the code that the file as published names."""
    file = {"model_type": "minimax", **_SIZES, "head_dim": 64, "attn_type_list": [1, 1, 1, 0]}
    assert [kind.layers for kind in read_huggingface(file).layers] == [(0, 2), (1, 3)]
    assert "attn_type_list is [1, 1, 1, 0] in config.json, which the class of 'minimax'" in _said(file)


def test_groups_of_types_for_a_class_whose_layers_have_none() -> None:
    """nested_rope_parameter_keys: a config that declares no types is never treated as nested."""
    file = {"model_type": "starcoder2", **_SIZES, "rope_parameters": {"full_attention": {"rope_theta": 5e5}}}
    assert read_huggingface(file).config.base == 1e4
    assert read_huggingface(file | {"rope_theta": 3e5}).config.base == 3e5
    assert "has groups for 'full_attention', which the class of 'starcoder2'" in _said(file)


def test_a_group_of_a_type_without_a_share() -> None:
    """MiMoV2FlashRotaryEmbedding takes 0.334 where a group has no partial_rotary_factor, functions of scalings 1."""
    file = {"model_type": "mimo_v2_flash", **_SIZES, "head_dim": 192, "rope_parameters": _GROUPS}
    assert {config.rotary_dim for config in read_huggingface(file).configs.values()} == {64}
    assert "it takes 0.334 of each head there" in _said(file | {"partial_rotary_factor": 0.5})
    scaling = {"rope_type": "linear", "factor": 2.0}
    scaled = {**_GROUPS, "sliding_attention": _GROUPS["sliding_attention"] | scaling}
    rotated = {
        name: each.rotary_dim for name, each in read_huggingface(file | {"rope_parameters": scaled}).configs.items()
    }
    assert rotated == {"full_attention": 64, "sliding_attention": 192}
    other = file | {"model_type": "laguna"}
    assert {config.rotary_dim for config in read_huggingface(other).configs.values()} == {192}


_PARTS = {"gemma3_text": "full_attention", "olmo3": "full_attention", "modernbert": "all"}


@pytest.mark.parametrize("name", _PARTS)
def test_one_scaling_is_merged_by_its_new_type_alone(name: str) -> None:
    """convert_rope_params_to_dict updates groups that have the rope_type default with rope_scaling."""
    scaling = {"factor": 8.0, "original_max_position_embeddings": 4096}
    file = {"model_type": name, **_SIZES, "max_position_embeddings": 32768}
    scaled = read_huggingface(file | {"rope_scaling": {"rope_type": "yarn", **scaling}}).configs
    found = {layer for layer, config in scaled.items() if config.scaling.name == "yarn"}
    assert found == ({*scaled} if _PARTS[name] == "all" else {_PARTS[name]})
    old = file | {"rope_scaling": {"type": "yarn", **scaling}}
    assert {config.scaling.name for config in read_huggingface(old).configs.values()} == {"none"}
    assert "has type 'yarn' and no rope_type" in _said(old)
    flat = file | {"rope_parameters": {"rope_type": "default", "rope_theta": 77777.0}}
    assert 77777.0 not in {config.base for config in read_huggingface(flat).configs.values()}
    assert "has no groups for layer types" in _said(flat)


def test_a_base_beside_groups_without_theirs() -> None:
    """Gemma3TextConfig: rope_theta is that of full attention, rope_local_base_freq that of the windows."""
    bare = {name: {"rope_type": "default"} for name in _GROUPS}
    parsed = read_huggingface({"model_type": "gemma3_text", **_SIZES, "rope_parameters": bare, "rope_theta": 5e5})
    assert {name: config.base for name, config in parsed.configs.items()} == {
        "full_attention": 5e5,
        "sliding_attention": 1e4,
    }


@pytest.mark.parametrize("name", ["gpt_neox", "modernbert"])
def test_a_base_beside_a_scaling_that_the_class_never_reads(name: str) -> None:
    scaling = {"rope_type": "linear", "factor": 2.0}
    file = {"model_type": name, **_SIZES, "rope_scaling": scaling, "rope_theta": 77777.0}
    assert 77777.0 not in {config.base for config in read_huggingface(file).configs.values()}
    assert "rope_theta is 77777 in config.json, which the class of" in _said(file)


@pytest.mark.parametrize("name", sorted(PASSES_OVER_GROUPS - {"clvp_encoder"}))
def test_classes_with_one_plain_rotation(name: str) -> None:
    file: dict[str, Any] = {"model_type": name, **_SIZES, "n_embd": 512, "n_head": 8, "n_layer": 4}
    plain = read_huggingface(file)
    scaled = read_huggingface(file | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}})
    assert (scaled.configs, scaled.layers) == (plain.configs, plain.layers)
    assert "passes over: it has one rotation without scaling" in _said(
        file | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    )
    assert not _findings(file | {"rope_parameters": {"rope_type": "default"}})


def test_numbers_that_classes_have_of_their_own_are_those_of_published_models() -> None:
    """Mistral Large 4 has YaRN with factor 2048."""
    for name in known_model_types():
        kind = model_type(name)
        groups = {} if kind is None or kind.rope is None else kind.rope
        for group in (groups, *(each for each in groups.values() if isinstance(each, dict))):
            assert not [*unusual_values(group, name)]


def test_every_fourth_layer_of_mistral_large_4() -> None:
    parsed = read_huggingface({"model_type": "mistral_large4_text", **_SIZES, "max_position_embeddings": 1048576})
    assert [parsed.of_layer(index) is None for index in range(4)] == [False, False, False, True]


def test_frequencies_that_are_learned_are_told() -> None:
    """modeling_mistral_large4.py: ``inv_freq * alpha.exp()``, with ``alpha`` a parameter."""
    parsed = read_huggingface({"model_type": "mistral_large4_text", **_SIZES})
    (said,) = [each.message for each in parsed.findings if each.severity == "warning"]
    assert "multiplies the frequency of every pair by exp(alpha)" in said
    assert "not the frequencies of the trained model" in said


@pytest.mark.slow
def test_which_classes_learn_frequencies() -> None:
    """Those whose module of rotary positions has parameters."""
    transformers = pytest.importorskip("transformers")
    found = set()
    for path in Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        for code in path.read_text(encoding="utf-8").split("\nclass ")[1:]:
            if "RotaryEmbedding(" in code.partition("\n")[0] and "nn.Parameter(" in code:
                (config,) = {*re.findall(r"config: (\w+)", code)}
                found.add(getattr(transformers, config).model_type)
    assert found == LEARNS_FREQUENCIES


def test_which_classes_scale_by_a_factor_for_short_texts() -> None:
    """Those whose code looks for ``short_mscale`` in the group of the file."""
    transformers = pytest.importorskip("transformers")
    paths = Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
    assert {path.parent.name for path in paths if "short_mscale" in path.read_text(encoding="utf-8")} == HEEDS_MSCALE


def _codes_of_transformers() -> dict[str, str]:
    transformers = pytest.importorskip("transformers")
    paths = Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
    return {path.parent.name: path.read_text(encoding="utf-8") for path in paths}


def test_which_classes_have_an_indexer_that_rotates() -> None:
    indexer = re.compile(r"^class \w*Indexer\(.*?\):\n(.*?)(?=^class |^def |^@|\Z)", re.MULTILINE | re.DOTALL)
    found = {
        folder
        for folder, code in _codes_of_transformers().items()
        for body in indexer.findall(code)
        if "apply_rotary" in body or "rotate_half" in body
    }
    names = {name.removesuffix("_text") for name in INDEXERS}
    assert {folder.removesuffix("_text") for folder in found} == names


def test_which_classes_have_windows_to_both_sides() -> None:
    """Of the others that make such masks one halves the window by its file, and one has it in its encoder alone."""
    makes = "create_bidirectional_sliding_window_mask("
    found = {folder for folder, code in _codes_of_transformers().items() if makes in code}
    drafts = {folder for folder in found if folder.endswith("_assistant")}  # which look at the cache of another model
    assert found - drafts - {"diffusion_gemma", "t5gemma"} == {name.removesuffix("_text") for name in LOOKS_BOTH_WAYS}
    assert "diffusion_gemma_text" in HALVES_FOR_BOTH_WAYS


@pytest.mark.parametrize(
    ("model_type", "entries", "said"),
    [
        (
            "deepseek_v4",
            {"index_head_dim": 96},
            "the last 64 of its 96 features by the same frequencies, in the layout ",
        ),
        (
            "qwen4_exp_text",
            {"indexer_head_dim": 128, "partial_rotary_factor": 0.25},
            "the first 64 of its 128 features",
        ),
    ],
)
def test_indexers_of_compressed_keys_rotate_as_well(model_type: str, entries: dict[str, Any], said: str) -> None:
    findings = read_huggingface({"model_type": model_type, **entries}).findings
    (found,) = [each.message for each in findings if each.message.startswith("The indexer")]
    assert said in found
    assert "as the attention does" in found


@pytest.mark.slow
def test_which_classes_never_read_a_base_beside_groups() -> None:
    """Those that convert entries themselves, and neither look for rope_theta nor leave it to the usual conversion."""
    transformers = pytest.importorskip("transformers")
    usual = transformers.modeling_rope_utils.RotaryEmbeddingConfigMixin.convert_rope_params_to_dict
    found = set()
    for name, kind in transformers.CONFIG_MAPPING.items():
        convert = getattr(kind, "convert_rope_params_to_dict", usual)
        known = model_type(name)
        if convert is usual or known is None or not known.rotates or known.text_part:
            continue
        own = "".join(inspect.getsource(each) for each in kind.__mro__ if ".models." in each.__module__)
        is_left_to_it = "super().convert_rope_params_to_dict" in inspect.getsource(convert)
        if not is_left_to_it and not re.search(r'kwargs\.(pop|get)\(\s*"rope_theta"', own):
            found.add(name)
    assert found - {"cohere_compass_text"} == PASSES_OVER_BASE


def test_a_share_in_a_group_counts_before_one_beside_it() -> None:
    """convert_rope_params_to_dict fills in what the group does not have."""
    group = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
    file = {"model_type": "glm", **_SIZES, "head_dim": 64, "rope_parameters": group, "partial_rotary_factor": 0.5}
    assert read_huggingface(file).config.rotary_dim == 16
    assert "takes the first; releases 4 took the second" in _said(file)


def test_phimoe_without_its_scales() -> None:
    """PhimoeConfig.rope_parameters_validation raises ValueError."""
    file = {"model_type": "phimoe", **_LONG, "rope_scaling": _LISTS}
    assert "lacks short_mscale and long_mscale" in _said(file)
    assert "lacks" not in _said(file | {"rope_scaling": {**_LISTS, "short_mscale": 1.1, "long_mscale": 1.3}})


def test_one_group_where_the_class_has_groups_by_type() -> None:
    group = {"rope_type": "default", "rope_theta": 5e6}
    assert "has no groups for layer types" in _said({"model_type": "mimo_v2_flash", **_SIZES, "rope_parameters": group})


def test_a_group_that_is_missing_for_a_class_that_takes_null() -> None:
    groups = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    types = ["sliding_attention"] * 3 + ["full_attention"]
    file = {"model_type": "beam", **_SIZES, "rope_parameters": groups, "layer_types": types}
    assert "'full_attention', for which rope_parameters of config.json has no group" in _said(file)
    assert "for which" not in _said(file | {"rope_parameters": {**groups, "full_attention": None}})


def test_a_null_base_is_no_rotation_where_the_class_says_so() -> None:
    """OlmoHybridModel builds no rotary module then."""
    with pytest.raises(NoRotaryPositionsError):
        read_huggingface({"model_type": "olmo_hybrid", **_SIZES, "rope_parameters": {"rope_theta": None}})


def test_overrides_by_type_of_a_model_whose_file_has_one_group() -> None:
    """Gemma3TextConfig gathers rope_scaling into the group of full attention before vLLM merges overrides."""
    scaling = {"rope_type": "linear", "factor": 8.0}
    gemma = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", **_SIZES, "rope_scaling": scaling}}
    served = read_vllm({"text_config": {"rope_parameters": {"full_attention": {"factor": 16.0}}}}, gemma)
    found = {
        layer: (config.scaling.name, config.scaling.stretch, config.base) for layer, config in served.configs.items()
    }
    assert found == {"full_attention": ("linear", 16.0, 1e6), "sliding_attention": ("none", None, 1e4)}
    assert not any("beside the groups" in each.message for each in served.findings)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("stablelm", "partial_rotary_factor"),
        ("phi", "partial_rotary_factor"),
        ("modernbert", "local_rope_theta"),
        ("modernbert", "global_rope_theta"),
        ("gemma3_text", "rope_local_base_freq"),
    ],
)
def test_an_entry_that_is_null_where_the_class_has_a_number(name: str, entry: str) -> None:
    assert f"{entry} of the file is null" in _said({"model_type": name, **_SIZES, entry: None})
    assert "is null" not in _said({"model_type": name, **_SIZES})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "llama", "rope_parameters": {"rope_type": None, "rope_theta": 1e4}}, "rope_type is null in"),
        ({"model_type": "llama", "num_attention_heads": 0, "head_dim": 64}, "num_attention_heads is 0 in"),
        ({"model_type": "olmo3", "layer_types": ["sliding_attention"] * 5}, "tells the types of 5 layers"),
        (
            {"model_type": "olmo3", "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e5}}},
            "Layers are of the type 'sliding_attention', for which rope_parameters of config.json has no group",
        ),
        (
            {"model_type": "modernbert", "rope_parameters": {"sliding_attention": {"rope_theta": 1e4}}},
            "Layers are of the type 'full_attention', for which rope_parameters of config.json has no group",
        ),
        (
            {"model_type": "olmo3", "layer_types": ["chunked_attention", *["full_attention"] * 3]},
            "Layers are of the type 'chunked_attention', for which the class of 'olmo3'",
        ),
        (
            {"model_type": "qwen2_vl_text", "hidden_size": 1024, "rope_parameters": _GROUPS},
            "has one rotation for all layers, looks for rope_type beside the groups, and fails",
        ),
        ({"model_type": "modernbert", "head_dim": 24}, "head_dim is 24 in config.json, which the class of"),
    ],
)
def test_what_a_class_fails_with_or_has_of_its_own(entries: dict[str, Any], said: str) -> None:
    file = {**_SIZES, **entries}
    assert said in _said(file)
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[entries["model_type"]]
    if "has no group" in said:  # it takes what it has of its own
        _run(config_class, file)
        return
    with pytest.raises(Exception, match=_RAISED[said]):
        _run(config_class, file)
    _run(config_class, {**_SIZES, "hidden_size": file["hidden_size"]})  # so what fails are those entries


def test_types_of_layers_that_nothing_rotates_are_no_model_without_positions() -> None:
    for types in (["full_attn"] * 4, ["chunked_attention"] * 4):
        with pytest.raises(ConfigError, match=types[0]) as caught:
            read_huggingface({"model_type": "olmo3", **_SIZES, "layer_types": types})
        assert not isinstance(caught.value, NoRotaryPositionsError)


@pytest.mark.parametrize("name", ["mistral4", "deepseek_v3", "hy_v3"])
def test_windows_that_only_comments_speak_of(name: str) -> None:
    """ "diff with mixtral: no sliding" is no mask with a window."""
    kind = model_type(name)
    assert kind is not None
    assert kind.is_windowless


_LINEAR_GROUP = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
_MLA: dict[str, Any] = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "qk_rope_head_dim": 64}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "olmo3", **_SIZES, "sliding_window": None}, "there is no number for their window"),
        ({"model_type": "exaone4", **_SIZES, "sliding_window": None}, "there is no number for their window"),
        (
            {"model_type": "qwen2", **_SIZES, "layer_types": ["sliding_attention"] * 4, "sliding_window": 64},
            "use_sliding_window is false",
        ),
        (
            {"model_type": "lfm3", **_SIZES, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
            "has no groups for layer types",
        ),
        (
            {
                "model_type": "deepseek_v3",
                **_MLA,
                "rope_parameters": {**_LINEAR_GROUP, "partial_rotary_factor": 0.25},
            },
            "angles for 16 features, but 64 features of a head are rotated",
        ),
        (
            {"model_type": "mistral4", **_MLA, "rope_parameters": {"type": "linear", "factor": 4.0, "rope_theta": 1e4}},
            "lacks llama_4_scaling_beta",
        ),
        ({"model_type": "cohere_compass_text", **_SIZES}, "looks for one of every type, has none of its own"),
    ],
)
def test_what_layers_and_queries_lack(entries: dict[str, Any], said: str) -> None:
    assert said in _said(entries)
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[entries["model_type"]]
    with pytest.raises(Exception, match=_RAISED[said]):
        _run(config_class, entries)
    if entries["model_type"] != "cohere_compass_text":  # whose entries lack what it needs
        sizes = {name: value for name, value in entries.items() if name in {*_SIZES, *_MLA}}
        _run(config_class, {**sizes, "sliding_window": 64})


def test_the_indexers_of_hy_v4() -> None:
    """modeling_hy_v4_vl.py calls one function for both, which turns neighbours; modeling_hy_v4.py turns halves."""
    for name in ("hy_v4", "hy_v4_vl_text"):
        notes = [each.message for each in read_huggingface({"model_type": name}).findings if "indexer" in each.message]
        assert len(notes) == 1
        assert "as the attention does" in notes[0]


def test_parts_of_a_whole_that_state_less_than_its_class() -> None:
    asr = read_huggingface({"model_type": "glmasr", "text_config": {"hidden_size": 1024}})
    assert asr.config.head_dim == 64  # its class has 16 heads
    for name in ("colpali", "colmodernvbert"):
        file = {"model_type": name, "vlm_config": {"hidden_size": 1024, "num_attention_heads": 8}}
        assert "looks for its text part in 'text_config', which 'vlm_config' of the file lacks" in _said(file)


def test_angles_of_a_whole_that_are_not_of_text() -> None:
    """MusicFlamingoConfig.rope_parameters is for the times of its audio."""
    rope = {"rope_type": "default", "rope_theta": 1200.0}
    file = {"model_type": "musicflamingo", "text_config": {"model_type": "qwen2", **_SIZES, "rope_theta": 1e6}}
    assert read_huggingface(file | {"rope_parameters": rope}) == read_huggingface(file)


def test_a_share_beside_a_scaling_of_a_class_that_rotates_whole_heads() -> None:
    file = {"model_type": "llama", **_SIZES, "partial_rotary_factor": 0.5}
    assert "passes over: it rotates all features" in _said(file)
    assert "rotates whole heads, and fails" in _said(file | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}})
    assert not _findings(file | {"model_type": "stablelm", "rope_scaling": {"rope_type": "linear", "factor": 2.0}})
    own = {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    assert not _findings({"model_type": "llama", **_SIZES, "rope_parameters": own})


def test_entries_that_a_class_does_not_read_and_that_say_nothing_new() -> None:
    file = {"model_type": "cohere2", **_SIZES, "head_dim": 64}
    assert not _findings(file | {"rotary_pct": 1.0, "kv_channels": 64})
    hybrid = {"model_type": "bailing_hybrid", **_MLA, "num_key_value_heads": 4, "num_hidden_layers": 6}
    assert not _findings(hybrid | {"partial_rotary_factor": 0.5})
    assert not _findings({"model_type": "bamba", **_SIZES, "attn_layer_indices": [1], "attn_rotary_emb": 32})


def test_a_share_of_a_head_that_is_no_whole_one_beside_a_separate_part() -> None:
    """BailingHybridConfig replaces head_dim by qk_rope_head_dim, and its rotation reads no share."""
    file = {"model_type": "bailing_hybrid", **_MLA, "num_key_value_heads": 4, "num_hidden_layers": 6, "head_dim": 128}
    parsed = read_huggingface(file | {"partial_rotary_factor": 0.5})
    assert parsed.config.rotary_dim == 64
    same = next(each for each in parsed.findings if "partial_rotary_factor" in each.message)
    assert (same.severity, "passes over" in same.message) == ("note", True)
    assert same.message.endswith("and 0.5 of head_dim 128 are as many.")
    other = read_huggingface(file | {"partial_rotary_factor": 0.25}).findings
    assert [each.severity for each in other if "partial_rotary_factor" in each.message] == ["warning"]
    assert "partial_rotary_factor" not in _said(file | {"partial_rotary_factor": 1.0})


def test_scalings_of_other_code() -> None:
    transformers = pytest.importorskip("transformers")
    known = {"default", "axial", *transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS}
    assert known >= TYPES_OF_TRANSFORMERS - {"proportional"}
    axes = {"type": "mrope", "mrope_section": [8, 12, 12]}
    assert "rope_type is 'mrope' in" in _said({"model_type": "llama", **_SIZES, "rope_scaling": axes})
    assert "rope_type is" not in _said({"model_type": "qwen2_vl_text", **_SIZES, "rope_scaling": axes})


@pytest.mark.parametrize("name", ["openai_privacy_filter", "gpt_oss", "cwm"])
def test_a_group_without_the_scaling_that_the_class_has_of_its_own(name: str) -> None:
    """Their configurations have a scaling where rope_parameters is None, and merge nothing of it into others."""
    file = {"model_type": name, **_SIZES, "layer_types": ["full_attention"] * 4, "max_position_embeddings": 131072}
    bare = read_huggingface(file | {"rope_parameters": {"rope_theta": 150000.0}})
    usual = read_huggingface(file)
    assert [bare.config.scaling.name, usual.config.scaling.name != "none"] == ["none", True]
    said = [each for each in bare.findings if "has no rope_type, and scales nothing then" in each.message]
    assert [each.severity for each in said] == ["warning"]
    assert f"the class of '{name}' in transformers has '{usual.config.scaling.name}' by factor" in said[0].message
    stated = file | {"rope_parameters": {"rope_theta": 150000.0, "rope_type": "default"}}
    said = [each for each in read_huggingface(stated).findings if "scales nothing" in each.message]
    assert [each.severity for each in said] == ["note"]
    assert not any("scales nothing" in each.message for each in usual.findings)
    llama = read_huggingface(stated | {"model_type": "llama"})
    assert not any("scales nothing" in each.message for each in llama.findings)


def test_a_group_of_one_type_without_the_scaling_that_the_class_has_for_it() -> None:
    said = _said(
        {"model_type": "gemma4_text", **_SIZES, "rope_parameters": {**_GROUPS, "full_attention": {"rope_theta": 1e6}}}
    )
    assert "'full_attention' of rope_parameters of config.json has no rope_type" in said
    assert "the class of 'gemma4_text' in transformers has 'proportional'" in said


def test_a_base_that_layers_with_a_window_do_not_have() -> None:
    """Olmo3Config merges rope_theta into the group of full attention."""
    file = {"model_type": "olmo3", **_SIZES, "rope_theta": 1e6}
    assert {name: each.base for name, each in read_huggingface(file).configs.items()} == {
        "full_attention": 1e6,
        "sliding_attention": 5e5,
    }
    assert "full attention alone: those with a window keep 500000" in _said(file)
    assert not _findings(file | {"rope_theta": 5e5})


def test_a_group_without_base_that_the_class_does_not_fill_in() -> None:
    groups = {**_GROUPS, "sliding_attention": {"rope_type": "default"}}
    assert "has no rope_theta, and the class of 'laguna'" in _said(
        {"model_type": "laguna", **_SIZES, "rope_parameters": groups}
    )


def test_shares_that_one_scaling_alone_reads() -> None:
    """The plain rotation of LFM 3 turns whole heads; 'proportional' has a share."""
    groups = {
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
    }
    file = {"model_type": "lfm3", **_SIZES, "head_dim": 64, "rope_parameters": groups}
    assert read_huggingface(file).configs["sliding_attention"].rotary_dim == 64
    assert "partial_rotary_factor is 0.25, which the class of 'lfm3'" in _said(file)


def test_groups_of_lfm_3_that_state_no_share() -> None:
    """Lfm3Config takes groups as they are, fills a share beside them into those without, and keeps those of its own."""
    groups = {
        "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
    }
    file = {"model_type": "lfm3", **_SIZES, "head_dim": 64, "layer_types": ["full_attention", "sliding_attention"] * 2}
    parsed = read_huggingface({**file, "rope_parameters": groups})
    assert parsed.configs["full_attention"].rotary_dim == 64
    assert not any("partial_rotary_factor" in each.message for each in parsed.findings)
    plain = {**groups, "full_attention": {"rope_type": "default", "rope_theta": 1e6}}
    said = _said({**file, "rope_parameters": plain})
    assert "partial_rotary_factor" not in said
    filled = {**groups, "full_attention": {"rope_type": "proportional", "rope_theta": 1e6}}
    for beside, share in ((None, 1), (0.75, 0.75)):
        config = read_huggingface({**file, "rope_parameters": filled, "partial_rotary_factor": beside})
        assert config.configs["full_attention"].scaling == Proportional(rotary_fraction=share)
    parsed = read_huggingface({**file, "partial_rotary_factor": 0.75})
    assert parsed.configs["full_attention"].scaling == Proportional(rotary_fraction=0.5)
    assert parsed.configs["sliding_attention"].rotary_dim == 64
    said = _said({**file, "partial_rotary_factor": 0.75})
    assert "passes over for 'full_attention': it rotates a share of 0.5 of each head there" in said
    assert "passes over for 'sliding_attention': it rotates all features of a head there" in said


def test_the_share_of_deepseek_v4_is_filled_in_by_a_scaling_alone() -> None:
    """Without one, compute_default_rope_parameters takes 1 where a group has no share."""
    plain, scaled = {"rope_type": "default", "rope_theta": 1e4}, {"rope_type": "linear", "factor": 4.0}
    file = {"model_type": "deepseek_v4", **_SIZES, "head_dim": 64}
    for main, compress, rotated in (
        (plain, plain, {"main": 64, "compress": 64}),
        (plain, {**plain, **scaled}, {"main": 64, "compress": 8}),
        ({**plain, **scaled}, plain, {"main": 8, "compress": 8}),
    ):
        parsed = read_huggingface({**file, "rope_parameters": {"main": main, "compress": compress}})
        assert {name: each.rotary_dim for name, each in parsed.configs.items()} == rotated


def test_layers_of_muse_rotate_by_their_number() -> None:
    types = ["sliding_attention"] * 4
    read = read_huggingface({"model_type": "muse_glimmer_text", **_SIZES, "layer_types": types})
    assert [read.of_layer(index) is None for index in range(4)] == [False, False, False, True]


def test_a_number_of_rotated_features_that_its_own_class_passes_over() -> None:
    file = {"model_type": "minimax_m3_vl_text", **_SIZES, "head_dim": 128, "rotary_dim": 64}
    assert read_huggingface(file).config.rotary_dim == 128
    assert "rotary_dim is 64 in config.json, which the class of 'minimax_m3_vl_text'" in _said(file)


def test_types_of_layers_of_other_classes() -> None:
    file = {"model_type": "exaone4", **_SIZES, "layer_types": ["chunked_attention"] * 4}
    assert "'chunked_attention' in layer_types of config.json is a type of other classes" in _said(file)
    assert not _findings(file | {"layer_types": ["full_attention", "sliding_attention"] * 2})


def test_a_share_by_the_name_of_gpt_neox() -> None:
    file = {"model_type": "minimax_m3_vl_text", **_SIZES, "head_dim": 128, "rotary_pct": 0.5}
    assert read_huggingface(file).config.rotary_dim == 128
    assert "rotary_pct is 0.5 in config.json, which the class of" in _said(file)
    assert read_huggingface({"model_type": "gpt_neox", **_SIZES, "rotary_pct": 0.5}).config.rotary_dim == 32


def test_a_null_scaling_that_takes_the_groups() -> None:
    """PreTrainedConfig.rope_scaling is a property that sets rope_parameters; LagunaConfig does not take it out."""
    file = {"model_type": "laguna", **_SIZES, "rope_parameters": _GROUPS}
    assert "rope_scaling is null in config.json: the class of 'laguna'" in _said(file | {"rope_scaling": None})
    assert "rope_scaling is null" not in _said({"model_type": "llama", **_SIZES, "rope_scaling": None})


@pytest.mark.parametrize(
    ("name", "sections", "is_told"),
    [
        ("hunyuan_vl_text", [16, 16, 16, 16], False),
        ("hunyuan_vl_text", [32.0, 32.0], False),
        ("qwen2_vl_text", [16, 16, 16, 16], True),
        ("qwen2_vl_text", [16.0, 24.0, 24.0], True),
    ],
)
def test_a_class_with_as_many_axes_as_there_are_sections(name: str, sections: list[float], is_told: bool) -> None:
    """HunYuanVLTextModel expands positions by the number of sections, Qwen2-VL's class takes three."""
    group = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections}
    said = _said({"model_type": name, **_SIZES, "hidden_size": 1024, "head_dim": 128, "rope_parameters": group})
    assert ("passes over the others or fails" in said or "numbers with a fraction" in said) is is_told


def test_sparse_layers_of_minimax_by_their_group() -> None:
    """MiniMaxM3VLTextConfig makes types of sparse_attention_freq; the indexer of such layers rotates as well."""
    group = {"sparse_attention_freq": [0, 1, 1, 0, 1, 1], "sparse_index_dim": 192}
    file = {"model_type": "minimax_m3_vl_text", **_SIZES, "num_hidden_layers": 6, "sparse_attention_config": group}
    file["head_dim"] = 64
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    types = mapping["minimax_m3_vl_text"].from_dict(copy.deepcopy(file)).layer_types
    parsed = read_huggingface(file)
    assert {each.name: list(each.layers) for each in parsed.layers} == {
        name: [index for index, each in enumerate(types) if each == name] for name in sorted({*types})
    }
    about = [each.message for each in parsed.findings if "indexer" in each.message]
    assert [each.partition(" by the same")[0] for each in about] == [
        "The indexer of the sparse attention rotates the first 64 of its 192 features"
    ]
    group["sparse_index_dim"] = 32
    assert "The indexer of the sparse attention has 32 features, fewer than the 64" in _said(file)
    del file["sparse_attention_config"]
    assert "indexer" not in " ".join(each.message for each in read_huggingface(file).findings)


def test_layers_of_dots_without_an_indexer() -> None:
    file = {"model_type": "dots3_note_text", "num_hidden_layers": 4}
    for uses, is_told in ((True, True), (False, False)):
        found = read_huggingface({**file, "use_dsa": uses}).findings
        assert any(each.message.startswith("The indexer of the sparse attention") for each in found) is is_told


@pytest.mark.parametrize(("order", "is_told"), [("local_attn_first", False), ("global_attn_first", True)])
def test_the_order_of_layers_that_cohere_does_not_read(order: str, is_told: bool) -> None:
    file = {"model_type": "cohere2", **_SIZES, "order_of_interleaved_layers": order}
    said = "order_of_interleaved_layers is 'global_attn_first' in config.json, which the class of 'cohere2'"
    assert (said in _said(file)) is is_told
