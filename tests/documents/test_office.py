"""Word and OpenDocument: texts are translated; styles, links, notes and all else stay, each once."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from copy import deepcopy

import docx
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from odf import opendocument, style, teletype, text
from translated import FUNCTIONS, functions, translated, zipped

from locant.documents import find_format

RUNS = st.lists(
    st.tuples(
        st.sampled_from(["One ", "two dogs. ", "They ran", " in 1990", "\t", "\n", "é", "", " "]), st.integers(0, 3)
    ),
    max_size=6,
)


def word(paragraphs: list[list[tuple[str, int]]]) -> bytes:
    document = docx.Document()
    document.add_heading("A title", 1)
    for runs in paragraphs:
        paragraph = document.add_paragraph(style="List Bullet")
        for words, format in runs:
            run = paragraph.add_run(words)
            run.bold, run.italic = (True if format & 1 else None), (True if format & 2 else None)
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Left cell", "12"
    document.sections[0].header.paragraphs[0].text = "The header"
    return saved(document)


def saved(document) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        return {name: found.read(name) for name in found.namelist()}


def linked() -> bytes:
    """A paragraph with a link, a field, a bookmark, a picture's place, a note and words that were deleted."""
    document = docx.Document()
    paragraph = document.add_paragraph("See ")
    link = OxmlElement("w:hyperlink")
    link.set(qn("w:anchor"), "there")
    inner = paragraph.add_run("the red page")
    link.append(inner._r)
    paragraph._p.append(link)
    paragraph.add_run(" of ")
    for kind, words in (("begin", None), (None, " REF x "), ("separate", None), (None, "figure one"), ("end", None)):
        run = paragraph.add_run(words if words == "figure one" else None)
        if kind:
            sign = OxmlElement("w:fldChar")
            sign.set(qn("w:fldCharType"), kind)
            run._r.append(sign)
        elif words != "figure one":
            instruction = OxmlElement("w:instrText")
            instruction.text = words
            run._r.append(instruction)
    for name, number in (("bookmarkStart", "7"), ("bookmarkEnd", "7")):
        mark = OxmlElement(f"w:{name}")
        mark.set(qn("w:id"), number)
        paragraph._p.append(mark)
        paragraph.add_run(" and go on")
    note = OxmlElement("w:footnoteReference")
    note.set(qn("w:id"), "2")
    paragraph.add_run()._r.append(note)
    deleted = OxmlElement("w:del")
    gone = paragraph.add_run()
    text_gone = OxmlElement("w:delText")
    text_gone.text = "gone"
    gone._r.append(text_gone)
    deleted.append(gone._r)
    paragraph._p.append(deleted)
    paragraph.add_run(" now.")
    return saved(document)


def tags(content: bytes) -> Counter[str]:
    (paragraph,) = docx.Document(io.BytesIO(content)).paragraphs
    return Counter(str(each.tag).rpartition("}")[2] for each in paragraph._p.iter())


@settings(max_examples=10, deadline=None)
@given(st.lists(RUNS, max_size=3), functions, st.booleans())
def test_word_documents_keep_their_styles(paragraphs, name, align):
    source = word(paragraphs)
    written = translated("docx", source, FUNCTIONS[name], align=align)
    before, after = docx.Document(io.BytesIO(source)), docx.Document(io.BytesIO(written))
    assert [each.style.name for each in after.paragraphs] == [each.style.name for each in before.paragraphs]
    assert after.tables[0].cell(0, 1).text == "12"
    changed = {
        one for one, other in zip(members(source).items(), members(written).items(), strict=True) if one != other
    }
    assert {part for part, _ in changed} <= {"word/document.xml", "word/header1.xml"}
    for one, other in zip(before.paragraphs, after.paragraphs, strict=True):
        assert other.text.count("\t") == one.text.count("\t")
        assert other.text.count("\n") == one.text.count("\n")
        if name == "upper":
            assert other.text == one.text.upper()
            for words in ("TWO DOGS", "THEY RAN"):
                if one.text.upper().count(words) == 1:

                    def formats(paragraph, words=words):
                        return [(run.bold, run.italic) for run in paragraph.runs if words in run.text.upper()]

                    assert formats(other) == formats(one)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_links_fields_and_notes_stand_once(name, align):
    source = linked()
    before, after = tags(source), tags(translated("docx", source, FUNCTIONS[name], align=align))
    for tag in before.keys() - {"r", "t", "rPr"}:
        assert after[tag] == before[tag], tag
    written = docx.Document(io.BytesIO(translated("docx", source, FUNCTIONS[name], align=align))).paragraphs[0]._p
    kinds = [each.get(qn("w:fldCharType")) for each in written.iter(qn("w:fldChar"))]
    assert kinds == ["begin", "separate", "end"]
    if name == "upper":
        (link,) = written.iter(qn("w:hyperlink"))
        assert "".join(each.text for each in link.iter(qn("w:t"))) == "THE RED PAGE"
        assert "".join(each.text for each in written.iter(qn("w:t"))) == (
            "SEE THE RED PAGE OF FIGURE ONE AND GO ON AND GO ON NOW."
        )


