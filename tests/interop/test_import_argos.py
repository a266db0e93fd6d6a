"""Packages of Argos Translate as Locant models: our own, and those that CTranslate2 converts from OpenNMT-py."""

from __future__ import annotations

import argparse
import io
import json
import math
import shutil
import stat
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sentencepiece
import torch
from ctranslate2.converters import OpenNMTPyConverter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_models import build, padded
from test_strange_folders import VALUES, places, with_value

from locant.cli import main
from locant.errors import CheckpointError, ConfigError, LocantError
from locant.interop import export_argos, export_huggingface, export_onnx, import_argos
from locant.models import DecodingSettings
from locant.training.finetuning import open_parent
from locant.training.settings import FineTuningSettings
from locant.translation import Translator, load_translator

SENTENCES = ["kalo mir", "tenbu shi gra no", "zap", "u\u0308m ka", "ka ka ka ka ka ka ka ka"]
LANGUAGES = {"source_language": "en", "target_language": "de"}
LIMIT = {"max_length_ratio": 1e-9, "max_length_extra": 19}
METADATA = {"from_code": "en", "from_name": "English", "to_code": "es", "to_name": "Spanish"}
WIDTH, HEADS, LAYERS, INNER = 32, 4, 2, 48


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("changes", "quantization"),
    [
        ({}, None),
        ({"norm": "pre", "feed_forward": "swiglu", "tie_output": False}, None),
        ({"share_embeddings": False, "feed_forward": "gelu"}, None),
        ({"position_options": {"dialect": "tensor2tensor", "start": 2}}, None),
        ({"position": "rotary"}, None),
        ({"position": "rotary", "position_options": {"layout": "interleaved", "base": 500.0, "rotary_dim": 4}}, None),
        ({}, "int8"),
        ({"norm": "pre"}, "int16"),
        ({"norm": "pre", "position": "rotary"}, "int8"),
        ({}, "bfloat16"),
    ],
    ids=str,
)
def test_our_own_packages_come_back(changes, quantization, joint, separate, tmp_path):
    tokenizers = separate if changes.get("share_embeddings") is False else joint
    decoding = DecodingSettings(usual_source_length=40, **LIMIT)
    translator = Translator(build(tokenizers, **changes), tokenizers, decoding, **LANGUAGES)
    translator.save_pretrained(tmp_path / "run")
    export_argos(tmp_path / "run", tmp_path / "a.argosmodel", quantization=quantization)
    notes = import_argos(tmp_path / "a.argosmodel", tmp_path / "back")
    back = Translator.from_pretrained(tmp_path / "back", device="cpu")
    assert back.settings.usual_source_length == 40
    assert (back.source_language, back.target_language) == ("en", "de")
    assert back.model.config.tie_output == translator.model.config.tie_output
    if quantization is None:
        assert back.translate(SENTENCES, beam=4, **LIMIT) == translator.translate(SENTENCES, beam=4)
        own, found = translator.model.state_dict(), back.model.state_dict()
        assert own.keys() == found.keys()
        # Rows of the vocabulary stand in another order where the two SentencePiece models differ.
        assert all(
            torch.equal(own[name], found[name]) for name in own if "embedding" not in name and name != "output.weight"
        )
    else:
        assert any(f"Weights were {quantization.partition('_')[0]}" in note for note in notes)
        # Norms and positions are rounded too, the positions in the package alone.
        atol = 5e-3 if quantization == "bfloat16" else 2e-4
        assert_computes_as_ctranslate2(tmp_path / "a.argosmodel", back, tmp_path, pad="<pad>", atol=atol)


def unpacked(package: Path, folder: Path) -> tuple[Path, sentencepiece.SentencePieceProcessor]:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder / "unpacked")
    (top,) = (folder / "unpacked").iterdir()
    return top, sentencepiece.SentencePieceProcessor(model_file=str(top / "sentencepiece.model"))


