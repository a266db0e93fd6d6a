"""Batches for imported models against the tokenizers, the shifted labels and the loss of Hugging Face transformers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from test_import_m2m100 import m2m100_folder
from test_import_marian import files_of, marian_folder
from test_multilingual import m2m100_files, nllb_files
from transformers import MarianTokenizer
from transformers.models.m2m_100.modeling_m2m_100 import shift_tokens_right

from locant.interop import import_model
from locant.interop.huggingface import M2M100Config, MarianConfig, read_config
from locant.interop.m2m100 import read_multilingual
from locant.interop.marian import read_sides
from locant.text import PAD, collate, write_cache
from locant.training import TranslatorLoss
from locant.translation import Translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def batch_and_loss(folder: Path, run: Path, pairs: list[tuple[str, str]], source: str | None, target: str | None):
    """What a run that begins with an imported model would train on first, and its loss for each token."""
    import_model(folder, run)
    translator = Translator.from_pretrained(run, device="cpu")
    prefixes = translator.tokenizers.prefixes(source, target)
    cache = write_cache(pairs, translator.tokenizers, run / "cache", max_tokens=64, prefixes=prefixes)
    batch = collate(cache, np.arange(len(pairs)))
    with torch.no_grad():
        loss, _ = TranslatorLoss(translator.model, 0.0, torch.float32)(batch)
    return batch, float(loss) / batch.target_tokens


def assert_same(batch, source_rows: list[int], target_rows: list[int], theirs, model) -> None:
    """Compare a batch, by the rows of the other model's embeddings, with what its tokenizer gives."""
    config = model.config
    labels = theirs["labels"]
    filled = labels != config.pad_token_id
    ours, rows = torch.tensor(source_rows), torch.tensor(target_rows)
    assert batch.source_lengths.tolist() == theirs["attention_mask"].sum(1).tolist()
    assert batch.target_lengths.tolist() == filled.sum(1).tolist()
    real = theirs["attention_mask"].bool()
    assert ours[batch.source][real].tolist() == theirs["input_ids"][real].tolist()
    assert rows[batch.target_output][filled].tolist() == labels[filled].tolist()
    assert ((batch.target_output == PAD) == ~filled).all()
    expected = shift_tokens_right(labels, config.pad_token_id, config.decoder_start_token_id)
    assert rows[batch.target_input][filled].tolist() == expected[filled].tolist()
    assert (batch.target_input[~filled] == PAD).all()


def their_loss(model, theirs) -> float:
    labels = theirs["labels"].masked_fill(theirs["labels"] == model.config.pad_token_id, -100)
    with torch.no_grad():
        found = model(input_ids=theirs["input_ids"], attention_mask=theirs["attention_mask"], labels=labels)
    return float(found.loss)


@pytest.mark.parametrize(
    ("source", "target", "files"),
    [
        ("en", "fr", lambda folder, pairs: m2m100_files(folder, pairs, joint=True)),
        ("eng_Latn", "fra_Latn", nllb_files),
    ],
    ids=["m2m100", "nllb"],
)
def test_batches_and_loss_of_m2m100_and_nllb(source, target, files, pairs, tmp_path):
    tokenizer = files(tmp_path / "other", pairs)
    size = max(tokenizer.convert_tokens_to_ids(["__zu__", "<mask>", "zho_Hans"])) + 9
    other = m2m100_folder(tmp_path / "other", vocab_size=size)
    used = pairs[:9]
    batch, loss = batch_and_loss(tmp_path / "other", tmp_path / "run", used, source, target)

    tokenizer.src_lang, tokenizer.tgt_lang = source, target
    texts, references = (list(side) for side in zip(*used, strict=True))
    theirs = tokenizer(texts, text_target=references, return_tensors="pt", padding=True)
    sides = read_multilingual(tmp_path / "other", read_config(tmp_path / "other", M2M100Config))
    assert_same(batch, sides[0].rows, sides[1].rows, theirs, other)
    assert len(set(batch.target_lengths.tolist())) > 1
    assert loss == pytest.approx(their_loss(other, theirs), abs=1e-5)


@pytest.fixture
def marian_files(pairs) -> dict[str, bytes]:
    """Of a group of target languages, whose tokens stand before the source."""
    files = files_of(pairs, "unigram")
    vocab = json.loads(files["vocab.json"])
    pad = vocab.pop("<pad>")
    names = [*vocab, ">>deu<<", ">>fra<<", "<start>", "<pad>"]
    assert pad == len(vocab)
    return {**files, "vocab.json": json.dumps({name: row for row, name in enumerate(names)}).encode()}


@pytest.mark.parametrize("own_start", [True, False])
def test_batches_and_loss_of_a_group_of_marian(own_start, marian_files, pairs, tmp_path):
    """Also where padding starts the decoder, as OPUS-MT has it."""
    size = len(json.loads(marian_files["vocab.json"]))
    start = size - 2 if own_start else size - 1
    other = marian_folder(tmp_path / "other", marian_files, decoder_start_token_id=start)
    used = pairs[:9]
    batch, loss = batch_and_loss(tmp_path / "other", tmp_path / "run", used, "eng", "fra")

    paths = [str(tmp_path / "other" / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*paths)
    texts, references = (list(side) for side in zip(*used, strict=True))
    theirs = tokenizer([f">>fra<< {text}" for text in texts], text_target=references, return_tensors="pt", padding=True)
    source, target, _ = read_sides(tmp_path / "other", read_config(tmp_path / "other", MarianConfig))
    assert_same(batch, source.rows, target.rows, theirs, other)
    assert loss == pytest.approx(their_loss(other, theirs), abs=1e-5)
