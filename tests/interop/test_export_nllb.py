"""Imported NLLB models, as they came and fine-tuned, in plain ``transformers`` with NLLB's own tokenizer again."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest
import torch
from small_models import build, sentence_pairs
from test_finetuned_export import fine_tuned
from test_import_m2m100 import m2m100_folder
from test_multilingual import nllb_files
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers_peer import STEPS, require_same

from locant.errors import ConfigError
from locant.interop import export_huggingface, import_model
from locant.models import DecodingSettings
from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers
from locant.translation import Translator

PAIR = ("eng_Latn", "fra_Latn")
SENTENCES = ["kalo mir", "ka", "tenbu shi grano üm", "lo lo lo quidy", "zap mir kalo ☃"]


def nllb_folder(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """Write a random NLLB model, with rows that no token has."""
    m2m100_folder(folder, vocab_size=len(nllb_files(folder, pairs)) + 3)


def loaded(folder: Path):
    """The exported model and tokenizer, which plain transformers finds by itself."""
    tokenizer = AutoTokenizer.from_pretrained(folder, src_lang=PAIR[0])
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert (type(model).__name__, type(tokenizer).__name__) == ("M2M100ForConditionalGeneration", "NllbTokenizer")
    assert len(tokenizer) == model.config.vocab_size
    return model, tokenizer


def rows_of(tokenizers: TokenizerPair, tokenizer) -> torch.Tensor:
    """The exported row of each of Locant's ids."""
    codes = {index: code for code, index in tokenizers.languages.ids.items()}
    names = [codes.get(index, tokenizers.source.token(index)) for index in range(tokenizers.source.vocab_size)]
    vocab = tokenizer.get_vocab()
    assert sorted(vocab) == sorted(names)
    return torch.tensor([vocab[name] for name in names])


def random_texts(tokenizers: TokenizerPair, count: int) -> list[str]:
    """Texts of the model's subwords and of single characters, some of which it does not know."""
    draw = random.Random(0)
    known = [tokenizers.source.token(index).replace("▁", " ") for index in range(4, 60)]
    parts = [part for part in known if "<" not in part and "_" not in part] + ["☃", "x", "ﬁ", "é", "  ", " "]
    letters = sorted({part for part in parts if len(part) == 1})[:4]
    found = ["".join(draw.choices(draw.choice([parts, letters]), k=draw.randint(1, 30))) for _ in range(count)]
    return [unicodedata.normalize("NFC", text).strip() for text in found]


def require_equal(translator: Translator, folder: Path) -> None:
    """The exported model has Locant's ids, logits, and greedy translations."""
    other, theirs = loaded(folder)
    translator.choose_languages(*PAIR)
    texts = [text for text in [*SENTENCES, *random_texts(translator.tokenizers, 100)] if text]
    rows = rows_of(translator.tokenizers, theirs)
    require_same(translator, other, theirs, rows, texts, forced_bos_token_id=theirs.convert_tokens_to_ids(PAIR[1]))


def test_an_imported_model_leaves_as_it_came(pairs, tmp_path):
    nllb_folder(tmp_path / "nllb", pairs)
    import_model(tmp_path / "nllb", tmp_path / "run")
    translator = Translator.from_pretrained(tmp_path / "run", device="cpu")
    notes = export_huggingface(tmp_path / "run", tmp_path / "exported")
    assert any("white space at its ends" in note for note in notes)
    require_equal(translator, tmp_path / "exported")
    card = (tmp_path / "exported" / "README.md").read_text()
    assert 'convert_tokens_to_ids("zho_Hans")' in card

    before, after = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("nllb", "exported"))
    assert before.get_vocab().items() <= after.get_vocab().items()

    import_model(tmp_path / "exported", tmp_path / "back")
    again = Translator.from_pretrained(tmp_path / "back", device="cpu")
    assert again.tokenizers.digest == translator.tokenizers.digest
    assert again.tokenizers.languages == translator.tokenizers.languages
    state = again.model.state_dict()
    assert all(torch.equal(state[name], weight) for name, weight in translator.model.state_dict().items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "finetuning",
    [{}, {"lora": {"rank": 2}}, {"extend_vocabulary": 12}],
    ids=["plain", "adapters", "extended vocabulary and a tag"],
)
def test_a_fine_tuned_model_leaves_as_its_parent_did(finetuning, pairs, tmp_path):
    nllb_folder(tmp_path / "nllb", pairs)
    extended = "extend_vocabulary" in finetuning
    languages = {"source_language": PAIR[0], "target_language": PAIR[1]}
    translator = fine_tuned(tmp_path / "nllb", pairs, tmp_path / "run", finetuning, **languages)
    export_huggingface(tmp_path / "run", tmp_path / "exported")
    require_equal(translator, tmp_path / "exported")
    _, theirs = loaded(tmp_path / "exported")
    assert (len(theirs.tokenize("xylo ka xylo")) == 3) == extended
    assert ("<bt>" in theirs.get_vocab()) == extended
    assert theirs.convert_tokens_to_ids("<bt>") not in theirs("<bt> ka")["input_ids"] or not extended

    import_model(tmp_path / "exported", tmp_path / "back")
    again = Translator.from_pretrained(tmp_path / "back", device="cpu")
    search = {"beam": 4, "max_length_ratio": 1e-9, "max_length_extra": STEPS}
    for one in (translator, again):
        one.choose_languages(*PAIR)
    assert again.tokenizers.source.tokens("xylo kalo") == translator.tokenizers.source.tokens("xylo kalo")
    assert again.translate(SENTENCES, **search) == translator.translate(SENTENCES, **search)


def trained_here(folder: Path, **settings: object) -> Translator:
    languages = ("eng_Latn", "fra_Latn", "swh_Latn")
    tokenizers = train_tokenizers(
        sentence_pairs(400),
        TokenizerSettings(**{"vocab_size": 80, "algorithm": "bpe", **settings}),
        languages=languages,
    )
    model = build(tokenizers, norm="pre", position_options={"dialect": "tensor2tensor", "start": 2})
    translator = Translator(model, tokenizers, DecodingSettings(beam=1))
    translator.save_pretrained(folder)
    return translator


def test_a_model_that_was_trained_here_leaves_as_nllb_where_it_has_its_codes(tmp_path):
    translator = trained_here(tmp_path / "run")
    export_huggingface(tmp_path / "run", tmp_path / "exported")
    require_equal(translator, tmp_path / "exported")


@pytest.mark.parametrize("settings", [{"algorithm": "unigram"}, {"byte_fallback": True, "vocab_size": 340}], ids=str)
def test_what_nllb_cannot_express_is_refused(settings, tmp_path):
    trained_here(tmp_path / "run", **settings)
    with pytest.raises(ConfigError, match=next(iter(settings))):
        export_huggingface(tmp_path / "run", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