def assert_computes_as_ctranslate2(
    package: Path, found: Translator, folder: Path, *, pad: str, atol: float = 2e-4
) -> None:
    """Greedy translations and the log-probability of each of their tokens."""
    top, pieces = unpacked(package, folder)
    other = ctranslate2.Translator(str(top / "model"), device="cpu", intra_threads=1, compute_type="float32")
    tokens = [pieces.encode(text, out_type=str) for text in SENTENCES]
    search: dict[str, Any] = {"beam_size": 1, "max_decoding_length": 20, "length_penalty": 0}
    results = other.translate_batch(tokens, **search, suppress_sequences=[[pad], ["<s>"]])
    written = [result.hypotheses[0] for result in results]
    assert found.translate(SENTENCES, beam=1, **LIMIT) == [pieces.decode_pieces(row) for row in written]
    assert all(written)

    target = found.tokenizers.target
    scored = other.score_batch(tokens, written)
    for ids, row, result in zip(found.tokenizers.source.encode(SENTENCES), written, scored, strict=True):
        source, length = padded([found.search_input(ids, found.settings)[0]])
        inputs = [2, *(target.id(token) for token in row)]
        with torch.no_grad():
            logits = found.model(source, length, torch.tensor([inputs]))[0]
        if pad == "<pad>":  # ours says that these two are never written
            logits[:, [0, 2]] = -torch.inf
        expected = logits.log_softmax(-1)[range(len(inputs)), [*inputs[1:], 3]]
        torch.testing.assert_close(torch.tensor(result.log_probs), expected, atol=atol, rtol=0)


def sinusoid(rows: int) -> torch.Tensor:
    """PositionalEncoding of OpenNMT-py, onmt/modules/embeddings.py."""
    table = torch.zeros(rows, WIDTH)
    steps = torch.exp(torch.arange(0, WIDTH, 2, dtype=torch.float) * -(math.log(10000.0) / WIDTH))
    table[:, 0::2] = torch.sin(torch.arange(rows).unsqueeze(1).float() * steps)
    table[:, 1::2] = torch.cos(torch.arange(rows).unsqueeze(1).float() * steps)
    return table.unsqueeze(1)


def opennmt_checkpoint(path: Path, tokens: list[str], **changes: Any) -> None:
    """Write what OpenNMT-py saves, with random weights."""
    torch.manual_seed(0)
    bias = changes.pop("qkv_bias", True)

    def linear(name: str, rows: int, columns: int, *, biased: bool = True) -> dict[str, torch.Tensor]:
        found = {f"{name}.weight": torch.randn(rows, columns) / columns**0.5}
        return found | ({f"{name}.bias": 0.3 * torch.randn(rows)} if biased else {})

    def norm(name: str) -> dict[str, torch.Tensor]:
        return {f"{name}.weight": 1 + 0.2 * torch.randn(WIDTH), f"{name}.bias": 0.2 * torch.randn(WIDTH)}

    embeddings = 0.5 * torch.randn(len(tokens), WIDTH)
    model: dict[str, torch.Tensor] = {}
    for stack, layers in (("encoder", "transformer"), ("decoder", "transformer_layers")):
        model[f"{stack}.embeddings.make_embedding.emb_luts.0.weight"] = embeddings
        model[f"{stack}.embeddings.make_embedding.pe.pe"] = sinusoid(changes.get("rows", 300))
        model |= norm(f"{stack}.layer_norm")
        for index in range(LAYERS):
            layer = f"{stack}.{layers}.{index}"
            attentions = ["self_attn", *(["context_attn"] if stack == "decoder" else [])]
            for name in attentions:
                for part in ("linear_query", "linear_keys", "linear_values", "final_linear"):
                    model |= linear(f"{layer}.{name}.{part}", WIDTH, WIDTH, biased=bias)
            norms = ["layer_norm_1", "layer_norm_2"] if stack == "decoder" else ["layer_norm"]
            for name in (*norms, "feed_forward.layer_norm"):
                model |= norm(f"{layer}.{name}")
            model |= linear(f"{layer}.feed_forward.w_1", INNER, WIDTH)
            model |= linear(f"{layer}.feed_forward.w_2", WIDTH, INNER)
    options = {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": LAYERS,
        "dec_layers": LAYERS,
        "heads": HEADS,
        "position_encoding": True,
        "pos_ffn_activation_fn": changes.get("activation", "relu"),
    }
    generator = {"weight": embeddings, "bias": 0.5 * torch.randn(len(tokens))}
    content = {"model": model, "generator": generator, "vocab": {"src": tokens, "tgt": tokens}}
    torch.save({**content, "opt": argparse.Namespace(**options)}, path)


