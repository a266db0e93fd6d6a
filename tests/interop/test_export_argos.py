"""Packages for Argos Translate: as its code reads them, and by Argos Translate itself where it is installed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece
from small_models import build

from locant.errors import CheckpointError, ConfigError
from locant.interop import export_argos, export_ctranslate2
from locant.models import DecodingSettings
from locant.text import LanguageTokens, TokenizerPair
from locant.translation import Translator

SENTENCES = ["kalo mir", "tenbu shi gra no", "  zap\t\u00a0ka ", "u\u0308m ☃ ka", "ka ka ka ka ka ka ka ka"]
LANGUAGES = {"source_language": "en", "target_language": "de"}

# Argos Translate, translate.py: apply_packaged_translation.
SEARCH = {
    "target_prefix": None,
    "replace_unknowns": True,
    "max_batch_size": 32,
    "batch_type": "tokens",
    "num_hypotheses": 1,
    "length_penalty": 0.2,
    "return_scores": True,
}


class Installed:
    """A package as Argos Translate reads it: tokenizer.py and translate.py, without the cutting into sentences."""

    def __init__(self, package: Path, store: Path) -> None:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(store)
            self.names = archive.namelist()
        (self.folder,) = store.iterdir()
        self.metadata = json.loads((self.folder / "metadata.json").read_text())
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(self.folder / "sentencepiece.model"))
        self.translator = ctranslate2.Translator(str(self.folder / "model"), device="cpu", intra_threads=1)

    def translate(self, texts: list[str], beam: int) -> list[str]:
        tokens = [self.pieces.encode(text, out_type=str) for text in texts]
        found = self.translator.translate_batch(tokens, **SEARCH, beam_size=beam)
        written = [self.pieces.decode_pieces(result.hypotheses[0]) for result in found]
        return [text.replace("▁", " ").replace("_", " ").removeprefix(" ") for text in written]


# Argos Translate leaves the longest translation to CTranslate2: 256 tokens.
LIMIT = {"max_length_ratio": 1e-9, "max_length_extra": 255}


@pytest.fixture
def run(trained, joint, tmp_path) -> Path:
    Translator(trained, joint, DecodingSettings(beam=1, **LIMIT), **LANGUAGES).save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def test_the_files_are_those_of_a_package(run, tmp_path):
    notes = export_argos(run, tmp_path / "en-de.argosmodel")
    top = "translate-en_de-1_0/"
    with zipfile.ZipFile(tmp_path / "en-de.argosmodel") as archive:
        names = set(archive.namelist())
        metadata = json.loads(archive.read(f"{top}metadata.json"))
        config = json.loads(archive.read(f"{top}model/config.json"))
    files = {"metadata.json", "README.md", "sentencepiece.model"}
    files |= {f"model/{name}" for name in ("config.json", "model.bin", "shared_vocabulary.json")}
    assert names == {top + name for name in files}
    # IPackage.load_metadata_from_json
    assert metadata == {
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": "en",
        "from_name": "English",
        "to_code": "de",
        "to_name": "German",
    }
    assert config["add_source_eos"]
    assert any("--sentences" in note for note in notes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_ctranslate2_and_greedy_ones_locants(beam, run, joint, pairs, tmp_path):
    export_argos(run, tmp_path / "en-de.argosmodel")
    export_ctranslate2(run, tmp_path / "ct2")
    texts = [source for source, _ in pairs[:40]] + SENTENCES
    found = Installed(tmp_path / "en-de.argosmodel", tmp_path / "packages").translate(texts, beam)
    own = [joint.source.tokens(text) for text in texts]
    other = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    results = other.translate_batch(own, **SEARCH, beam_size=beam)
    target = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "ct2" / "target.spm"))
    assert found == [target.decode_pieces(result.hypotheses[0]) for result in results]
    if beam == 1:
        assert found == Translator.from_pretrained(run, device="cpu").translate(texts)
        assert len(set(found)) > 30


@pytest.mark.slow
def test_separate_vocabularies(separate, tmp_path):
    model = build(separate, share_embeddings=False)
    translator = Translator(model, separate, DecodingSettings(beam=1, max_source_length=20, **LIMIT), **LANGUAGES)
    translator.save_pretrained(tmp_path / "run")
    export_argos(tmp_path / "run", tmp_path / "en-de.argosmodel")
    package = Installed(tmp_path / "en-de.argosmodel", tmp_path / "packages")
    assert {f"translate-en_de-1_0/model/{side}_vocabulary.json" for side in ("source", "target")} <= set(package.names)
    found, expected = package.translate(SENTENCES, 1), translator.translate(SENTENCES)
    unknown = translator.tokenizers.target.token(1)
    tokens = [package.pieces.encode(text, out_type=str) for text in SENTENCES]
    written = package.translator.translate_batch(tokens, beam_size=1)
    known = [row for row, result in enumerate(written) if unknown not in result.hypotheses[0]]
    assert known
    assert [found[row] for row in known] == [expected[row] for row in known]


def test_what_cuts_sentences_is_put_into_the_package(run, tmp_path):
    stanza = tmp_path / "stanza_resources"
    (stanza / "en" / "tokenize").mkdir(parents=True)
    (stanza / "resources.json").write_text("{}")
    (stanza / "en" / "tokenize" / "combined.pt").write_bytes(b"weights")
    (tmp_path / "en.onnx").write_bytes(b"graph")
    export_argos(run, tmp_path / "a.argosmodel", sentences=stanza)
    notes = export_argos(run, tmp_path / "b.argosmodel", sentences=tmp_path / "en.onnx")
    names = [zipfile.ZipFile(tmp_path / f"{name}.argosmodel").namelist() for name in "ab"]
    assert "translate-en_de-1_0/stanza/en/tokenize/combined.pt" in names[0]
    assert "translate-en_de-1_0/minisbd/en.onnx" in names[1]
    assert not any("--sentences" in note for note in notes)
    with pytest.raises(ConfigError, match=r"neither an \.onnx file"):
        export_argos(run, tmp_path / "c.argosmodel", sentences=tmp_path / "run")


def test_a_package_has_the_codes_of_argos(run, tmp_path):
    package = tmp_path / "x.argosmodel"
    export_argos(run, package, source_language="pt_BR", target_language="zho_Hant")
    with zipfile.ZipFile(package) as archive:
        name = next(name for name in archive.namelist() if name.endswith("metadata.json"))
        metadata = json.loads(archive.read(name))
    assert (metadata["from_code"], metadata["to_code"]) == ("pb", "zt")


def test_what_a_package_cannot_express_is_refused(joint, run, tmp_path):
    package = tmp_path / "x.argosmodel"
    with pytest.raises(ConfigError, match=r"name it x\.zip\.argosmodel"):
        export_argos(run, tmp_path / "x.zip")
    with pytest.raises(ConfigError, match="Did you mean 'int8'"):
        export_argos(run, package, quantization="int9")
    with pytest.raises(ConfigError, match="'xx' is no ISO 639 code"):
        export_argos(run, package, target_language="xx")
    Translator(build(joint), joint).save_pretrained(tmp_path / "unnamed")
    with pytest.raises(ConfigError, match=r"does not know its source language\. .*--source-language"):
        export_argos(tmp_path / "unnamed", package)
    Translator(build(joint, position="alibi"), joint, **LANGUAGES).save_pretrained(tmp_path / "alibi")
    with pytest.raises(ConfigError, match="positions that are added"):
        export_argos(tmp_path / "alibi", package)
    several = TokenizerPair(joint.source, joint.target, LanguageTokens(layout="fairseq", ids={"en": 4, "de": 5}))
    Translator(build(joint), several).save_pretrained(tmp_path / "several")
    with pytest.raises(ConfigError, match="for one pair of languages"):
        export_argos(tmp_path / "several", package, **LANGUAGES)
    assert not package.exists()
    package.touch()
    with pytest.raises(CheckpointError, match="already exists"):
        export_argos(run, package)
