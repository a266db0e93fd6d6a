"""Models that came from transformers, fine-tuned here, in plain transformers and CTranslate2 again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_import_m2m100 import m2m100_folder
from test_import_marian import SENTENCES, files_of, marian_folder
from test_multilingual import m2m100_files
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers_peer import require_same

from locant.interop import export_ctranslate2, export_huggingface
from locant.text import UNK
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

    export_huggingface(tmp_path / "run", tmp_path / "exported")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported")
    texts = [text for text in SENTENCES if "☃" not in text] + ["xylo ka xylo"]
    rows = [torch.arange(one.vocab_size) for one in (translator.tokenizers.source, translator.tokenizers.target)]
    search = {"bad_words_ids": [[model.config.pad_token_id]], "forced_eos_token_id": None}
    require_same(translator, model, tokenizer, rows[0], texts, rows[1], **search)
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
    require_same(translator, model, tokenizer, rows, texts, forced_bos_token_id=tokenizer.get_lang_id("fr"))
    fast, _ = load_translator(tmp_path / "run", engine="ctranslate2", device="cpu")
    fast.choose_languages("en", "fr")
    search = {"beam": 1, "max_length_ratio": 1e-9, "max_length_extra": 9}
    assert fast.translate(texts, **search) == translator.translate(texts, **search)
