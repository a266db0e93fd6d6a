"""Models that came from transformers, fine-tuned here, in plain transformers and CTranslate2 again."""

from __future__ import annotations

import json
from pathlib import Path

import ctranslate2
import pytest
import torch
from test_import_m2m100 import m2m100_folder
from test_import_marian import SENTENCES, files_of, group_folder, marian_folder
from test_multilingual import m2m100_files
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from locant.interop import export_ctranslate2, export_huggingface, import_model
from locant.text import BOS, EOS, UNK
from locant.training import train
from locant.translation import Translator, load_translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def fine_tuned(
    folder: Path, pairs: list[tuple[str, str]], run: Path, finetuning: dict | None = None, **more: object
) -> Translator:
    """Train three updates from a folder; ``finetuning`` extends the vocabulary by default, and then there is a tag."""
    finetuning = {"extend_vocabulary": 12} if finetuning is None else finetuning
    for side, name in enumerate(("source", "target")):
        (run.parent / name).write_text("".join(f"{pair[side]} xylo\n" for pair in pairs[:60]), encoding="utf-8")
    text = {"source": str(run.parent / "source"), "target": str(run.parent / "target")}
    corpus = {"kind": "files", "train": text, **more}
    sources = {"real": {"corpus": {**corpus, "valid": text}}, "back": {"corpus": corpus, "tag": "<bt>"}}
    recipe = {
        "corpus": {"kind": "mixture", "sources": sources}
        if "extend_vocabulary" in finetuning
        else {**corpus, "valid": text},
        "cleaning": {"duplicates": False, "overlap": False},
        "batches": {"tokens": 512},
        "max_tokens": 60,
        "training": {
            "steps": 3,
            "learning_rate": 0.01,
            "validate_every": 3,
            "validation_sentences": 0,
            "average_checkpoints": 1,
            "precision": "float32",
            "device": "cpu",
        },
        "finetuning": {"test_sentences": 0, **finetuning},
    }
    train(recipe, run, start_from=folder)
    return Translator.from_pretrained(run, device="cpu")


def has_tag(translator: Translator) -> tuple[bool, ...]:
    """Whether source and target have the tag, which no text becomes; it is there once."""
    sides = (translator.tokenizers.source, translator.tokenizers.target)
    for one in sides:
        assert {one.id("<bt>"), UNK} & {*one.encode(["<bt> ka"])[0]} <= {UNK}
    found = [[one.token(index) for index in range(one.vocab_size)].count("<bt>") for one in sides]
    assert max(found) == 1
    return tuple(map(bool, found))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("unigram", {}),
        ("bpe", {"bias": True}),
        ("unigram", {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    ],
    ids=str,
)
def test_a_fine_tuned_marian_model_leaves_as_one(algorithm, changes, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")
    other = marian_folder(tmp_path / "marian", files_of(pairs, algorithm), **changes)
    translator = fine_tuned(tmp_path / "marian", pairs, tmp_path / "run")
    assert translator.tokenizers.source.vocab_size > other.config.vocab_size
    assert len(translator.tokenizers.source.encode(["xylo"])[0]) == 1
    shared = translator.model.config.share_embeddings
    assert has_tag(translator) == (True, shared)

    notes = export_huggingface(tmp_path / "run", tmp_path / "exported")
    assert any("Marian's own" in note for note in notes)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported")
    texts = [text for text in SENTENCES if "☃" not in text] + ["xylo ka xylo"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    ids = [[*one, 3] for one in translator.tokenizers.source.encode(texts)]
    assert [row[: len(one)] for row, one in zip(batch["input_ids"].tolist(), ids, strict=True)] == ids
    with torch.no_grad():
        start = torch.full((len(texts), 1), model.config.decoder_start_token_id)
        expected = model(**batch, decoder_input_ids=start).logits
        found = translator.model(batch["input_ids"], batch["attention_mask"].sum(1), start)
    assert (found - expected).abs().max() < 1e-4
    # Locant reads it again, and CTranslate2 takes the run as it is.
    again = fine_tuned(tmp_path / "exported", pairs, tmp_path / "again")
    assert len(again.tokenizers.source.encode(["xylo"])[0]) == 1
    assert has_tag(again) == (True, shared)
    export_ctranslate2(tmp_path / "run", tmp_path / "ct2")
    fast, _ = load_translator(tmp_path / "run", engine="ctranslate2", device="cpu")
    search = {"beam": 1, "max_length_ratio": 1e-9, "max_length_extra": 9}
    assert fast.translate(texts, **search) == translator.translate(texts, **search)


def test_a_fine_tuned_m2m100_model_leaves_as_one(pairs, tmp_path):
    theirs = m2m100_files(tmp_path / "m2m", pairs, joint=True)
    m2m100_folder(tmp_path / "m2m", vocab_size=theirs.convert_tokens_to_ids("__zu__") + 1)
    languages = {"source_language": "en", "target_language": "fr"}
    translator = fine_tuned(tmp_path / "m2m", pairs, tmp_path / "run", **languages)
    translator.choose_languages("en", "fr")
    assert has_tag(translator) == (True, True)

    export_huggingface(tmp_path / "run", tmp_path / "exported")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported", src_lang="en")
    texts = ["kalo mir", "ka xylo", "tenbu shi"]
    ours = translator.tokenizers
    vocab = tokenizer.get_vocab() | {f"__{code}__": tokenizer.get_lang_id(code) for code in ours.languages.ids}
    rows = torch.tensor([vocab[ours.source.token(index)] for index in range(ours.source.vocab_size)])
    prefix = ours.prefixes("en", "fr")
    own = [[*prefix.source, *ids, EOS] for ids in ours.source.encode(texts)]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert [rows[ids].tolist() for ids in own] == tokenizer(texts)["input_ids"]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in own], batch_first=True)
    written = torch.tensor([prefix.target] * len(texts))
    with torch.no_grad():
        expected = model(**batch, decoder_input_ids=rows[written]).logits[..., rows]
        found = translator.model(padded, batch["attention_mask"].sum(1), written)
    assert (found - expected).abs().max() < 1e-4
    fast, _ = load_translator(tmp_path / "run", engine="ctranslate2", device="cpu")
    fast.choose_languages("en", "fr")
    search = {"beam": 1, "max_length_ratio": 1e-9, "max_length_extra": 9}
    assert fast.translate(texts, **search) == translator.translate(texts, **search)