def test_blanks_beside_a_link_do_not_look_like_it():
    document = docx.Document()
    paragraph = document.add_paragraph("See ")
    link = OxmlElement("w:hyperlink")
    shown = paragraph.add_run("the whole of the red page")
    shown.underline = True
    link.append(shown._r)
    paragraph._p.append(link)
    paragraph.add_run(" now.")
    written = docx.Document(io.BytesIO(translated("docx", saved(document), str.upper, align=True))).paragraphs[0]
    assert [(run.text, run.underline) for run in written.runs] == [("SEE ", None), (" NOW.", None)]
    assert [run.text for run in written.hyperlinks[0].runs] == ["THE WHOLE OF THE RED PAGE"]


def noted(run) -> dict[str, str]:
    """The languages of a run of Word."""
    return {key.rpartition("}")[2]: value for each in run.iter(qn("w:lang")) for key, value in each.attrib.items()}


@pytest.mark.parametrize(
    ("code", "languages"),
    [
        ("de", {"val": "de"}),
        ("pt_BR", {"val": "pt-BR"}),
        ("deu_Latn", {"val": "de"}),
        ("zh_Hant", {"val": "en-GB", "eastAsia": "zh-TW"}),
        ("ar", {"val": "en-GB", "bidi": "ar"}),
        (None, {"val": "en-GB"}),
    ],
)
def test_translated_words_are_in_their_language_in_word(code, languages):
    document = docx.Document()
    paragraph = document.add_paragraph()
    said = paragraph.add_run("Two dogs ")
    said.bold = True
    language = OxmlElement("w:lang")
    language.set(qn("w:val"), "en-GB")
    said._r.rPr.append(language)
    said._r.rPr.append(OxmlElement("w:oMath"))
    paragraph.add_run("run.")
    document.add_paragraph("1990").runs[0]._r.get_or_add_rPr().append(deepcopy(language))
    written = docx.Document(io.BytesIO(translated("docx", saved(document), str.upper, align=True, language=code)))
    first, number = written.paragraphs
    assert [run.text for run in first.runs] == ["TWO DOGS ", "RUN."]
    bold, plain = first.runs
    assert noted(bold._r) == languages
    assert [str(child.tag).rpartition("}")[2] for child in bold._r.rPr] == ["b", "lang", "oMath"]
    assert noted(plain._r) == {key: value for key, value in languages.items() if value != "en-GB"}
    assert noted(number.runs[0]._r) == {"val": "en-GB"}  # nothing was translated


