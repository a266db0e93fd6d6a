"""Files of models' own code: without a model type, or with one that only their code knows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.extension.inspect.model_class.ask import without_reading
from locant.positions.scaling import Llama3, LongRoPE, YaRN
from locant.rotary_configs import read_huggingface, read_vllm
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.families import is_in_transformers, known_model_types, model_type
from locant.rotary_configs.classes.own_code import OWN_CODE, needs_code
from locant.rotary_configs.classes.sub_configs import is_type_of_transformers

_SIZES = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
_GPT_OSS = {"num_hidden_layers": 4, "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64}
_GPT_OSS |= {"sliding_window": 128, "initial_context_length": 4096, "rope_theta": 150000}
_GPT_OSS |= {"rope_scaling_factor": 32.0, "rope_ntk_alpha": 1, "rope_ntk_beta": 32}
_PARAMS = {"dim": 512, "n_layers": 4, "n_heads": 8, "norm_eps": 1e-5, "rope_theta": 5e5}


def _said(content: dict[str, Any]) -> str:
    return " ".join(each.message for each in read_huggingface(content).findings)


def test_gpt_oss_by_its_own_code() -> None:
    """gpt_oss/torch/model.py: YaRN between corners that are not rounded, every other layer with a window."""
    parsed = read_huggingface(_GPT_OSS)
    assert not parsed.findings
    assert [(kind.window, kind.layers) for kind in parsed.layers] == [(128, (0, 2)), (None, (1, 3))]
    corner = {turns: 32 * math.log(4096 / (turns * 2 * math.pi)) / math.log(150000) for turns in (1, 32)}
    for index, pair in enumerate(parsed.config.explain().pairs):
        ramp = min(1.0, max(0.0, (index - corner[32]) / (corner[1] - corner[32])))
        frequency = 150000 ** (-index / 32)
        assert pair.frequency_after == pytest.approx(frequency / 32 * ramp + frequency * (1 - ramp), rel=1e-12)
    assert parsed.config.attention_scale(9000) == pytest.approx(0.1 * math.log(32) + 1)
    assert read_huggingface(_GPT_OSS | {"rope_scaling_factor": 1.0}).config.scaling.name == "none"


def test_params_json_of_meta_and_mistral() -> None:
    config = read_huggingface(_PARAMS).config
    assert (config.layout, config.base, config.head_dim, config.scaling.name) == ("interleaved", 5e5, 64, "none")
    scaled = read_huggingface(_PARAMS | {"use_scaled_rope": True}).config.scaling
    assert isinstance(scaled, Llama3)
    assert (scaled.factor, scaled.original_length) == (8, 8192)
    assert read_huggingface(_PARAMS | {"use_scaled_rope": True, "rope_scale_factor": 32}).config.scaling.factor == 32  # type: ignore[attr-defined]
    yarn = {"factor": 16, "original_max_position_embeddings": 8192, "beta": 32, "alpha": 1, "apply_scale": False}
    read = read_huggingface(_PARAMS | {"yarn": yarn}).config
    assert isinstance(read.scaling, YaRN)
    assert (read.scaling.factor, read.attention_scale(9000)) == (16, 1)
    lists = {f"rope_scaling_{name}_factor": [1.0] * 32 for name in ("short", "long")}
    lengths = {"original_max_position_embeddings": 4096, "max_position_embeddings": 131072}
    of_phi = read_huggingface(_PARAMS | lists | lengths | {"use_hf_rope": True}).config
    assert isinstance(of_phi.scaling, LongRoPE)
    assert of_phi.layout == "half"
    without = {key: value for key, value in _PARAMS.items() if key != "rope_theta"}
    assert "The file has no rope_theta: Llama 1 and 2 have 10000 then" in _said(without)


def test_layers_of_another_kind_are_told() -> None:
    """A hybrid of somebody's own, with names as in Llama's first code: every fourth layer has no attention."""
    assert "'ssm_every_n' in config.json says which layers are of another kind" in _said(_PARAMS | {"ssm_every_n": 4})
    assert "of another kind" not in _said(_PARAMS | {"ssm_d_conv": 4, "layer_types": ["full_attention"] * 4})


def test_sizes_that_a_class_of_several_parts_passes_over() -> None:
    flat = {**_SIZES, "head_dim": 128, "rope_theta": 1e4}
    assert "looks for its text part in 'text_config', which the file lacks" in _said({"model_type": "qwen3_5", **flat})
    assert "looks for its text part" not in _said({"model_type": "qwen2_vl", **flat, "hidden_size": 1024})


def test_which_classes_of_several_parts_take_sizes_beside_their_groups() -> None:
    transformers = pytest.importorskip("transformers")
    flat = {name for name in known_model_types() if (kind := model_type(name)) is not None and kind.flat}
    assert {"fuyu", "qwen2_vl", "hunyuan_vl"} <= flat
    for name in (*flat, "qwen3_5", "qwen3_vl", "llava", "gemma3"):
        config = transformers.CONFIG_MAPPING[name].from_dict({"model_type": name, "num_hidden_layers": 7})
        takes = config.get_text_config(decoder=True).num_hidden_layers == 7
        assert takes is (name in flat), name


def test_yarn_of_somebodys_own_in_place_of_the_rotation_of_llada() -> None:
    yarn = {"rope": False, "yarn": True, "yarn_scale": 2.0, "yarn_original_max_position_embeddings": 4096}
    yarn |= {"yarn_attn_factor": 1.0, "yarn_extrapolation_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
    llada = {"model_type": "llada", "d_model": 512, "n_heads": 4, "n_layers": 2, "rope_theta": 5e5, **yarn}
    scaling = read_huggingface(llada).config.scaling
    assert isinstance(scaling, YaRN)
    assert (scaling.factor, scaling.original_length) == (2, 4096)
    assert read_huggingface(llada | {"yarn_scale": 1.0}).config.scaling.name == "none"
    with pytest.raises(ConfigError, match="beta_slow 32 and beta_fast 1"):
        read_huggingface(llada | {"yarn_beta_fast": 1.0, "yarn_beta_slow": 32.0})
    with pytest.raises(ConfigError, match="rope false"):
        read_huggingface(llada | {"yarn": False})


def test_tencent_pretrain_turns_neighbours() -> None:
    content = {"emb_size": 512, "heads_num": 8, "layers_num": 2, "rotary_position_embedding": True}
    config = read_huggingface(content).config
    assert (config.layout, config.base, config.head_dim) == ("interleaved", 1e4, 64)


def test_the_transformer_of_flash_linear_attention() -> None:
    content = {"model_type": "transformer", "fuse_norm": True, "hidden_size": 1024, "num_heads": 16}
    parsed = read_huggingface(content)
    assert (parsed.config.layout, parsed.config.base, parsed.config.head_dim) == ("half", 1e4, 64)
    assert "is not known here" in _said({key: value for key, value in content.items() if key != "fuse_norm"})


def test_moonshine() -> None:
    heads = {f"{side}_num_attention_heads": 8 for side in ("encoder", "decoder")}
    content = {"model_type": "moonshine", "hidden_size": 288, "partial_rotary_factor": 0.9, **heads}
    config = read_huggingface(content).config
    assert (config.layout, config.rotary_dim, config.head_dim) == ("interleaved", 32, 36)
    null = content | {"partial_rotary_factor": None}
    assert read_huggingface(null).config.rotary_dim == 36
    assert "rotates a share of 1 of each head then, and 0.9 where it is left out" in _said(null)
    with pytest.raises(ConfigError, match="differ, so heads do"):
        read_huggingface(content | {"encoder_num_attention_heads": 4})


def test_params_json_of_a_model_that_reads_images() -> None:
    """Falcon-Perception's model_args.json: half of each head turns by rows and columns, which no entry says."""
    assert "spatial_patch_size says that the model reads images" in _said(_PARAMS | {"spatial_patch_size": 16})
    assert "reads images" not in _said(_PARAMS)


