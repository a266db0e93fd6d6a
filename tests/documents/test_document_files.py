"""``locant translate`` and Python with files of documents."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from tiny_models import tiny_model, tiny_tokenizers

from locant.cli import main
from locant.documents import DocumentOptions, translate_document, translate_file
from locant.errors import ConfigError, DataError, MissingExtraError
from locant.models import DecodingSettings
from locant.translation import Translator

MARKDOWN = "# alpha beta\n\ngamma *delta* `code`\n\n- zeta\n"


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizers = tiny_tokenizers()
    model = tiny_model(tokenizers.source.vocab_size, seed=3, sharpness=3.0, tie_output=True)
    return Translator(model, tokenizers, DecodingSettings(beam=2, max_length_extra=6, max_source_length=30))


@pytest.fixture(scope="module")
def translate(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., int]:
    folder = tmp_path_factory.mktemp("models") / "model"
    translator.save_pretrained(folder)
    return lambda *arguments: main(["translate", str(folder), "--engine", "pytorch", *map(str, arguments)])


@pytest.fixture(scope="module")
def expected(translator: Translator) -> bytes:
    return translate_document(translator, MARKDOWN, "markdown")


def test_a_document_is_translated_by_its_name(translate, translator, expected, tmp_path, capsys):
    source = tmp_path / "in.md"
    source.write_text(MARKDOWN)
    assert translate("-i", source, "-o", tmp_path / "out.md") == 0
    assert (tmp_path / "out.md").read_bytes() == expected
    assert expected.count(b"`code`") == 1
    assert expected.startswith(b"# ")
    translate_file(translator, source, tmp_path / "again.md")
    assert (tmp_path / "again.md").read_bytes() == expected
    assert translate("-i", source, "--format", "lines") == 0
    assert capsys.readouterr().out.splitlines() == translator.translate(MARKDOWN.splitlines())


def test_documents_of_word_processors_note_the_language_of_the_model(translator, tmp_path):
    document = docx.Document()
    document.add_paragraph("alpha alpha")
    document.save(tmp_path / "in.docx")
    parts = translator.model, translator.tokenizers, translator.settings
    for language in ("de", None):
        translate_file(
            Translator(*parts, target_language=language), tmp_path / "in.docx", tmp_path / f"{language}.docx"
        )
        (paragraph,) = docx.Document(str(tmp_path / f"{language}.docx")).paragraphs
        assert paragraph.text == translator.translate("alpha alpha")
        assert ('<w:lang w:val="de" ' in paragraph._p.xml) == (language == "de")


def test_a_document_comes_from_standard_input(translate, expected, monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MARKDOWN.encode())))
    assert translate("--format", "markdown") == 0
    assert capsysbinary.readouterr().out == expected


def test_settings_of_the_search_are_those_of_documents_too(translate, translator, tmp_path):
    (tmp_path / "in.json").write_text('{"a": "alpha", "b": "beta gamma"}')
    choice = ("--json-keys", "b", "--beam", "1")
    assert translate("-i", tmp_path / "in.json", "-o", tmp_path / "out.json", *choice) == 0
    options = DocumentOptions(keys=("b",))
    assert (tmp_path / "out.json").read_bytes() == translate_document(
        translator, '{"a": "alpha", "b": "beta gamma"}', "json", options=options, beam=1
    )


def test_sentences_longer_than_usual_are_cut_in_documents_alone(translate, translator, tmp_path, capsys):
    clauses = ["alpha alpha,", "delta delta"]
    sentence = " ".join(clauses)
    tokens = len(translator.tokenizers.source.encode([sentence])[0])
    assert tokens <= translator.longest_source()
    whole, parts = translator.translate(sentence), " ".join(translator.translate(clauses))
    assert whole != parts
    usual = max(len(ids) for ids in translator.tokenizers.source.encode(clauses))

    def document(**overrides):
        return translate_document(translator, sentence, "text", **overrides).decode()

    assert document() == document(usual_source_length=tokens) == whole
    assert document(usual_source_length=usual) == parts
    assert document(usual_source_length=tokens + 9, max_source_length=usual) == parts
    # A line of a corpus, and what is scored, is a sentence.
    assert translator.translate(sentence, usual_source_length=usual) == whole
    used = Translator(translator.model, translator.tokenizers, translator.settings_with(usual_source_length=usual))
    used.save_pretrained(tmp_path / "model")
    (tmp_path / "in.txt").write_text(f"{sentence}\n")
    command = ["translate", str(tmp_path / "model"), "--engine", "pytorch", "-i", str(tmp_path / "in.txt")]
    assert main(command) == main([*command, "--format", "text"]) == 0
    assert capsys.readouterr().out.splitlines() == [whole, parts]


def test_text_of_any_size_is_translated_in_parts(translate, translator, tmp_path, monkeypatch):
    text = "alpha beta. Gamma\n\n" * 40
    (tmp_path / "in.txt").write_text(text)
    monkeypatch.setattr("locant.documents.plain._BLOCK", 50)
    for wrapped in ((), ("--wrapped",)):
        assert translate("-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--format", "text", *wrapped) == 0
        written = (tmp_path / "out.txt").read_text()
        assert written.count("\n") == 80
        assert written == translate_document(translator, text, "text").decode()
    monkeypatch.setattr("locant.documents.plain._LONGEST", 100)
    (tmp_path / "in.txt").write_text("alpha " * 100)
    with pytest.raises(DataError, match=r"in.txt has a line of more than 100 bytes\.$"):
        translate_file(translator, tmp_path / "in.txt", tmp_path / "none.txt")
    assert not (tmp_path / "none.txt").exists()


def test_sentences_longer_than_the_model_reads_are_cut(translator):
    long = "mu nu xi omicron kappa, " * 8
    assert translate_document(translator, long, "text").count(b" ") > 8
    with pytest.raises(DataError, match="at most 30"):
        translator.translate(long)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("alpha", "--format", "markdown"), "arguments are lines"),
        (("--format", "markdwn"), "Did you mean 'markdown'?"),
        (("-i", "in.md", "--n-best", "2"), "--n-best goes with lines"),
        (("-i", "in.md", "--on-long", "split"), "--on-long goes with lines"),
        (("-i", "in.md", "--json-keys", "a"), "--json-keys goes with documents in JSON"),
        (("-i", "in.md", "--wrapped"), "--wrapped goes with --format text"),
    ],
)
def test_options_that_do_not_go_together(translate, arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("in.md").write_text(MARKDOWN)
    assert translate(*arguments) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", ["en.yml", "a.CSV", "a.csv.gz", "a.pptx", "a.xml", "a.qmd", "a.md.gz"])
def test_files_of_a_structure_that_is_not_known_are_refused(translate, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with (gzip.open if name.endswith(".gz") else open)(name, "wt") as file:
        file.write("alpha beta\n")
    assert translate("-i", name) == 2
    assert name in capsys.readouterr().err
    assert translate("-i", name, "--format", "lines") == 0


def test_what_cannot_be_read_is_told_before_any_work(translate, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("locant.cli.translate.load", lambda options: pytest.fail("loaded"))
    (tmp_path / "in.json").write_text("{")
    assert translate("-i", tmp_path / "in.json", "-o", tmp_path / "out.json") == 1
    assert "in.json is no valid JSON" in capsys.readouterr().err
    (tmp_path / "in.txt").write_bytes(b"\xff")
    assert translate("-i", tmp_path / "in.txt", "--format", "text") == 1
    assert "in.txt, line 1" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_missing_packages_and_formats_are_told(translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyromark", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'locant\[documents\]'"):
        translate_document(translator, MARKDOWN, "markdown")
    with pytest.raises(ConfigError, match="says no format of documents"):
        translate_file(translator, tmp_path / "in.xyz", tmp_path / "out.xyz")