@pytest.mark.parametrize(
    ("code", "languages"),
    [
        ("de", {"language": "de", "country": "none", "language-asian": "zh", "country-asian": "CN"}),
        ("pt-BR", {"language": "pt", "country": "BR", "language-asian": "zh", "country-asian": "CN"}),
        ("ja", {"language": "en", "country": "US", "language-asian": "ja", "country-asian": "none"}),
        (None, {"language": "en", "country": "US", "language-asian": "zh", "country-asian": "CN"}),
    ],
)
def test_translated_texts_of_opendocument_are_in_their_language(code, languages):
    document = opendocument.OpenDocumentText()
    default = style.DefaultStyle(family="paragraph")
    asian = {"languageasian": "zh", "countryasian": "CN"}
    default.addElement(style.TextProperties(language="en", country="US", rfclanguagetag="en-US", **asian))
    document.styles.addElement(default)
    for name, language in (("Said", "en"), ("Mute", "zxx")):
        words = style.Style(name=name, family="text")
        words.addElement(style.TextProperties(language=language, country="none", fontweight="bold"))
        document.automaticstyles.addElement(words)
        document.text.addElement(text.P())
        document.text.lastChild.addElement(text.Span(stylename=words, text="Two dogs run."))
    content = io.BytesIO()
    document.write(content)

    def found(written: bytes) -> list[dict[str, str]]:
        names = {key: value for key, value in members(written).items() if key in ("content.xml", "styles.xml")}
        roots = [etree.fromstring(names[name]) for name in sorted(names)]
        return [
            {key.rpartition("}")[2]: value for key, value in each.attrib.items()}
            for root in roots
            for each in root.iter("{*}text-properties")
        ]

    said, mute, *_, whole = found(translated("odt", content.getvalue(), str.upper, language=code))
    assert said["language"] == languages["language"]
    assert mute["language"] == "zxx"
    tag = {"rfc-language-tag": "en-US"} if languages["language"] == "en" else {}
    assert whole == {**languages, **tag}
    same = translated("odt", content.getvalue(), lambda sentence: sentence, language=code)
    assert members(same) == members(content.getvalue())


def odt(runs: list[tuple[str, int]]) -> bytes:
    document = opendocument.OpenDocumentText()
    bold = style.Style(name="Bold", family="text")
    bold.addElement(style.TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    document.text.addElement(text.H(outlinelevel=1, text="A title"))
    paragraph = text.P()
    for words, format in runs:
        target = text.Span(stylename=bold) if format & 1 else text.A(href="http://x") if format & 2 else paragraph
        teletype.addTextToElement(target, words)
        if target is not paragraph:
            paragraph.addElement(target)
    note = text.Note(noteclass="footnote")
    note.addElement(text.NoteCitation(text="1"))
    body = text.NoteBody()
    body.addElement(text.P(text="A note below."))
    note.addElement(body)
    paragraph.addElement(note)
    document.text.addElement(paragraph)
    listed = text.List()
    item = text.ListItem()
    item.addElement(text.P(text="An item. With two sentences."))
    listed.addElement(item)
    document.text.addElement(listed)
    content = io.BytesIO()
    document.write(content)
    return content.getvalue()


def elements(content: bytes) -> Counter[str]:
    document = opendocument.load(io.BytesIO(content))
    found: Counter[str] = Counter()

    def count(node) -> None:
        if node.nodeType == node.ELEMENT_NODE:
            found[node.qname[1]] += 1
            for child in node.childNodes:
                count(child)

    count(document.text)
    return found


@settings(max_examples=20, deadline=None)
@given(RUNS, functions, st.booleans())
def test_texts_of_opendocument_keep_their_structure(runs, name, align):
    source = odt(runs)
    written = translated("odt", source, FUNCTIONS[name], align=align)
    with zipfile.ZipFile(io.BytesIO(written)) as package:
        assert package.infolist()[0].filename == "mimetype"
        assert package.infolist()[0].compress_type == zipfile.ZIP_STORED
    before, after = elements(source), elements(written)
    for unsteady in ("s",):
        before.pop(unsteady, None)
        after.pop(unsteady, None)
    assert after == before
    if name == "upper":
        old, new = (opendocument.load(io.BytesIO(each)) for each in (source, written))
        words = [re.sub(r"\s", "", teletype.extractText(each.text)) for each in (old, new)]
        assert words[1] == words[0].upper()


def test_the_names_of_a_format_may_be_in_any_namespace():
    """One that is no absolute address, which XML allows and its canonical form does not."""
    files = members(word([[("One ", 0), ("two.", 1)]]))
    xml = files["word/document.xml"]
    files["word/document.xml"] = xml.replace(b"<w:rPr>", b'<w:rPr xmlns:mine="mine"><mine:x/>')
    document = find_format("docx").read(zipped(files))
    written = document.written([list(passage) for passage in document.passages], "de")
    assert b"mine" in members(written)["word/document.xml"]