def opennmt_package(folder: Path, pairs: Any, *, quantization: str | None = None, **changes: Any) -> Path:
    """Write a package as argos-train does: a vocabulary in an order of its own, with the tokens of OpenNMT-py."""
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for pair in pairs for text in pair]),
        model_writer=trained,
        vocab_size=80,
        minloglevel=4,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    learned = [pieces.id_to_piece(index) for index in range(3, 78)]  # two are too rare for OpenNMT-py
    opennmt_checkpoint(folder / "averaged.pt", ["<unk>", "<blank>", "<s>", "</s>", *reversed(learned)], **changes)
    converter = OpenNMTPyConverter(str(folder / "averaged.pt"), unsafe_deserialization=True)
    converter.convert(str(folder / "ct2"), quantization=quantization)
    package = folder / "translate-en_es-1_0.argosmodel"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        top = "translate-en_es-1_0"
        archive.writestr(f"{top}/metadata.json", json.dumps({**METADATA, **changes.get("metadata", {})}))
        archive.writestr(f"{top}/README.md", "# English-Spanish")
        archive.writestr(f"{top}/{changes.get('tokenizer', 'sentencepiece.model')}", trained.getvalue())
        for path in (folder / "ct2").iterdir():
            archive.write(path, f"{top}/model/{path.name}")
    return package


@pytest.mark.parametrize(
    ("quantization", "changes"),
    [(None, {}), ("int8", {"activation": "gelu"}), (None, {"qkv_bias": False, "activation": "silu"})],
    ids=str,
)
def test_packages_of_opennmt(quantization, changes, pairs, tmp_path):
    package = opennmt_package(tmp_path, pairs, quantization=quantization, **changes)
    notes = import_argos(package, tmp_path / "run")
    found = Translator.from_pretrained(tmp_path / "run", device="cpu")
    assert not found.tokenizers.ends_source
    assert found.model.config.position_options == {"dialect": "paper"}
    assert found.model.config.norm == "pre"
    assert (tmp_path / "run" / "README.md").read_text() == "# English-Spanish"
    assert any("folded" in note for note in notes)
    assert any("int8" in note for note in notes) == (quantization == "int8")
    assert_computes_as_ctranslate2(package, found, tmp_path, pad="<blank>")


@pytest.fixture(scope="module")
def opennmt(pairs, tmp_path_factory) -> Path:
    return opennmt_package(tmp_path_factory.mktemp("opennmt"), pairs)


@pytest.mark.parametrize("engine", ["compiled", "ctranslate2"])
def test_every_engine_reads_sources_without_end(engine, opennmt, tmp_path, monkeypatch):
    monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")
    import_argos(opennmt, tmp_path / "run")
    expected = Translator.from_pretrained(tmp_path / "run", device="cpu").translate(SENTENCES, beam=1, **LIMIT)
    translator, _ = load_translator(tmp_path / "run", engine=engine, device="cpu")
    assert translator.translate(SENTENCES, beam=1, **LIMIT) == expected


def test_what_ends_every_source_is_refused_for_such_a_model(opennmt, tmp_path, capsys):
    assert main(["import", str(opennmt), "--output", str(tmp_path / "run")]) == 0
    assert "run is written." in capsys.readouterr().out
    for export in (export_huggingface, export_onnx):
        with pytest.raises(ConfigError, match="without a token at their end"):
            export(tmp_path / "run", tmp_path / "other")
    with pytest.raises(ConfigError, match="cannot be trained further"):
        open_parent(FineTuningSettings(parent=str(tmp_path / "run")))
    export_argos(tmp_path / "run", tmp_path / "again.argosmodel")
    import_argos(tmp_path / "again.argosmodel", tmp_path / "back")
    translators = [Translator.from_pretrained(tmp_path / name, device="cpu") for name in ("run", "back")]
    assert translators[0].translate(SENTENCES, **LIMIT) == translators[1].translate(SENTENCES, **LIMIT)