def test_merged_adapters_are_in_what_plain_transformers_and_ctranslate2_load(pairs, tmp_path):
    pytest.importorskip("peft")
    marian_folder(tmp_path / "marian", files_of(pairs, "unigram"))
    import_model(tmp_path / "marian", tmp_path / "parent")
    parent = Translator.from_pretrained(tmp_path / "parent", device="cpu")
    translator = fine_tuned(tmp_path / "marian", pairs, tmp_path / "run", {"lora": {"rank": 8, "alpha": 64}})
    export_huggingface(tmp_path / "run", tmp_path / "exported")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    theirs = AutoTokenizer.from_pretrained(tmp_path / "exported")
    texts = [text for text in SENTENCES if "☃" not in text]
    batch = theirs(texts, return_tensors="pt", padding=True)
    source, target = translator.tokenizers.source, translator.tokenizers.target
    ids = [[*one, EOS] for one in source.encode(texts)]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in ids], batch_first=True)
    start = torch.full((len(texts), 1), BOS)
    their_start = torch.full((len(texts), 1), model.config.decoder_start_token_id)
    rows = torch.tensor([theirs.get_vocab()[target.token(index)] for index in range(4, target.vocab_size)])
    with torch.no_grad():
        expected = model(**batch, decoder_input_ids=their_start).logits[..., rows]
        before, found = (
            one.model(padded, batch["attention_mask"].sum(1), start)[..., 4:] for one in (parent, translator)
        )
    assert (found - expected).abs().max() < 1e-4
    assert (before - found).abs().max() > 0.01

    export_ctranslate2(tmp_path / "run", tmp_path / "ct2")
    pieces = [[source.token(index) for index in one[:-1]] for one in ids]
    plain = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    results = plain.translate_batch(pieces, beam_size=1, max_decoding_length=9)
    written = [[target.id(token) for token in result.hypotheses[0]] for result in results]
    # CTranslate2 writes at least one token where nothing else is said.
    bounds = {"max_new_tokens": 9, "min_new_tokens": 1, "forced_eos_token_id": None}
    generated = model.generate(**batch, num_beams=1, bad_words_ids=[[model.config.pad_token_id]], **bounds)
    assert all(translations := target.decode(written))
    assert translations == theirs.batch_decode(generated, skip_special_tokens=True)


def test_a_group_of_languages_keeps_its_tokens(pairs, tmp_path):
    group_folder(tmp_path / "marian", files_of(pairs, "unigram"))
    fine_tuned(tmp_path / "marian", pairs, tmp_path / "run", target_language="fra")
    export_huggingface(tmp_path / "run", tmp_path / "exported")
    vocab = json.loads((tmp_path / "exported" / "vocab.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert tokenizer([">>fra<< kalo"])["input_ids"][0][0] == vocab[">>fra<<"]
