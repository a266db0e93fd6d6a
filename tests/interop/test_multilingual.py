"""Imported models for several languages against ``generate`` of Hugging Face transformers."""

import io
import json
import random
from pathlib import Path

import pytest
import sentencepiece
import torch
from small_models import hypotheses
from test_import_m2m100 import m2m100_folder
from transformers import M2M100ForConditionalGeneration, M2M100Tokenizer, NllbTokenizer

from locant.cli import main
from locant.errors import ConfigError
from locant.interop import import_model
from locant.models import DecodingSettings
from locant.text import EOS
from locant.translation import Translator, load_translator

SENTENCES = ["kalo mir", "ka", "tenbu shi grano üm", "lo lo lo quidy", "zap mir kalo ☃"]
STEPS = 9


def spm_file(folder: Path, pairs: list[tuple[str, str]]) -> sentencepiece.SentencePieceProcessor:
    """Write a SentencePiece model as fairseq has them: BPE with SentencePiece's own ids and normalisation."""
    folder.mkdir()
    model = io.BytesIO()
    texts = iter([text for pair in pairs for text in pair])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts, model_writer=model, vocab_size=60, model_type="bpe", minloglevel=4
    )
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def seldom_ending(folder: Path, size: int, *, end: float, **changes: object) -> M2M100ForConditionalGeneration:
    """Write a random model whose end mark has the same logit ``end`` after every text.

    What the last layer norm writes is ``h = g * n + beta`` with a mean of ``n`` of 0, so that ``w = end * (1 / g) / s``
    with ``s = sum(beta / g)`` gives ``w . h = end`` for all of it.
    """
    m2m100_folder(folder, vocab_size=size, tie_word_embeddings=False, **changes)
    model = M2M100ForConditionalGeneration.from_pretrained(folder)
    norm = model.model.decoder.layer_norm
    with torch.no_grad():
        model.lm_head.weight[EOS - 1] = end / norm.weight / (norm.bias / norm.weight).sum()
    model.save_pretrained(folder)
    return model.eval()


def m2m100_files(folder: Path, pairs: list[tuple[str, str]], *, joint: bool) -> M2M100Tokenizer:
    """Write the tokenizer of an M2M-100 folder, whose rows have an order of their own.

    Unless ``joint``, a piece has no row.
    """
    spm = spm_file(folder, pairs)
    pieces = [spm.id_to_piece(index) for index in range(3, 60) if joint or spm.id_to_piece(index) != "▁ka"]
    rows = ["<s>", "<pad>", "</s>", "<unk>", *random.Random(0).sample(pieces, len(pieces))]
    (folder / "vocab.json").write_text(json.dumps({piece: row for row, piece in enumerate(rows)}))
    return M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), src_lang="en")


def nllb_files(folder: Path, pairs: list[tuple[str, str]]) -> NllbTokenizer:
    """Write the tokenizer of an NLLB folder."""
    spm_file(folder, pairs)
    (folder / "config.json").write_text('{"model_type": "m2m_100"}')
    tokenizer = NllbTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "<mask>"], special_tokens=True)
    tokenizer.src_lang = "eng_Latn"
    tokenizer.save_pretrained(folder)
    return tokenizer


CASES = {
    "m2m100": ("en", "fr", lambda folder, pairs: m2m100_files(folder, pairs, joint=True)),
    "m2m100 without a row for a piece": ("en", "fr", lambda folder, pairs: m2m100_files(folder, pairs, joint=False)),
    "nllb": ("eng_Latn", "fra_Latn", nllb_files),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("beam", "end"), [(1, 2.2), (1, -30.0), (4, -30.0)])
def test_every_engine_gives_the_translations_of_transformers(case, beam, end, pairs, tmp_path, monkeypatch):
    """With ``end`` of -30 no text ends before the limit, where both beam searches are defined alike."""
    source, target, files = CASES[case]
    tokenizer = files(tmp_path / "other", pairs)
    size = max(tokenizer.convert_tokens_to_ids(["__zu__", "<mask>", "zho_Hans"])) + 9
    other = seldom_ending(tmp_path / "other", size, end=end)
    import_model(tmp_path / "other", tmp_path / "run")
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    language = tokenizer.convert_tokens_to_ids("__fr__" if target == "fr" else target)
    options = {"length_penalty": 0.0, "early_stopping": "never", "num_return_sequences": beam} if beam > 1 else {}
    limits = {"max_length": None, "max_new_tokens": STEPS + 1, "suppress_tokens": [0, 1]}

    def generate(**more: object) -> torch.Tensor:
        return other.generate(
            **batch, forced_bos_token_id=language, num_beams=beam, do_sample=False, **limits, **options, **more
        )

    expected = generate()
    assert (expected[:, :2] == torch.tensor([2, language])).all()
    lengths = {sum(token not in (1, 2) for token in row) - 1 for row in expected.tolist()}
    assert (len(lengths) > 1) == (end > 0)
    search = {
        "beam": beam,
        "n_best": beam,
        "length_penalty": 0,
        "max_length_ratio": 1e-9,
        "max_length_extra": STEPS - 1,
    }
    for engine in ("pytorch", "compiled", "ctranslate2"):
        if engine == "ctranslate2":
            monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")
            expected = generate(renormalize_logits=True)  # Probabilities are among what may be written.
        translator, _ = load_translator(tmp_path / "run", engine=engine, device="cpu")
        translator.choose_languages(source, target)
        ids, settings = translator.tokenizers.source.encode(SENTENCES), translator.settings_with(**search)
        found = hypotheses(translator, ids, settings)
        names = [translator.tokenizers.target.token(token) for token in range(translator.tokenizers.target.vocab_size)]
        written = [[names[token] for token in one.tokens] for index in range(len(ids)) for one in found[index]]
        assert written == [
            [name(tokenizer, token) for token in row[2:] if token not in (1, 2)] for row in expected.tolist()
        ]