def test_a_text_part_by_any_name_beside_sizes_of_the_whole() -> None:
    """VILA-1.5: llm_cfg and vision_tower_cfg, and the width of the text part once more."""
    llama = {"model_type": "llama", **_SIZES, "rope_theta": 5e5}
    groups = {"llm_cfg": llama, "vision_tower_cfg": {"model_type": "siglip_vision_model", **_SIZES}}
    config = read_huggingface({"model_type": "llava_llama", "hidden_size": 512, **groups}).config
    assert (config.base, config.head_dim, config.layout) == (5e5, 64, "half")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "wav2vec2-conformer"}, "this model has relative ones"),
        ({"model_type": "wav2vec2-bert", "position_embeddings_type": "relative_key"}, "this model has relative ones"),
        ({"model_type": "dinov3_vit", "rope_theta": 100.0}, "reads images"),
        ({"model_type": "sam2_video"}, "reads images"),
    ],
)
def test_classes_that_turn_something_else(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_huggingface(config | _SIZES)


@pytest.mark.parametrize(("length", "scale"), [(4095, None), (131072, 1.0)])
def test_a_factor_beside_another_ratio_of_lengths(length: int, scale: float | None) -> None:
    """_compute_longrope_parameters takes the factor; MiniCPM-V-4 has 32786 in place of 32768, which changes nothing."""
    lists = {"short_factor": [1.0] * 32, "long_factor": [4.0] * 32, "original_max_position_embeddings": 4096}
    file = {"model_type": "llama", **_SIZES, "max_position_embeddings": length}
    file |= {"rope_scaling": {"rope_type": "longrope", "factor": 1.0, **lists}}
    assert read_huggingface(file).config.attention_scale(9000) == 1.0
    assert ("transformers 4 the ratio: 1.19" in _said(file)) is (scale is not None)


def test_vllm_takes_the_ratio_of_lengths_for_scores_of_longrope() -> None:
    """Phi3LongRoPEScaledRotaryEmbedding: 1 where a model is declared for less than its original length."""
    lists = {"short_factor": [1.0] * 32, "long_factor": [4.0] * 32, "original_max_position_embeddings": 4096}
    file = {"model_type": "phi3", **_SIZES, "max_position_embeddings": 512}
    file |= {"rope_scaling": {"rope_type": "longrope", "factor": 4.0, **lists}}
    assert read_vllm({}, file).config.attention_scale(9000) == 1.0
    by_factor = math.sqrt(1 + math.log(4) / math.log(4096))
    assert read_huggingface(file).config.attention_scale(9000) == pytest.approx(by_factor)


def test_the_class_that_architectures_names() -> None:
    phi = {"architectures": ["Phi3ForCausalLM"], **_SIZES, "partial_rotary_factor": 0.75}
    assert read_huggingface(phi).config.rotary_dim == 48
    assert "The file has no model_type: it is read as the class of 'phi3'" in _said(phi)
    named = read_huggingface(phi | {"model_type": "phi4"})
    said = [each for each in named.findings if "The model type 'phi4' is not known here: it is read as" in each.message]
    assert [each.severity for each in said] == ["warning"]
    assert "halves are assumed" in _said(phi | {"architectures": ["NovelForCausalLM"]})
    bunny = {"model_type": "bunny-phi", "architectures": ["BunnyPhiForCausalLM"], **_SIZES}
    assert read_huggingface(bunny).config.rotary_dim == 32  # half of the head, by Phi's class
    assert "'bunny-phi' is not known here: it is read as the class of 'phi'" in _said(bunny)
    glm = read_huggingface({"architectures": ["GlmForCausalLM"], **_SIZES})
    assert (glm.config.layout, glm.config.rotary_dim, glm.config.head_dim) == ("interleaved", 64, 128)


def test_shares_beside_groups_that_the_class_passes_over() -> None:
    """Gemma4TextConfig: a group for every layer type, whatever stands beside."""
    sizes = {"hidden_size": 512, "num_attention_heads": 2, "head_dim": 256, "num_hidden_layers": 6}
    text = {"model_type": "gemma4_text", **sizes, "partial_rotary_factor": 0.25}
    configs = read_huggingface(text).configs
    assert configs["sliding_attention"].rotary_dim == 256
    assert configs["full_attention"].scaling.turning_fraction == 0.25
    assert "passes over for 'sliding_attention': it takes" in _said(text)
    assert "passes over it for 'full_attention'" not in _said(text)


def test_latent_attention_that_the_file_leaves_out() -> None:
    """DeepseekV3Config, which Kimi-K2 has: qk_rope_head_dim is 64."""
    config = read_huggingface({"model_type": "kimi_k2", **_SIZES, "kv_channels": 128, "rope_theta": 50000.0}).config
    assert (config.head_dim, config.rotary_dim, config.layout) == (64, 64, "interleaved")


def test_the_window_that_mimo_makes_of_the_tokens_before_each_one() -> None:
    """configuration_mimo_v2_flash.py of transformers, __post_init__."""
    parsed = read_huggingface({"model_type": "mimo_v2_flash", **_SIZES, "head_dim": 192, "sliding_window_size": 128})
    assert {each.window for each in parsed.layers} == {None, 129}
    said = [each.message for each in parsed.findings if each.message.startswith("sliding_window_size is 128")]
    assert len(said) == 1
    assert "a window of 129 tokens" in said[0]


@pytest.mark.parametrize("window", [None, 0, -1])
def test_windows_that_are_none(window: int | None) -> None:
    attn = {"layers": [1], "num_heads": 8, "window_size": window}
    parsed = read_huggingface({"model_type": "gla", "hidden_size": 512, "num_hidden_layers": 2, "attn": attn})
    assert [(kind.name, kind.window) for kind in parsed.layers if kind.attends] == [("full_attention", None)]
    mimo = {"model_type": "mimo_v2_flash", **_SIZES, "head_dim": 192, "hybrid_layer_pattern": [1, 0, 1, 0]}
    windows = {kind.window for kind in read_huggingface(mimo | {"sliding_window_size": window}).layers}
    assert 1 not in windows


@pytest.mark.parametrize("attn", [None, {"layers": [], "num_heads": 8}])
def test_linear_attention_alone_has_no_positions_and_is_no_error(attn: dict[str, Any] | None) -> None:
    """fla/models/gla: all layers are GatedLinearAttention where the file has no group attn, as published files."""
    with pytest.raises(NoRotaryPositionsError, match="no others: a recurrence alone tells the order"):
        read_huggingface({"model_type": "gla", "hidden_size": 512, "num_hidden_layers": 2, "attn": attn})


def test_zamba_2_has_heads_of_twice_the_width() -> None:
    zamba = {"model_type": "zamba2", **_SIZES, "num_hidden_layers": 54, "use_mem_rope": True}
    assert read_huggingface(zamba).config.head_dim == 128
    assert read_huggingface(zamba | {"attention_head_dim": 64, "kv_channels": 64}).config.head_dim == 128
    assert "'zamba2' passes over: its heads have" in _said(zamba | {"attention_head_dim": 64})


@pytest.mark.parametrize("mixed", [None, 0.6])
def test_the_fixed_ntk_of_gte(mixed: float | None) -> None:
    """NTKScalingRotaryEmbedding in the modeling.py of new-impl."""
    group = {"type": "ntk", "factor": 8.0} | ({"mixed_b": mixed} if mixed else {})
    gte = {"model_type": "new", **_SIZES, "rope_theta": 20000, "rope_scaling": group, "max_position_embeddings": 8192}
    config = read_huggingface(gte).config
    assert config.attention_scale(9000) == 1
    for index, pair in enumerate(config.explain().pairs):
        base = 20000.0 if mixed else 20000.0 * 8
        over = math.exp(math.log(8) / 32**mixed * (index + 1) ** mixed) if mixed else 8 ** (2 / 64)
        assert pair.frequency_after == pytest.approx(base ** (-index / 32) / over, rel=1e-9)


@pytest.mark.parametrize(("trained", "base"), [(8192, 10000.0), (32768, 10000.0 * 7 ** (64 / 62))])
def test_telechat_raises_its_base_for_the_length_of_its_training(trained: int, base: float) -> None:
    telechat = {"model_type": "telechat", "hidden_size": 512, "n_head": 8, "n_layer": 2, "seq_length": trained}
    config = read_huggingface(telechat | {"training_seqlen": trained, "base_seqlen": 8192}).config
    assert (config.base, config.rotary_dim, config.layout) == (pytest.approx(base), 64, "half")


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
def test_yarn_of_telechat_3_has_an_attention_scale_of_its_own(name: str) -> None:
    """patch_legacy_rope_type in vLLM: 0.07 * math.log(factor) + 1.0; mlx-lm takes the type for plain YaRN."""
    group = {"rope_type": "telechat3-yarn", "type": "telechat3-yarn", "factor": 4.0}
    file = {"model_type": "telechat3", **_SIZES, "rope_theta": 1e6, "max_position_embeddings": 32768}
    parsed = read_huggingface(file | {name: group | {"original_max_position_embeddings": 8192}})
    scale = 0.07 * math.log(4) + 1
    assert parsed.config.scaling == YaRN(factor=4.0, original_length=8192, attention_factor=scale)
    assert (parsed.config.base, parsed.config.layout) == (1e6, "half")
    said = " ".join(each.message for each in parsed.findings)
    assert "is YaRN with the attention scale 0.07 * ln(factor) + 1, 1.09704 here" in said
    assert "the usual 1.13863" in said
    with pytest.raises(ConfigError, match="factor"):
        _ = read_huggingface(file | {name: group | {"factor": 0}}).config


def test_files_of_the_code_beside_deepseeks_checkpoints() -> None:
    """inference/model.py: precompute_freqs_cis, by the defaults of ModelArgs."""
    file = {"dim": 512, "inter_dim": 1024, "n_layers": 4, "n_heads": 8, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    config = read_huggingface(file).config
    assert (config.layout, config.rotary_dim, config.base) == ("interleaved", 64, 10000.0)
    assert isinstance(config.scaling, YaRN)
    assert (config.scaling.factor, config.scaling.original_length, config.attention_scale(9000)) == (40, 4096, 1)
    assert read_huggingface(file | {"max_seq_len": 4096}).config.scaling.name == "none"


def test_files_of_code_after_a_book() -> None:
    """Build a Large Language Model (From Scratch): compute_rope_params and apply_rope, which turns halves."""
    file = {"emb_dim": 512, "n_heads": 8, "n_layers": 6, "context_length": 131072, "rope_base": 5e5, "head_dim": 64}
    config = read_huggingface(file).config
    assert (config.layout, config.base, config.rotary_dim, config.scaling.name) == ("half", 5e5, 64, "none")
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context_length": 8192}
    scaled = read_huggingface(file | {"rope_freq": scaling}).config.scaling
    assert isinstance(scaled, Llama3)
    assert (scaled.factor, scaled.original_length) == (8, 8192)
    types = ["sliding_attention"] * 5 + ["full_attention"]
    gemma = read_huggingface(file | {"layer_types": types, "rope_local_base": 1e4, "sliding_window": 256})
    assert {name: each.base for name, each in gemma.configs.items()} == {
        "full_attention": 5e5,
        "sliding_attention": 1e4,
    }
    assert not gemma.findings


@pytest.mark.parametrize("name", ["position_embedding", "positional_encoding"])
def test_positions_that_are_named_otherwise(name: str) -> None:
    """A description of a model of somebody's own says no more than that it rotates."""
    said = _said({"d_model": 512, "n_heads": 8, "n_layers": 4, name: "rope"})
    assert "halves are assumed" in said
    assert "Nor does it say that the model rotates" not in said


def test_usual_entries_by_other_names() -> None:
    own = {"model_type": "mine", **_SIZES, "rotary_base": 5e5, "partial_rope_ratio": 0.25}
    own |= {"custom_rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}}
    config = read_huggingface(own).config
    assert (config.base, config.rotary_dim, config.head_dim, config.scaling.name) == (5e5, 16, 64, "yarn")
    with pytest.raises(ConfigError, match=r"'custom_rope_scaling' in config\.json is not known"):
        read_huggingface(own | {"rope_scaling": {"type": "linear", "factor": 2.0}})


def test_a_group_with_sizes_and_positions_that_its_class_does_not_have() -> None:
    group = {"model_type": "gpt2", "n_embd": 512, "n_head": 8, "n_layer": 2, "position_embedding_type": "rope"}
    whole = {"model_type": "mine", "hidden_size": 512, "gpt2_config": group | {"rope_base": 5e5}}
    config = read_huggingface(whole | {"auto_map": {"AutoModel": "mine.Mine"}}).config
    assert (config.base, config.rotary_dim) == (5e5, 64)
    with pytest.raises(ConfigError, match="'gpt2' in transformers has no rotary positions"):
        read_huggingface(whole)


def test_no_name_is_proposed_for_itself() -> None:
    said = _said({"model_type": "novel", **_SIZES, "rope_theta": 1e4, "global_rope_theta": 5e5})
    assert "Did you mean 'global_rope_theta'" not in said


def test_what_transformers_has_a_class_for_is_not_known_by_code_of_its_own_too() -> None:
    """exaone, minicpm3 and internlm3 came with code of their own before transformers had them."""
    by_class = [name for name in ("exaone", "minicpm3", "internlm3", "dbrx") if not is_in_transformers(name)]
    assert not by_class
    stored = json.loads((Path(families.__file__).parent / "model_types.json").read_text(encoding="utf-8"))
    assert not OWN_CODE.keys() & stored.keys()


@pytest.mark.parametrize("name", ["internlm2", "qwen", "minicpmv", "kimi_k2", "phi4flash"])
def test_transformers_loads_types_that_it_has_no_class_of_by_their_code_alone(name: str) -> None:
    content = {"model_type": name, "hidden_size": 512, "num_attention_heads": 8, "rope_theta": 1e6}
    code = {"AutoConfig": "publisher/model--configuration_it.ItConfig", "AutoModel": "modeling_it.ItModel"}
    for auto_map, severity, said in (
        ({}, "warning", "and the file names no code for it in auto_map: it refuses the file"),
        ({"auto_map": {"AutoModel": code["AutoModel"]}}, "warning", "the file has no AutoConfig in auto_map"),
        ({"auto_map": code}, "note", "by the code that auto_map names (configuration_it), and refuses it without"),
    ):
        (told,) = needs_code(content | auto_map)
        assert (told.severity, said in told.message) == (severity, True), told
    for of_transformers in ("llama", "wav2vec2-bert", "of nobody", None):
        assert not needs_code(content | {"model_type": of_transformers})


def test_the_code_that_a_file_needs_is_told_whether_or_not_it_rotates() -> None:
    assert "transformers has no class of the model type 'internlm2'" in _said({"model_type": "internlm2", **_SIZES})
    assert not read_vllm("{}", {"model_type": "internlm2", **_SIZES, "rope_theta": 1e6}).findings
    (told,) = without_reading(None, {"model_type": "rwkv5"})
    assert "transformers has no class of the model type 'rwkv5'" in told.message


def test_types_that_transformers_has_are_those_of_the_release_that_is_installed() -> None:
    transformers = pytest.importorskip("transformers")
    from zoo.sub_configs import PATH, sub_configs

    if transformers.__version__.startswith("5.24"):
        assert sub_configs() == json.loads(PATH.read_text(encoding="utf-8"))
        assert all(map(is_type_of_transformers, transformers.CONFIG_MAPPING.keys()))


def test_what_neobert_saves_of_its_heads_is_no_misspelling() -> None:
    """NeoBERTConfig (model.py) computes dim_head from the width and the heads."""
    file = {"model_type": "neobert", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 28}
    parsed = read_huggingface({**file, "dim_head": 64, "max_length": 4096})
    assert not [each for each in parsed.findings if "dim_head" in each.message]


def test_layers_of_phi3_small_that_attend_block_sparsely_are_told() -> None:
    file = {"model_type": "phi3small", "hidden_size": 4096, "num_attention_heads": 32, "rope_embedding_base": 1e6}
    sparse = {"blocksparse_block_size": 64, "blocksparse_num_local_blocks": 16, "blocksparse_vert_stride": 8}
    for content, told in (
        (file, []),
        (file | sparse, ["All layers attend block-sparsely"]),
        (file | sparse | {"dense_attention_every_n_layers": 2}, ["Layers whose number, counted from 1, is no "]),
    ):
        said = [each.message for each in read_huggingface(content).findings if "block-sparsely" in each.message]
        assert [each[: len(start)] for each, start in zip(said, told, strict=True)] == told
        assert all("its own block of 64 tokens, the 15 blocks before it and" in each for each in said)
