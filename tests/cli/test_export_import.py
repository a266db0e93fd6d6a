"""``locant export`` and ``locant import`` as a user types them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece
import torch
from transformers import AutoTokenizer, MarianConfig, MarianMTModel

from locant.cli import main
from locant.models import DecodingSettings, Transformer, TransformerConfig
from locant.text import TokenizerSettings, train_tokenizers
from locant.translation import Translator

LINES = ["one two three", "four five six", "two one", "six five four three", "three three one two"] * 8


@pytest.fixture
def run(tmp_path) -> Path:
    tokenizers = train_tokenizers([(line, line.upper()) for line in LINES], TokenizerSettings(vocab_size=40))
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 40, "target_vocab_size": 40, "d_model": 16, "d_ff": 16, "heads": 2}
    model = Transformer(TransformerConfig.parse({**sizes, "encoder_layers": 1, "decoder_layers": 1}))
    Translator(model, tokenizers, DecodingSettings(beam=1)).save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def test_export_to_huggingface(run, tmp_path, capsys):
    assert main(["translate", str(run), "one two"]) == 0
    expected = capsys.readouterr().out.splitlines()
    assert main(["export", str(run), "--to", "huggingface", "--output", str(tmp_path / "marian")]) == 0
    assert "marian is written." in capsys.readouterr().out
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "marian")
    model = MarianMTModel.from_pretrained(tmp_path / "marian")
    batch = tokenizer(["one two"], return_tensors="pt")
    limit = batch["input_ids"].shape[1] - 1 + 50
    written = model.generate(**batch, max_length=None, max_new_tokens=limit)
    assert tokenizer.batch_decode(written, skip_special_tokens=True) == expected


def test_export_to_ctranslate2(run, tmp_path, capsys):
    arguments = ["export", str(run), "--to", "ctranslate2", "--quantization", "int8", "-o", str(tmp_path / "ct2")]
    assert main(arguments) == 0
    assert "Weights are int8" in capsys.readouterr().out
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "ct2" / "source.spm")).encode_as_pieces
    assert ctranslate2.Translator(str(tmp_path / "ct2")).translate_batch([pieces("one two")])[0].hypotheses[0]


def test_export_to_argos(run, tmp_path, capsys):
    package = tmp_path / "en-de.argosmodel"
    arguments = ["export", str(run), "--to", "argos", "-o", str(package), "--source-language", "en"]
    assert main(arguments) == 2
    assert "Name its ISO 639 code with --target-language" in capsys.readouterr().err
    assert main([*arguments, "--target-language", "de"]) == 0
    assert "beam 4" in capsys.readouterr().out
    assert package.is_file()


def test_import(tmp_path, capsys):
    folder = tmp_path / "marian"
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=20, minloglevel=4
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    rows = ["</s>", "<unk>", *(pieces.id_to_piece(index) for index in range(3, 20)), "<pad>"]
    sizes = {"d_model": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16}
    layers = {"decoder_ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": len(rows)}
    special = {"pad_token_id": len(rows) - 1, "decoder_start_token_id": len(rows) - 1}
    MarianMTModel(MarianConfig(**sizes, **layers, **special)).save_pretrained(folder)
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(model.getvalue())
    (folder / "vocab.json").write_text(json.dumps({piece: row for row, piece in enumerate(rows)}))

    assert main(["import", str(folder), "--output", str(tmp_path / "imported")]) == 0
    assert "imported is written." in capsys.readouterr().out
    assert main(["translate", str(tmp_path / "imported"), "one two"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["import", str(folder), "--output", str(tmp_path / "imported")]) == 1
    assert "not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["export", "x", "--to", "huggingface", "-o", "y", "--quantization", "int8"], 2, "goes with --to ctranslate2"),
        (["export", "x", "--to", "ctranslate2", "-o", "y", "--quantization", "int9"], 2, "Did you mean 'int8'"),
        (["export", "x", "--to", "onnx", "-o", "y", "--source-language", "en"], 2, "goes with --to argos only"),
        (["export", "x", "--to", "argos", "-o", "y"], 2, "name it y.argosmodel"),
        (["export", "x", "--to", "huggingface", "-o", "y"], 1, "There is no model folder x"),
        (["import", "x", "-o", "y"], 1, "There is no folder x"),
    ],
)
def test_mistakes_are_one_plain_message(arguments, code, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "y").exists()
