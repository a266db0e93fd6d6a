"""Markdown, subtitles, JSON, PO and plain text: what is no text stays, whatever the texts are translated to."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import polib
import pyromark
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from translated import FUNCTIONS, functions, reversed_words, translated

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
SAMPLES = Path(__file__).parent / "samples"
BETWEEN = "\n\n<!-- -->\n\n"
MARKDOWN = (SAMPLES / "blocks.md").read_text().split(BETWEEN)
SITES = (SAMPLES / "sites.md").read_text().split(BETWEEN)
SUBRIP, WEBVTT, CATALOGUE = ((SAMPLES / name).read_text() for name in ("dialogue.srt", "film.vtt", "plurals.po"))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("page", SITES)
def test_what_generators_of_sites_have_besides_stays(page, newline):
    page = page.replace("\n", newline)
    source, expected = page.replace("TEXT", "the old house"), page.replace("TEXT", "DAS HAUS <- #1")
    asked = []
    found = translated("markdown", source, lambda text: asked.append(text) or "DAS HAUS <- #1").decode()
    assert found == expected
    assert set(asked) <= {"the old house"}


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("He left.", "- x", "\\- x"),
        ("He left.", "# x", "\\# x"),
        ("He left.", ": x", "\\: x"),
        (": he left.", ": x", ": x"),
        ("He left.", "::: x", "\\::: x"),
        ("He left.", "1. x", "1\\. x"),
        ("He left.", "!!! note", "\\!!! note"),
        ("# He left.", "- x", "# - x"),
        ("# He left.", "x #", "# x \\#"),
        ("# He left.", "x {y}", "# x \\{y}"),
        ("[He](u) left.", "![x]", "[![x]](u)"),
        ("He left.", "5 * 6 < 7 > 4 & R&D a_b C:\\x", "5 * 6 < 7 > 4 & R&D a_b C:\\x"),
        ("He <!-- left.", "x <3 -->", "x <3 -->"),
        ("He left\\", "\\<b>", "\\\\\\<b>"),
        ("He left.", "{{ x }} {% y %}", "\\{\\{ x }} \\{\\% y %}"),
        ("He *left*.", "**x**", "*\\*\\*x\\*\\**"),
        ("He [left] it.", "Er [ging].", "Er [ging]."),
        ("He [left] it.\n\n[ging]: u", "Er [ging].", "Er \\[ging\\].\n\n[ging]: u"),
        ("He [left](u).", "Er [ging](u).", "[Er \\[ging\\](u)](u)."),
        ("| He left. |\n|---|", "a | b", "| a \\| b |\n|---|"),
        ("He left | now.", "Er | ging.", "Er | ging."),
        ("He \\{ left \\< it.", "Er { ging < 2.", "Er \\{ ging \\< 2."),
        ("He left.", "    er ging", "er ging"),
        ("He \\(x_1 + \\frac{1}{2}\\) left.", "Er x_1 + \\frac{1}{2} ging.", "Er \\(x_1 + \\frac{1}{2}\\) ging."),
        ("He \\(or she\\) left.", "Er (oder sie) ging.", "Er \\(oder sie\\) ging."),
    ],
)
def test_a_sign_of_a_translation_is_markup_where_the_source_has_it(source, translation, expected):
    def function(sentence: str) -> str:
        return translation

    assert translated("markdown", source, function, split=lambda line: [line]).decode() == expected


WORDS = st.lists(
    st.sampled_from(["a", "dog ", "*", "_", "`", "[", "](u)", "<b>", "<3 ", "~~", "&amp;", "- ", "# ", "\\"])
)


@settings(max_examples=150, deadline=None)
@given(WORDS.map("".join), WORDS.map("".join))
@example("*<b>*a<3 ", "")
@example("~~<3 <b>~~dog *", "*`dog `a")
def test_no_translation_becomes_markup(source, translation):
    source = f"The {source} man"
    written = translated("markdown", source, lambda sentence: f"{translation} end", split=lambda line: [line])
    marks = Counter(kinds(written))
    assert not marks - Counter(kinds(source.encode())), written


def test_digits_without_end_are_no_entity():
    source = f"He &#{'1' * 5_000}; left."
    written = translated("markdown", source, lambda sentence: f"*{sentence}* &", split=lambda line: [line])
    assert kinds(written) == kinds(source.encode())


def kinds(markdown: bytes) -> list[str]:
    """The events of a parser but for words."""
    found = []
    for event in pyromark.events(markdown.decode(), options=OPTIONS):
        kind, value = (event, None) if isinstance(event, str) else next(iter(event.items()))
        if kind == "Html":
            found += re.findall(r"<[^<>]*>", value)
        elif kind in ("Code", "InlineHtml", "Start") and "CodeBlock" not in str(value):
            found.append(str(event))
        elif kind not in ("Text", "SoftBreak"):
            found.append(str(kind) + str(value))
    return found


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(MARKDOWN), max_size=4).map(BETWEEN.join),
    functions,
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_markdown_keeps_its_structure(source, name, align, newline):
    source = source.replace("\n", newline)
    written = translated("markdown", source, FUNCTIONS[name], align=align)
    if name in ("upper", "twice", "one word"):
        # Links whose words are their reference have it in full where the words are translated.
        plain = [re.sub(r"(Shortcut|Collapsed)", "Reference", kind) for kind in kinds(written)]
        expected = [re.sub(r"(Shortcut|Collapsed)", "Reference", kind) for kind in kinds(source.encode())]
        assert sorted(plain) == sorted(expected)
    if name == "markup":
        blocks = [
            kind for kind in kinds(written) if re.match(r"(\{'Start': ('|\{'(Head|List|Block|Code|Table|Html)))", kind)
        ]
        assert blocks == [
            kind
            for kind in kinds(source.encode())
            if re.match(r"(\{'Start': ('|\{'(Head|List|Block|Code|Table|Html)))", kind)
        ]
    for kept in ("code here\n", "    indented code", '(http://x "title")', "![a picture](y.png)", "[Ref]: http://ref"):
        assert written.decode().count(kept.replace("\n", newline)) == source.count(kept.replace("\n", newline))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("two dogs\nare here", "here are\ndogs two"),
        ("play *two dogs* now", "now *dogs two* play"),
        ("x y 2)", "2\\) y x"),
        ("- item\n  goes on", "- on\n  goes item"),
        ("x # y", "y # x"),
        ("[Ref]\n\n[Ref]: u", "[Ref]\n\n[Ref]: u"),
        ("[the words][] end\n\n[the words]: u", "end [words the][the words]\n\n[the words]: u"),
        ("---\ntitle: x\n---\n\nTwo dogs", "---\ntitle: x\n---\n\ndogs Two"),
        ("cost $ or $ b", "b $ or $ cost"),
    ],
)
def test_markdown_between_its_marks(source, expected):
    assert translated("markdown", source, reversed_words).decode() == expected


@settings(max_examples=60, deadline=None)
@given(functions, st.booleans(), st.sampled_from([("srt", SUBRIP), ("vtt", WEBVTT)]), st.sampled_from(["\n", "\r\n"]))
def test_times_numbers_and_settings_of_subtitles_stay(name, align, subtitles, newline):
    format, source = subtitles
    source = source.replace("\n", newline)
    written = translated(format, source, FUNCTIONS[name], align=align).decode()

    def frame(text: str) -> list[str]:
        lines = text.splitlines()
        return [
            line for line in lines if "-->" in line or re.fullmatch(r"\d+|STYLE|NOTE.*|--|intro|WEBVTT.*|::cue.*", line)
        ]

    assert frame(written)[: len(frame(source))] == frame(source)
    for tag in re.findall(r"<[^<>]+>|\{\\an8\}", source):
        assert written.count(tag) >= source.count(tag)


def test_a_sentence_over_two_cues_is_translated_whole():
    asked = []
    translated("srt", SUBRIP, lambda sentence: asked.append(sentence) or sentence)
    assert asked[0] == "Hello there, my old friend and also my enemy."
    written = translated("srt", SUBRIP, lambda sentence: "x" + " x" * len(sentence.split())).decode()
    assert all(text.strip() for text in re.split(r"\d+\n00.*\n", written)[1:])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["Hello {name}!", "Two\ndogs.", "", 'é %s \\ "', "<b>Bold</b>"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "text", "é\n"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def skeleton(value):
    if isinstance(value, dict):
        return {key: skeleton(inner) for key, inner in value.items()}
    return [skeleton(inner) for inner in value] if isinstance(value, list) else str if isinstance(value, str) else value


@settings(max_examples=80, deadline=None)
@given(values, functions, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_json_keeps_all_but_its_texts(value, name, ascii, indent):
    source = json.dumps(value, ensure_ascii=ascii, indent=indent)
    written = translated("json", source, FUNCTIONS[name]).decode()
    assert skeleton(json.loads(written)) == skeleton(value)
    for placeholder in ("{name}", "%s", "<b>", "</b>"):
        assert written.count(placeholder) >= source.count(placeholder)


def test_keys_choose_what_of_json_is_translated():
    source = '{"a": "x y", "b": {"a": "x", "text": ["p", {"c": "q"}]}, "text": "r"}'
    chosen = {"a": "X", "b.text": '{"a": "x y", "b": {"a": "x", "text": ["P", {"c": "q"}]}, "text": "r"}'}
    assert translated("json", source, str.upper, keys=("b.text",)).decode() == chosen["b.text"]
    assert json.loads(translated("json", source, str.upper, keys=("a", "c"))) == {
        "a": "X Y",
        "b": {"a": "X", "text": ["p", {"c": "Q"}]},
        "text": "r",
    }


@settings(max_examples=40, deadline=None)
@given(functions, st.sampled_from(["\n", "\r\n"]))
def test_catalogues_keep_all_but_missing_translations(name, newline):
    written = translated("po", CATALOGUE.replace("\n", newline), FUNCTIONS[name]).decode()
    before, after = polib.pofile(CATALOGUE), polib.pofile(written)
    assert after.metadata == before.metadata
    for old, new in zip(before, after, strict=True):
        assert [old.msgid, old.msgid_plural, old.msgctxt, old.flags, old.comment, old.occurrences, old.obsolete] == [
            new.msgid, new.msgid_plural, new.msgctxt, new.flags, new.comment, new.occurrences, new.obsolete,
        ]  # fmt: skip
        if old.msgstr:
            assert new.msgstr == old.msgstr
    first, second = after[0], after[1]
    for form, message in ((0, first.msgid), (1, first.msgid_plural)):
        for placeholder in ("%d", "%(user)s"):
            assert first.msgstr_plural[form].count(placeholder) == message.count(placeholder) or name == "twice"
    assert second.msgstr.endswith("\n")
    assert "{name}" in second.msgstr
    if name == "same":
        assert second.msgstr == second.msgid


@pytest.mark.parametrize(
    ("rule", "forms"),
    [
        ("nplurals=1; plural=0;", ["TWO"]),
        ("nplurals=2; plural=(n != 1);", ["ONE", "TWO"]),
        ("nplurals=3; plural=(n%100==1 ? 1 : n%100==2 ? 2 : 0);", ["TWO", "ONE", "TWO"]),
        ("nplurals=2; plural=__import__('os');", ["ONE", "TWO"]),
        ("nplurals=2; plural=n%0;", ["ONE", "TWO"]),
        pytest.param(f"nplurals={'2' * 5_000}; plural=(n != 1);", ["ONE", "TWO"], id="digits"),
        pytest.param(f"nplurals=2; plural=n{'+1' * 5_000};", ["ONE", "TWO"], id="long"),
    ],
)
def test_the_singular_stands_where_the_language_has_it(rule, forms):
    empty = "".join(f'msgstr[{number}] ""\n' for number in range(len(forms)))
    source = f'msgid ""\nmsgstr "Plural-Forms: {rule}\\n"\n\nmsgid "one"\nmsgid_plural "two"\n{empty}'
    (entry,) = polib.pofile(translated("po", source, str.upper).decode())
    assert list(entry.msgstr_plural.values()) == forms


TEXTS = st.lists(
    st.sampled_from(
        ["Two dogs play.", "They ran", "- one", "1) two", "", "   indented", "He left. It rained!", "\t", "42"]
    ),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(TEXTS, functions, st.booleans(), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_plain_text_keeps_its_lines_and_white_space(lines, name, wrapped, newline, marked):
    source = ("\ufeff" if marked else "") + newline.join(lines)
    written = translated("text", source, FUNCTIONS[name], wrapped=wrapped).decode()
    if not wrapped:
        assert written.count(newline) == source.count(newline)
    assert written.startswith("\ufeff") == marked


def test_wrapped_text_is_read_as_paragraphs():
    asked = []
    source = "Two dogs play in the\ngarden. They are\nhappy.\n\n- One\n  item\n- two\n"
    written = translated("text", source, lambda text: asked.append(text) or text.upper(), wrapped=True).decode()
    assert asked == ["Two dogs play in the garden.", "They are happy.", "One item", "two"]
    assert written == source.upper()
