"""Models that rotate nothing: which positions they have, their windows, and entries of a file without effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError, error_finding
from locant.rotary_configs.classes import families


def _said(name: str, **entries: Any) -> str:
    with pytest.raises(NoRotaryPositionsError) as refused:
        read_huggingface({"model_type": name, **entries})
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("bert", "learned ones"),
        ("imagegpt", "learned ones"),
        ("m2m_100", "sinusoidal ones"),
        ("ctrl", "sinusoidal ones"),
        ("bloom", "ALiBi"),
        ("gpt_refact", "ALiBi"),
        ("t5", "T5's biases by buckets of relative positions"),
        ("xlnet", "as in Transformer-XL"),
        ("wav2vec2", "a convolution"),
        ("mpnet", "learned ones, which are added to the embeddings, and T5's biases"),
        ("vits", "embeddings of relative positions in the keys (here: 'shaw')"),
        ("mamba", "a recurrence or attention alone"),
    ],
)
def test_the_scheme_of_a_class_is_named(name: str, scheme: str) -> None:
    assert f"'{name}'" in _said(name)
    assert scheme in _said(name)


def test_most_classes_of_text_are_known_by_their_schemes() -> None:
    """The few that are left have positions that no module or parameter tells."""
    unnamed = [
        name
        for name in (
            "albert",
            "big_bird",
            "canine",
            "ernie",
            "fnet",
            "flaubert",
            "led",
            "marian",
            "opt",
            "pegasus",
            "xglm",
        )
        if ", but " not in _said(name)
    ]
    assert unnamed == []
    assert families.is_in_transformers("pegasus")


def test_switches_of_deberta_count() -> None:
    file = {"relative_attention": True, "position_biased_input": False, "position_buckets": 256}
    said = _said("deberta-v2", **file, pos_att_type="p2c|c2p")
    assert "disentangled attention to relative positions" in said
    assert "position_buckets 256, pos_att_type 'p2c|c2p'" in said
    assert "learned" not in said
    plain = _said("deberta-v2", relative_attention=False, position_biased_input=True)
    assert "learned ones" in plain
    assert "disentangled" not in plain


def test_a_model_that_nothing_tells_the_order_of_a_text_is_no_model_in_which_nothing_is_wrong() -> None:
    """Swapping two tokens changes nothing of a third one in these classes: ``knows_no_order`` of the zoo."""
    files: list[tuple[str, dict[str, Any], str]] = [
        ("esm", {"position_embedding_type": "relative_key"}, "position_embedding_type 'rotary', or position_embedd"),
        ("clvp_encoder", {"use_rotary_embedding": False}, "use_rotary_embedding true, as"),
        (
            "deberta-v2",
            {"relative_attention": False, "position_biased_input": False, "position_buckets": 256},
            "relative_attention true or position_biased_input true",
        ),
    ]
    for name, entries, remedy in files:
        with pytest.raises(NoRotaryPositionsError, match="no others: nothing tells the order of a text") as refused:
            read_huggingface({"model_type": name, **entries})
        found = error_finding(refused.value, "config.json")
        assert found.severity == "warning"
        assert remedy in found.remedy
    assert "position_buckets 256 has no effect there: the class reads that with relative_attention true" in str(
        refused.value
    )


def test_a_switch_of_the_rotation_is_told_by_what_it_leaves() -> None:
    assert "but learned ones" in _said("esm")
    assert "leaves it out ('absolute')" in _said("esm")
    assert "causal masks or a recurrence alone tell the order" in _said("zamba2")
    assert "has none at all, and the convolutions of its blocks" in _said(
        "wav2vec2-bert", position_embeddings_type=None
    )


def test_a_word_that_a_conformer_does_not_know_leaves_it_without_positions() -> None:
    with pytest.raises(NoRotaryPositionsError, match=r"has none at all, .* is 'rope' in config.json") as refused:
        read_huggingface({"model_type": "wav2vec2-conformer", "position_embeddings_type": "rope"})
    assert error_finding(refused.value, "config.json").severity == "warning"
    with pytest.raises(ConfigError, match=r"is 'rope' in config.json, .* it refuses the file") as raised:
        read_huggingface({"model_type": "wav2vec2-bert", "position_embeddings_type": "rope"})
    assert not isinstance(raised.value, NoRotaryPositionsError)


@pytest.mark.parametrize("name", [*families.TURNS_BEFORE_PROJECTIONS])
def test_the_words_of_conformers_are_those_of_their_classes(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    if name not in transformers.CONFIG_MAPPING:
        pytest.skip("an older release")
    config_class = transformers.CONFIG_MAPPING[name]
    assert config_class().position_embeddings_type == families.TURNS_BEFORE_PROJECTIONS[name][-1]
    known = []
    for word in ("rotary", "relative", "relative_key", "rope"):
        try:
            config = config_class(
                hidden_size=16, num_attention_heads=2, num_hidden_layers=1, position_embeddings_type=word
            )
        except Exception:
            assert name in families.REFUSES_OTHER_WORDS
            continue
        assert word != "rope" or name not in families.REFUSES_OTHER_WORDS
        encoder = transformers.AutoModel.from_config(config).encoder
        has_distances = hasattr(encoder.layers[0].self_attn, "distance_embedding")
        known += [word] if encoder.embed_positions is not None or has_distances else []
    assert known == ["rotary", *families.TURNS_BEFORE_PROJECTIONS[name]]


@pytest.mark.parametrize(
    ("name", "word", "said"),
    [
        ("seamless_m4t", "rotray", "'transformer-xl') with 'relative' alone."),
        ("seamless_m4t", "rotary", "turns hidden states"),
        ("seamless_m4t_v2", "relative", "'shaw') with 'relative_key' alone."),
    ],
)
def test_words_of_position_embeddings_type_that_an_encoder_of_speech_does_not_know(
    name: str, word: str, said: str
) -> None:
    with pytest.raises(NoRotaryPositionsError) as caught:
        read_huggingface({"model_type": name, "position_embeddings_type": word})
    assert f"position_embeddings_type is '{word}'" in str(caught.value)
    assert said in str(caught.value)
    with pytest.raises(NoRotaryPositionsError) as usual:
        read_huggingface({"model_type": name})
    assert "position_embeddings_type" not in str(usual.value)


def test_a_switch_that_is_left_out_beside_a_base_is_doubted() -> None:
    for entries, severity in (
        ({"rope_theta": 1e7}, "warning"),
        ({}, "note"),
        ({"rope_theta": 1e7, "position_embedding_type": "nope"}, "note"),
    ):
        with pytest.raises(NoRotaryPositionsError) as refused:
            read_huggingface({"model_type": "granitemoehybrid", **entries})
        assert error_finding(refused.value, "config.json").severity == severity
        assert ("rope_theta of the file has no effect then" in str(refused.value)) == (severity == "warning")


def test_sizes_of_t5s_buckets_are_told_and_a_length_that_limits_nothing() -> None:
    said = _said("t5", n_positions=512, relative_attention_num_buckets=32, relative_attention_max_distance=128)
    assert "with relative_attention_num_buckets 32, relative_attention_max_distance 128" in said
    assert "n_positions 512 limits nothing there" in said
    assert "limits nothing" not in _said("gpt2", n_positions=1024)
    assert "limits nothing" not in _said("bert", max_position_embeddings=512)
    assert "limits nothing" not in _said("dpr", max_position_embeddings=77)  # BertEmbeddings, of another module


def test_entries_of_mpts_own_code_have_no_effect_in_the_class_of_transformers() -> None:
    said = _said("mpt", learned_pos_emb=True, attn_config={"alibi": False, "attn_type": "multihead_attention"})
    assert "alibi false has no effect there" in said
    assert "learned_pos_emb true has no effect there" in said
    assert "no effect" not in _said("mpt", attn_config={"alibi": True})


def test_windows_of_gpt_neo_are_told() -> None:
    """GPTNeoConfig.expand_attention_types_params repeats each list of types."""
    types = [[["global", "local"], 2], [["local"], 2]]
    said = _said("gpt_neo", attention_types=types, window_size=128, num_layers=6)
    assert "Layers 1, 3, 4, 5 of 6 have a window of 128." in said
    known = pytest.importorskip("transformers").CONFIG_MAPPING
    layers = known["gpt_neo"](attention_types=types, num_layers=6).attention_layers
    assert [index for index, each in enumerate(layers) if each == "local"] == [1, 3, 4, 5]


def test_schemes_are_those_of_the_classes_that_are_installed() -> None:
    transformers = pytest.importorskip("transformers")
    from zoo.other_positions import PATH, positions_of

    if not transformers.__version__.startswith("5.24."):
        pytest.skip("the facts are of release 5.24")
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    for name in ("bert", "t5", "deberta-v2", "mpt", "gpt_neo", "wavlm", "esm", "zamba2", "perceiver"):
        config_class = transformers.CONFIG_MAPPING[name]
        assert stored[name] == positions_of(config_class), name


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("blenderbot", {"max_position_embeddings": 128}, "ends at 128 tokens, by max_position_embeddings: it fails"),
        # RoBERTa counts from the position after that of filling.
        ("roberta", {"max_position_embeddings": 514, "pad_token_id": 1}, "ends at 512 tokens, by max_position_embedd"),
        ("mpt", {"max_seq_len": 2048}, "ends at 2048 tokens, by max_seq_len: it fails"),
        ("esm", {"max_position_embeddings": 1026, "pad_token_id": 1}, "ends at 1024 tokens"),
        ("m2m_100", {"max_position_embeddings": 1024}, ""),  # whose class makes the table longer where it has to
        ("deberta-v2", {"max_position_embeddings": 512, "position_biased_input": False}, ""),
    ],
)
def test_where_a_table_of_positions_ends_is_told(name: str, entries: dict[str, Any], said: str) -> None:
    text = _said(name, **entries)
    assert ("Its table of positions ends" in text) is bool(said)
    assert said in text


def test_tables_beside_a_rotation() -> None:
    """GPT-J computes cosines once, for n_positions; ESM makes its table of max_position_embeddings without rotation."""

    def told(**file: Any) -> list[str]:
        return [each.message for each in read_huggingface(file).findings if "table" in each.message]

    (said,) = told(model_type="gptj", n_positions=512)
    assert "has a table of cosines and sines, which ends at 512 tokens, by n_positions: it fails" in said
    rotary = {"model_type": "esm", "position_embedding_type": "rotary", "vocab_size": 33, "pad_token_id": 1}
    (said,) = told(**rotary, max_position_embeddings=1026)
    assert "max_position_embeddings is 1026 in config.json, which limits no text" in said
    assert "with position_embedding_type 'absolute' alone" in said
    assert not told(**rotary)
    assert not told(model_type="llama", max_position_embeddings=512)


def test_a_base_that_no_entry_changes_is_not_told_as_left_out() -> None:
    (said,) = [
        each.message for each in read_huggingface({"model_type": "roformer"}).findings if "10000" in each.message
    ]
    assert said == "The class of 'roformer' in transformers has the base 10000, which no entry changes."


def test_tables_are_those_of_the_classes_that_are_installed() -> None:
    transformers = pytest.importorskip("transformers")
    from zoo.position_tables import PATH, table_of

    if not transformers.__version__.startswith("5.24."):
        pytest.skip("the facts are of release 5.24")
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    for name in ("roberta", "gptj", "llama"):
        assert stored.get(name) == table_of(transformers.CONFIG_MAPPING[name]), name


def test_models_by_their_own_code() -> None:
    yuan = read_huggingface({"model_type": "yuan", "hidden_size": 2048, "num_attention_heads": 32})
    assert (yuan.config.rotary_dim, yuan.config.layout, yuan.config.base) == (64, "half", 10000.0)
    gpt2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "position_embedding_type": "rope"}
    code = {"AutoConfig": "configuration_moss_tts_nano.MossTTSNanoConfig"}
    whole = {"model_type": "moss_tts_nano", "auto_map": code, "max_position_embeddings": 32768}
    moss = read_huggingface({**whole, "gpt2_config": {**gpt2, "rope_base": 20000.0, "n_positions": 32768}})
    assert not any("max_position_embeddings" in each.message for each in moss.findings)
    assert (moss.config.rotary_dim, moss.config.layout, moss.config.base) == (64, "interleaved", 20000.0)


def test_stripedhyena_divides_positions_where_it_is_told_to() -> None:
    file = {
        **{"model_type": "stripedhyena", "hidden_size": 4096, "num_attention_heads": 32, "num_layers": 32},
        **{"attn_layer_idxs": [8, 16, 24], "rotary_emb_base": 10000, "rotary_emb_scaling_factor": 16},
    }
    divided = read_huggingface({**file, "use_interpolated_rotary_pos_emb": True})
    assert (divided.config.scaling.name, divided.config.head_dim) == ("linear", 128)
    assert [each.layers for each in divided.layers if each.config] == [(8, 16, 24)]
    plain = read_huggingface({**file, "use_interpolated_rotary_pos_emb": False})
    assert plain.config.scaling.name == "none"
    assert any("rotary_emb_scaling_factor is 16" in each.message for each in plain.findings)


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("longformer", {"attention_window": 512}, "By attention_window, every token sees 256 tokens on each side"),
        ("led", {"attention_window": [256, 1024]}, "every token of the encoder sees 128 to 512 tokens on each side"),
        ("longt5", {}, "By local_radius, every token of the encoder sees 127 tokens on each side"),
    ],
)
def test_windows_of_both_sides_are_told(name: str, entries: dict[str, Any], said: str) -> None:
    assert said in _said(name, **entries)


@pytest.mark.parametrize(
    "entries", [{}, {"local_layer_ids": [1, 3]}, {"layer_types": ["hybrid_sliding"] + ["hybrid"] * 7}]
)
def test_windows_of_inkling_are_told(entries: dict[str, Any]) -> None:
    known = pytest.importorskip("transformers").CONFIG_MAPPING
    if "inkling_text" not in known:
        pytest.skip("this release of transformers has no 'inkling_text'")
    types = known["inkling_text"](num_hidden_layers=8, **entries).layer_types
    local = [str(index) for index, each in enumerate(types) if each == "hybrid_sliding"]
    said = _said("inkling_text", num_hidden_layers=8, sliding_window_size=64, **entries)
    assert f"{', '.join(local)} of 8 ha" in said
    assert "a window of 64." in said


@pytest.mark.parametrize("name", ["deberta", "deberta-v2", "sew-d"])
def test_the_length_in_the_place_of_one_below_1(name: str) -> None:
    """modeling_deberta.py takes max_position_embeddings where max_relative_positions is below 1."""
    on = {"relative_attention": True, "max_position_embeddings": 1024}
    assert "max_relative_positions -1 stands for max_position_embeddings, 1024" in _said(
        name, **on, max_relative_positions=-1
    )
    assert "max_relative_positions, which is left out, stands for max_position_embeddings, 1024" in _said(name, **on)
    assert "stands for" not in _said(name, **on, max_relative_positions=128)


def test_positions_before_the_stacks_of_speecht5_are_told_too() -> None:
    """SpeechT5SpeechEncoderPrenet and SpeechT5TextDecoderPrenet know positions, which the models of tasks hand in."""
    with pytest.raises(NoRotaryPositionsError) as told:
        read_huggingface({"model_type": "speecht5"})
    said = str(told.value)
    assert all(each in said for each in ("'shaw'", "'sinusoidal'", "a convolution over neighbouring hidden states"))
