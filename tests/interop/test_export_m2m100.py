"""Exported models for several languages, loaded by plain ``transformers``, and by the other engines."""

from __future__ import annotations

import json

import pytest
import torch
from small_models import build, sentence_pairs
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers_peer import require_same

from locant.errors import ConfigError
from locant.interop import export_huggingface, import_model
from locant.models import DecodingSettings
from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers
from locant.translation import Translator

SENTENCES = ["kalo mir", "Tenbu shi gra no", "üm", "ka ka ka ka ka ka ka ka", "☃ zap"]
M2M100 = {"norm": "pre", "position_options": {"dialect": "tensor2tensor", "start": 2}}


def several(*languages: str, **settings: object) -> TokenizerPair:
    return train_tokenizers(
        sentence_pairs(400), TokenizerSettings(vocab_size=80, **settings), languages=languages or ("en", "fr", "sw")
    )


def saved(tokenizers: TokenizerPair, folder, **changes: object) -> Translator:
    decoding = DecodingSettings(beam=1, max_length_ratio=1e-9, max_length_extra=19)
    translator = Translator(build(tokenizers, **{**M2M100, **changes}), tokenizers, decoding)
    translator.save_pretrained(folder)
    return translator


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("languages", "tokenizer", "changes"),
    [
        (("en", "fr", "sw"), {}, {}),
        (("de", "cs", "en"), {"algorithm": "bpe"}, {"tie_output": False, "feed_forward": "gelu"}),
        (("en", "tl"), {"byte_fallback": True, "vocab_size": 340}, {"feed_forward": "silu", "encoder_layers": 1}),
        (("en", "fr"), {}, {"share_embeddings": False, "encoder_layers": 1}),
        (("en", "fr"), {}, {"share_embeddings": False, "tie_output": False}),
    ],
    ids=str,
)
def test_logits_ids_and_greedy_translations_are_equal(languages, tokenizer, changes, tmp_path):
    settings = {"vocab_size": 80, **tokenizer}
    tokenizers = train_tokenizers(sentence_pairs(400), TokenizerSettings(**settings), languages=languages)
    translator = saved(tokenizers, tmp_path / "run", **changes)
    source, target = languages[0], languages[-1]
    translator.choose_languages(source, target)
    notes = export_huggingface(tmp_path / "run", tmp_path / "m2m")
    assert any("does not know" in note for note in notes)

    other = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "m2m").eval()
    theirs = AutoTokenizer.from_pretrained(tmp_path / "m2m", src_lang=source)
    assert (type(other).__name__, type(theirs).__name__) == ("M2M100ForConditionalGeneration", "M2M100Tokenizer")
    vocab = theirs.get_vocab() | {f"__{code}__": theirs.get_lang_id(code) for code in languages}
    rows = torch.tensor([vocab[tokenizers.source.token(index)] for index in range(tokenizers.source.vocab_size)])
    require_same(translator, other, theirs, rows, SENTENCES, forced_bos_token_id=theirs.get_lang_id(target))


def test_it_can_be_imported_again(tmp_path):
    translator = saved(several(), tmp_path / "run")
    translator.choose_languages("en", "sw")
    export_huggingface(tmp_path / "run", tmp_path / "m2m")
    import_model(tmp_path / "m2m", tmp_path / "back")
    back = Translator.from_pretrained(tmp_path / "back", device="cpu")
    back.choose_languages("en", "sw")
    search = {"beam": 1, "max_length_ratio": 1e-9, "max_length_extra": 19}
    assert back.translate(SENTENCES[:4], **search) == translator.translate(SENTENCES[:4], **search)
    assert json.loads((tmp_path / "m2m" / "tokenizer_config.json").read_text())["language_codes"] == "m2m100"


@pytest.mark.parametrize(
    ("languages", "tokenizer", "changes", "message"),
    [
        (("en", "fr"), {}, {"position_options": {}, "norm": "post"}, "model.norm=pre 'model.position_options={dialect"),
        (("en", "fr"), {}, {"position": "rotary", "position_options": {}}, "model.position=sinusoidal 'model"),
        (("eng_Latn", "fr"), {}, {}, "but not eng_Latn"),
        (("en", "fr"), {"joint": False, "vocab_size": 60}, {"share_embeddings": False}, "tokenizer.joint=true"),
    ],
    ids=str,
)
def test_what_m2m100_cannot_express_is_refused(languages, tokenizer, changes, message, tmp_path):
    settings = {"vocab_size": 80, **tokenizer}
    tokenizers = train_tokenizers(sentence_pairs(400), TokenizerSettings(**settings), languages=languages)
    saved(tokenizers, tmp_path / "run", **changes)
    with pytest.raises(ConfigError, match=message):
        export_huggingface(tmp_path / "run", tmp_path / "m2m")
    assert not (tmp_path / "m2m").exists()