def changed(package: Path, folder: Path, change: Any) -> Path:
    """A copy of a package whose entries, by their names without the folder, were changed."""
    with zipfile.ZipFile(package) as archive:
        entries = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(folder / "changed.argosmodel", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(f"top/{name}", content)
    return folder / "changed.argosmodel"


def with_config(**values: Any) -> Any:
    def change(entries: dict[str, bytes]) -> None:
        config = json.loads(entries["model/config.json"])
        entries["model/config.json"] = json.dumps({**config, **values}).encode()

    return change


def with_metadata(**values: Any) -> Any:
    return lambda entries: entries.update({"metadata.json": json.dumps({**METADATA, **values}).encode()})


def renamed(name: str, other: str) -> Any:
    return lambda entries: entries.update({other: entries.pop(name)})


def in_weights(old: bytes, new: bytes) -> Any:
    def change(entries: dict[str, bytes]) -> None:
        assert old in entries["model/model.bin"]
        entries["model/model.bin"] = entries["model/model.bin"].replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (with_metadata(target_prefix=">>por<<"), "target_prefix"),
        (with_metadata(type="sbd"), "sbd"),
        (with_metadata(to_code=None), "to_code"),
        (renamed("sentencepiece.model", "bpe.model"), r"bpe\.model"),
        (with_config(add_source_bos=True), "before each source"),
        (with_config(decoder_start_token="<t>"), "<t>"),
        (with_config(layer_norm_epsilon=1e-6), "1e-06"),
        (renamed("model/model.bin", "model/weights.bin"), r"model/model\.bin"),
        (lambda e: e.update({"model/model.bin": e["model/model.bin"][:-9]}), r"model\.bin"),
        (in_weights(b"TransformerSpec", b"TransformerXpec"), "TransformerXpec"),
        (in_weights(b"decoder/scale_alibi", b"decoder/scale_alixx"), "decoder/scale_alixx"),
        (in_weights(b"encoder/layer_norm/gamma", b"encoder/layer_norm/gummi"), "encoder/layer_norm/gamma"),
        (lambda e: e.update({"model/model.bin": struct.pack("<I", 3) + e["model/model.bin"][4:]}), "version 3"),
        (lambda e: e.update({"sentencepiece.model": b"\xff no model"}), r"sentencepiece\.model"),
    ],
)
def test_what_cannot_be_imported_is_named(change, named, opennmt, tmp_path):
    with pytest.raises((ConfigError, CheckpointError), match=named):
        import_argos(changed(opennmt, tmp_path, change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.sampled(1)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_json_is_read_or_refused(data, opennmt, tmp_path):
    name = data.draw(st.sampled_from(["metadata.json", "model/config.json", "model/shared_vocabulary.json"]))

    def change(entries: dict[str, bytes]) -> None:
        content = json.loads(entries[name])
        place, value = data.draw(st.sampled_from(places(content))), data.draw(VALUES)
        entries[name] = json.dumps(with_value(content, place, value)).encode()

    with suppress(LocantError):
        import_argos(changed(opennmt, tmp_path, change), tmp_path / "run")
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_vocabularies_of_older_packages_are_lines(opennmt, tmp_path):
    def change(entries: dict[str, bytes]) -> None:
        tokens = json.loads(entries.pop("model/shared_vocabulary.json"))
        entries["model/shared_vocabulary.txt"] = "".join(f"{token}\n" for token in tokens).encode()

    import_argos(changed(opennmt, tmp_path, change), tmp_path / "old")
    import_argos(opennmt, tmp_path / "new")
    translators = [Translator.from_pretrained(tmp_path / name, device="cpu") for name in ("old", "new")]
    assert translators[0].translate(SENTENCES, **LIMIT) == translators[1].translate(SENTENCES, **LIMIT)


def test_a_file_that_would_grow_beyond_all_use_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.argosmodel", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("top/metadata.json", bytes(70_000_000))
    with pytest.raises(CheckpointError, match="would grow from"):
        import_argos(tmp_path / "x.argosmodel", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["x.argosmodel"]


def test_names_and_links_that_lead_out_of_an_archive_lead_nowhere(opennmt, tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    shutil.copy(opennmt, folder / "x.argosmodel")
    link = zipfile.ZipInfo("top/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(folder / "x.argosmodel", "a") as archive:
        for name in ("../evil", str(tmp_path / "evil"), "top/../../evil", "top\\..\\evil", "c:/evil", link):
            archive.writestr(name, b"/etc/passwd")
    import_argos(folder / "x.argosmodel", folder / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    assert sorted(path.name for path in folder.iterdir()) == ["run", "x.argosmodel"]
    assert "link" not in [path.name for path in (folder / "run").rglob("*")]


def test_files_that_are_no_archives_are_named(tmp_path, opennmt):
    with pytest.raises(CheckpointError, match="There is no file"):
        import_argos(tmp_path / "x.argosmodel", tmp_path / "run")
    (tmp_path / "x.argosmodel").write_bytes(b"no archive")
    with pytest.raises(CheckpointError, match="no zip archive"):
        import_argos(tmp_path / "x.argosmodel", tmp_path / "run")
    content = bytearray(opennmt.read_bytes())
    content[len(content) // 3] ^= 0xFF
    (tmp_path / "x.argosmodel").write_bytes(content)
    with pytest.raises(CheckpointError):
        import_argos(tmp_path / "x.argosmodel", tmp_path / "run")
