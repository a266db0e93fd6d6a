"""Word and OpenDocument: texts are translated; styles, links, notes and all else stay, each once."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter

import docx
import pytest
from docx.oxml.ns import qn
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from translated import FUNCTIONS, functions, translated, zipped
from translated import odt as odt_body
from translated import word as word_body

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


def field(kind: str) -> str:
    return f'<r><fldChar w:fldCharType="{kind}"/></r>'


LINKED = word_body(
    '<p><r><t>See </t></r><hyperlink w:anchor="there"><r><t>the red page</t></r></hyperlink><r><t> of </t></r>'
    f"{field('begin')}<r><instrText> REF x </instrText></r>{field('separate')}<r><t>figure one</t></r>{field('end')}"
    '<bookmarkStart w:id="7"/><r><t> and go on</t></r><bookmarkEnd w:id="7"/><r><t> and go on</t></r>'
    '<r><footnoteReference w:id="2"/></r><del><r><delText>gone</delText></r></del><r><t> now.</t></r></p>'
)


def paragraph(content: bytes) -> etree._Element:
    return next(etree.fromstring(members(content)["d.xml"]).iter("{*}p"))


def tags(content: bytes) -> Counter[str]:
    return Counter(etree.QName(each).localname for each in paragraph(content).iter())


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
    content = translated("docx", LINKED, FUNCTIONS[name], align=align)
    before, after = tags(LINKED), tags(content)
    for tag in before.keys() - {"r", "t", "rPr"}:
        assert after[tag] == before[tag], tag
    written = paragraph(content)
    assert [each.get(qn("w:fldCharType")) for each in written.iter(qn("w:fldChar"))] == ["begin", "separate", "end"]
    if name == "upper":
        (link,) = written.iter(qn("w:hyperlink"))
        assert "".join(each.text for each in link.iter(qn("w:t"))) == "THE RED PAGE"
        text = "SEE THE RED PAGE OF FIGURE ONE AND GO ON AND GO ON NOW."
        assert "".join(each.text for each in written.iter(qn("w:t"))) == text


def test_blanks_beside_a_link_do_not_look_like_it():
    shown = "<r><rPr><u/></rPr><t>the whole of the red page</t></r>"
    source = word_body(f"<p><r><t>See </t></r><hyperlink>{shown}</hyperlink><r><t> now.</t></r></p>")
    written = paragraph(translated("docx", source, str.upper, align=True))
    runs = [("".join(run.itertext()), run.find("{*}rPr/{*}u") is not None) for run in written.iter(qn("w:r"))]
    assert runs == [("SEE ", False), ("THE WHOLE OF THE RED PAGE", True), (" NOW.", False)]


def noted(run) -> dict[str, str]:
    """The languages of a run of Word."""
    return {key.rpartition("}")[2]: value for each in run.iter(qn("w:lang")) for key, value in each.attrib.items()}


@pytest.mark.parametrize(
    ("code", "language"), [("de", "de"), ("pt_BR", "pt-BR"), ("deu_Latn", "de"), ("zh_Hant", "zh-TW"), (None, None)]
)
def test_translated_words_are_in_their_language_in_word(code, language):
    said = '<lang w:val="en-GB"/>'
    source = word_body(
        f"<p><r><rPr><b/>{said}<oMath/></rPr><t>Two dogs </t></r><r><t>run.</t></r></p>"
        f"<p><r><rPr>{said}</rPr><t>1990</t></r></p>"
    )
    written = etree.fromstring(members(translated("docx", source, str.upper, align=True, language=code))["d.xml"])
    bold, plain, number = written.iter(qn("w:r"))
    assert ["".join(run.itertext()) for run in (bold, plain)] == ["TWO DOGS ", "RUN."]
    languages = dict.fromkeys(("val", "eastAsia", "bidi"), language) if language else {}
    assert noted(bold) == (languages or {"val": "en-GB"})
    assert [etree.QName(child).localname for child in bold.find("{*}rPr")] == ["b", "lang", "oMath"]
    assert noted(plain) == languages
    assert noted(number) == {"val": "en-GB"}  # nothing was translated


@pytest.mark.parametrize(
    ("code", "languages"),
    [
        ("de", {"language": "de", "country": "none", "language-asian": "de", "country-asian": "none"}),
        ("pt-BR", {"language": "pt", "country": "BR", "language-asian": "pt", "country-asian": "BR"}),
        (None, {"language": "en", "country": "US", "language-asian": "zh", "country-asian": "CN"}),
    ],
)
def test_translated_texts_of_opendocument_are_in_their_language(code, languages):
    asian = 'style:language-asian="zh" style:country-asian="CN" style:rfc-language-tag="en-US"'
    styles = [f'fo:language="en" fo:country="US" {asian}', 'fo:language="en"', 'fo:language="zxx"']
    body = "".join(f"<style:style><style:text-properties {said}/></style:style>" for said in styles)
    source = odt_body(f"{body}<text:p>Two dogs run.</text:p>")

    def found(written: bytes) -> list[dict[str, str]]:
        content = etree.fromstring(members(written)["content.xml"])
        return [
            {etree.QName(key).localname: value for key, value in each.attrib.items()}
            for each in content.iter("{*}text-properties")
        ]

    whole, said, mute = found(translated("odt", source, str.upper, language=code))
    assert said["language"] == languages["language"]
    assert mute["language"] == "zxx"
    tag = {"rfc-language-tag": "en-US"} if languages["language"] == "en" else {}
    assert whole == {**languages, **tag}
    assert translated("odt", source, lambda sentence: sentence, language=code) == source


def odt(runs: list[tuple[str, int]]) -> bytes:
    around = ["{}", '<text:span text:style-name="Bold">{}</text:span>', '<text:a text:href="http://x">{}</text:a>']
    signs = {"\t": "<text:tab/>", "\n": "<text:line-break/>", " ": "<text:s/>"}
    words = "".join(around[1 if format & 1 else format & 2].format(signs.get(said, said)) for said, format in runs)
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note below.</text:p>"
    return odt_body(
        f"<text:h>A title</text:h><text:p>{words}{note}</text:note-body></text:note></text:p>"
        "<text:list><text:list-item><text:p>An item. With two sentences.</text:p></text:list-item></text:list>"
    )


def elements(content: bytes) -> Counter[str]:
    names = [etree.QName(each).localname for each in etree.fromstring(members(content)["content.xml"]).iter()]
    return Counter(name for name in names if name != "s")


@settings(max_examples=20, deadline=None)
@given(RUNS, functions, st.booleans())
def test_texts_of_opendocument_keep_their_structure(runs, name, align):
    source = odt(runs)
    written = translated("odt", source, FUNCTIONS[name], align=align)
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(io.BytesIO(written)) as new:
        kinds = [[(each.filename, each.compress_type) for each in package.infolist()] for package in (old, new)]
        assert kinds[0] == kinds[1]
    assert elements(written) == elements(source)
    if name == "upper":
        words = [
            re.sub(r"\s", "", "".join(etree.fromstring(members(each)["content.xml"]).itertext()))
            for each in (source, written)
        ]
        assert words[1] == words[0].upper()


def test_the_names_of_a_format_may_be_in_any_namespace():
    """One that is no absolute address, which XML allows and its canonical form does not."""
    files = members(word([[("One ", 0), ("two.", 1)]]))
    xml = files["word/document.xml"]
    files["word/document.xml"] = xml.replace(b"<w:rPr>", b'<w:rPr xmlns:mine="mine"><mine:x/>')
    document = find_format("docx").read(zipped(files))
    written = document.written([list(passage) for passage in document.passages], "de")
    assert b"mine" in members(written)["word/document.xml"]