def name(tokenizer: M2M100Tokenizer | NllbTokenizer, token: int) -> str:
    """The name of a row of the embeddings in an imported tokenizer."""
    known = {row: piece for piece, row in tokenizer.get_vocab().items()}
    if isinstance(tokenizer, M2M100Tokenizer):
        known |= {tokenizer.get_lang_id(code): f"__{code}__" for code in tokenizer.lang_code_to_id}
    return known.get(token, f"<row {token}>")


def test_language_tokens_are_no_text(pairs, tmp_path):
    m2m100_files(tmp_path / "other", pairs, joint=True)
    seldom_ending(tmp_path / "other", 61 + 100 + 8, end=-30.0)
    import_model(tmp_path / "other", tmp_path / "run")
    tokenizers = Translator.from_pretrained(tmp_path / "run", device="cpu").tokenizers
    assert tokenizers.joint
    ids = tokenizers.languages.ids
    assert tokenizers.target.token(ids["de"]) == "__de__"
    assert tokenizers.target.decode([[ids["de"], *tokenizers.source.encode(["kalo mir"])[0], 168]]) == ["kalo mir"]
    assert not {ids["de"], ids["en"]} & set(tokenizers.source.encode(["__de__ __en__ kalo"])[0])


@pytest.fixture(scope="module")
def imported(pairs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    m2m100_files(folder / "other", pairs, joint=True)
    seldom_ending(folder / "other", 161, end=3.5)
    import_model(folder / "other", folder / "run")
    return folder / "run"


def test_a_model_for_one_pair_takes_no_languages_but_its_own(joint, trained, tmp_path, capsys):
    known = Translator(trained, joint, source_language="en", target_language="de")
    known.choose_languages("eng_Latn", "DE")
    assert (known.source_language, known.target_language) == ("en", "de")
    unnamed = Translator(trained, joint)
    unnamed.choose_languages(None, "deu")
    assert (unnamed.source_language, unnamed.target_language) == (None, "deu")
    known.save_pretrained(tmp_path / "run")
    assert main(["translate", str(tmp_path / "run"), "--target-language", "fr", "kalo"]) == 2
    assert "'fr'" in capsys.readouterr().err


def test_chosen_languages_are_kept_with_a_saved_model(imported, tmp_path):
    translator = Translator.from_pretrained(imported, device="cpu")
    with pytest.raises(ConfigError, match="must be told the source language"):
        translator.translate("kalo mir")
    translator.choose_languages("en", "fr")
    translator.save_pretrained(tmp_path / "run")
    again = Translator.from_pretrained(tmp_path / "run", device="cpu")
    assert again.translate("kalo mir") == translator.translate("kalo mir")
    again.choose_languages(None, "de")
    assert (again.source_language, again.target_language) == ("en", "de")


def test_the_longest_source_has_room_for_its_language(imported, tmp_path, monkeypatch):
    monkeypatch.setattr("locant.translation.ctranslate2.cache_folder", lambda: tmp_path / "cache")
    found = Translator.from_pretrained(imported, device="cpu")
    settings = DecodingSettings(beam=1, max_length_extra=0, max_source_length=10)
    languages = {"source_language": "en", "target_language": "fr"}
    translator = Translator(found.model, found.tokenizers, settings, **languages)
    translator.save_pretrained(tmp_path / "run")
    other, _ = load_translator(tmp_path / "run", engine="ctranslate2", device="cpu")
    text = " ".join(["ka"] * 5)
    assert len(found.tokenizers.source.encode([text])[0]) == 10
    assert other.translate(text) == translator.translate(text)


@pytest.mark.parametrize("languages", [{}, {"source": "en"}, {"source": "english", "target": "fr"}], ids=str)
def test_a_language_that_is_missing_or_unknown_is_refused(languages, imported, capsys):
    options = [part for side, code in languages.items() for part in (f"--{side}-language", code)]
    assert main(["translate", str(imported), *options, "kalo"]) == 2
    said = capsys.readouterr().err
    assert ("'en'" if "english" in options else f"--{'target' if options else 'source'}-language") in said
