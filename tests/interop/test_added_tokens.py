"""Words and languages that people added to a tokenizer, against transformers' own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from test_import_m2m100 import m2m100_folder
from test_multilingual import m2m100_files, nllb_files
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, M2M100ForConditionalGeneration

from locant.errors import LocantError
from locant.interop import export_huggingface, import_model
from locant.text import EOS
from locant.training import FineTuningSettings
from locant.training.finetuning import open_parent
from locant.translation import Translator

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

WORDS = ["ы", "ab cd", "<new>", "mir"]
# Where a word stands behind a space, both cut alike.
TEXTS = ["kalo ы mir", "ka ab cd", "lo lo <new> ka ы", "kalo ы", "ka ыы"]


def with_words(folder: Path, pairs: list[tuple[str, str]]):
    """An NLLB model of bfloat16 whose tokenizer got a language and words, its vocabulary filled up to 64s."""
    tokenizer = nllb_files(folder, pairs)
    tokenizer.add_tokens(["tyv_Cyrl", "<new>"], special_tokens=True)
    tokenizer.add_tokens(WORDS)
    tokenizer.save_pretrained(folder)
    model = m2m100_folder(folder, vocab_size=len(tokenizer))
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64, mean_resizing=False)
    model.to(torch.bfloat16).save_pretrained(folder)
    return M2M100ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval(), tokenizer


def assert_same(translator: Translator, model, tokenizer, source: str, target: str) -> None:
    """The tokens of texts by name, and logits."""
    translator.choose_languages(source, target)
    ours, (before, prefix) = translator.tokenizers.source, translator.prefixes
    own = [[*before, *ids, EOS] for ids in ours.encode(TEXTS)]
    tokenizer.src_lang = source
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    codes = {index: code for code, index in translator.tokenizers.languages.ids.items()}
    names = [codes.get(index, ours.token(index).replace("▁", " ").strip() or "▁") for index in range(ours.vocab_size)]
    rows = tokenizer.convert_ids_to_tokens(range(model.config.vocab_size))
    rows = [None if row is None else row.replace("▁", " ").strip() or "▁" for row in rows]
    assert [[names[i] for i in ids] for ids in own] == [[rows[i] for i in ids] for ids in tokenizer(TEXTS)["input_ids"]]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in own], batch_first=True)
    language = tokenizer.convert_tokens_to_ids(target)
    with torch.no_grad():
        decoder = torch.tensor([[tokenizer.eos_token_id, language]] * len(TEXTS))
        expected = model(**batch, decoder_input_ids=decoder).logits
        found = translator.model(padded, batch["attention_mask"].sum(1), torch.tensor([prefix] * len(TEXTS)))
    for name in [*WORDS, target]:
        place, row = names.index(name), tokenizer.convert_tokens_to_ids(name)
        assert (found[..., place] - expected[..., row]).abs().max() < 1e-4


def test_words_and_languages_of_nllb_are_read(pairs, tmp_path, caplog):
    model, tokenizer = with_words(tmp_path / "nllb", pairs)
    assert model.config.vocab_size % 64 == 0
    notes = import_model(tmp_path / "nllb", tmp_path / "run")
    open_parent(FineTuningSettings(parent=str(tmp_path / "nllb")))
    assert set(notes) <= set(caplog.messages), "who starts a training from it is told the same"
    translator = Translator.from_pretrained(tmp_path / "run", device="cpu")
    assert {"tyv_Cyrl", "eng_Latn"} <= translator.tokenizers.languages.ids.keys()
    assert_same(translator, model, tokenizer, "eng_Latn", "tyv_Cyrl")
    word = translator.tokenizers.source.id("ы")
    assert translator.tokenizers.target.decode([[word, word]]) == ["ыы"]

    export_huggingface(tmp_path / "run", tmp_path / "back")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert_same(
        translator, AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval(), theirs, "tyv_Cyrl", "fra_Latn"
    )
    import_model(tmp_path / "back", tmp_path / "again")
    again = Translator.from_pretrained(tmp_path / "again", device="cpu")
    again.choose_languages("tyv_Cyrl", "fra_Latn")
    assert [again.tokenizers.source.tokens(text) for text in TEXTS] == list(
        map(translator.tokenizers.source.tokens, TEXTS)
    )
    assert again.translate(TEXTS, beam=1) == translator.translate(TEXTS, beam=1)


@pytest.mark.parametrize("word", ["▁ы", "ы "])
def test_words_that_no_text_would_have_are_refused(word, pairs, tmp_path):
    tokenizer = nllb_files(tmp_path / "nllb", pairs)
    tokenizer.add_tokens([word])
    tokenizer.save_pretrained(tmp_path / "nllb")
    m2m100_folder(tmp_path / "nllb", vocab_size=len(tokenizer))
    with pytest.raises(LocantError, match="added"):
        import_model(tmp_path / "nllb", tmp_path / "run")


def test_a_language_that_was_added_to_m2m100_is_known(pairs, tmp_path):
    folder = tmp_path / "m2m"
    tokenizer = m2m100_files(folder, pairs, joint=True)
    row = tokenizer.get_lang_id("zu") + 3
    (folder / "added_tokens.json").write_text(json.dumps({"__tyv__": row}))
    model = m2m100_folder(folder, vocab_size=row + 6)
    import_model(folder, tmp_path / "run")
    translator = Translator.from_pretrained(tmp_path / "run", device="cpu")
    translator.choose_languages("en", "tyv")
    ids = translator.tokenizers.source.encode(["kalo mir"])[0]
    batch = tokenizer(["kalo mir"], return_tensors="pt")
    source = torch.tensor([[*translator.prefixes.source, *ids, EOS]])
    with torch.no_grad():
        expected = model(**batch, decoder_input_ids=torch.tensor([[2, row]])).logits[0, -1]
        found = translator.model(source, torch.tensor([source.shape[1]]), torch.tensor([translator.prefixes.target]))
    torch.testing.assert_close(found[0, -1].sort().values, expected.sort().values, atol=1e-4, rtol=0)


@pytest.mark.parametrize("token", ["ы", "__tyv__"])
def test_tokens_that_cannot_be_told_apart_are_refused(token, pairs, tmp_path):
    """M2M-100's tokenizer gives an added token the row of its first language; words are cut out of a text."""
    tokenizer = m2m100_files(tmp_path / "m2m", pairs, joint=True)
    tokenizer.add_tokens([token])
    tokenizer.save_pretrained(tmp_path / "m2m")
    m2m100_folder(tmp_path / "m2m", vocab_size=tokenizer.get_lang_id("zu") + 9)
    with pytest.raises(LocantError, match=token):
        import_model(tmp_path / "m2m", tmp_path / "run")
