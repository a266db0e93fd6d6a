"""Texts and HTML cut into sentences and put together again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translated import FUNCTIONS, functions, translated

from locant.documents.markup import read_tokens
from locant.documents.sentences import sentence_spans, sentence_splitter

GERMAN = sentence_splitter("de")
TEXTS = st.text(st.sampled_from("ab .!?\n\r\t \u2028\u00a0。\"'()0Ä"), max_size=60)
STRETCHES = """<p> </p> <b> </b> <b <!-- --> &amp; & < > Wort <br/> <script> </script> <a%href="x>y"> </a> <![CDATA[ ]]>
<?x <!x </> ' " Ein%Satz.%"""
MARKUP = st.lists(
    st.sampled_from([*(part.replace("%", " ") for part in STRETCHES.split()), " ", "\n"]), max_size=25
).map("".join)


def rewritten(source, function=str.upper, **options):
    return translated("html", source, function, **options).decode()


def tags_of(source):
    """The tags, sorted."""
    return sorted(token.raw for token in read_tokens(source) if token.kind not in ("text", "kept"))


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("de", "Dr. Müller kam am 3. Mai. Er ging z.B. nicht.", ["Dr. Müller kam am 3. Mai.", "Er ging z.B. nicht."]),
        ("en", "Mr. Smith left. He is back!  Really?", ["Mr. Smith left.", "He is back!", "Really?"]),
        ("zho_Hans", "你好。你是谁？", ["你好。", "你是谁？"]),
        ("qq", "One. Two.", ["One.", "Two."]),
        ("de", "Eine Zeile\nund noch eine.\r\n\r\nEnde", ["Eine Zeile", "und noch eine.", "Ende"]),
    ],
)
def test_sentences_end_where_the_language_ends_them(language, text, sentences):
    assert [text[slice(*span)] for span in sentence_spans(text, sentence_splitter(language))] == sentences


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.sampled_from([GERMAN, lambda line: [line[:3], "drei", line[3:]]]))
def test_only_white_space_is_between_sentences(text, split):
    spans = sentence_spans(text, split)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    assert edges == sorted(edges)
    assert not "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)).strip()
    assert all(text[start:end].strip() == text[start:end] for start, end in spans)


@settings(max_examples=150, deadline=None)
@given(MARKUP)
def test_stretches_of_html_are_the_html(source):
    assert "".join(token.raw for token in read_tokens(source)) == source


@settings(max_examples=200, deadline=None)
@given(MARKUP, functions)
def test_tags_stay_whatever_the_translation(source, name):
    written = rewritten(source, FUNCTIONS[name])
    assert tags_of(written) == tags_of(source)


@settings(max_examples=100, deadline=None)
@given(MARKUP)
def test_translations_cannot_become_markup(source):
    assert "<img>" not in rewritten(source, lambda sentence: "<img>")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>Ein Satz. Noch einer.</p>", "<p>EIN SATZ. NOCH EINER.</p>"),
        ("<P CLASS=x>a<BR>b</P>", "<P CLASS=x>A<BR>B</P>"),
        ("a &lt; b &amp; c&nbsp;d", "A &lt; B &amp; C\u00a0D"),
        ("<b>Ein Satz.</b> Noch <i>einer</i>.", "<b>EIN SATZ.</b> NOCH <i>EINER</i>."),
        ("ein <a href='x'>roter</a> Ball", "EIN <a href='x'>ROTER</a> BALL"),
        (
            "<textarea>a</textarea><pre>b\n c</pre><code>d</code>e",
            "<textarea>a</textarea><pre>b\n c</pre><code>d</code>E",
        ),
        ("  \n <p>\n  a\n b\n</p>\n", "  \n <p>\n  A B\n</p>\n"),
        ("drück <kbd>Strg</kbd> und <img src=x> los", "DRÜCK <kbd>Strg</kbd> UND <img src=x> LOS"),
        ("<p>unclosed <b>tag", "<p>UNCLOSED <b>TAG"),
        ("ein <?php echo $a->b; ?> Ball", "EIN <?php echo $a->b; ?> BALL"),
        ("plain < text > here & there", "PLAIN < TEXT > HERE & THERE"),
        ("a &lt; b &amp; c > d & R&D", "A &lt; B & C > D & R&D"),
        ("<ruby>ein<rp>(</rp><rt>x</rt><rp>)</rp></ruby> Ball", "<ruby>EIN<rp>(</rp><rt>x</rt><rp>)</rp></ruby> BALL"),
        ("<ruby>ein<rt>x</ruby> Ball<rt>y</rt>", "<ruby>EIN<rt>x</ruby> BALL<rt>y</rt>"),
        ("<p translate='NO'>a <p>b</p> c</p><p>d</p>", "<p translate='NO'>a <p>b</p> c</p><p>D</p>"),
        ("<code translate=yes>a</code>", "<code translate=yes>A</code>"),
        ("Hallo, <!-- -->Ball<!-- c -->!", "HALLO, <!-- -->BALL<!-- c -->!"),
        (
            "<svg><title>x</title></svg> ein <math><mi>x</mi></math> Ball",
            "<svg><title>x</title></svg> EIN <math><mi>x</mi></math> BALL",
        ),
    ],
)
def test_html_is_translated_between_its_tags(source, expected):
    assert rewritten(source) == expected


def test_comments_and_formulas_are_inside_of_a_sentence():
    asked: list[str] = []
    translated(
        "html",
        "a <!-- b --> c <math><mi>x</mi></math> d<svg><text>y</text></svg>.",
        lambda text: asked.append(text) or text,
    )
    assert asked == ["a c x d."]


def test_a_sentence_is_read_without_the_readings_of_its_words():
    asked = []
    rewritten(
        "<p><ruby>東京<rt>とうきょう</rt></ruby>に<ruby>行<rt>い</ruby>く。</p>",
        lambda text: asked.append(text) or text,
    )
    assert asked == ["東京に行く。"]


@pytest.mark.parametrize(
    ("source", "language", "expected"),
    [
        ("<html lang='en' dir=ltr><p>a", "ar", "<html lang='ar' dir=rtl><p>A"),
        ('<HTML xml:lang="he" lang="he" dir="rtl"><p>a', "pt_BR", '<HTML xml:lang="pt-BR" lang="pt-BR" dir="ltr"><p>A'),
        ('<html class="lang=x"><p lang="en">a', "de", '<html class="lang=x"><p lang="en">A'),
        ("<html lang=en><p>a", None, "<html lang=en><p>A"),
        ("<html lang=en><p>12", "de", "<html lang=en><p>12"),
    ],
)
def test_a_translated_page_is_in_the_language_of_its_translation(source, language, expected):
    assert rewritten(source, language=language) == expected


@pytest.mark.parametrize("space", [" ", "  "])
def test_spaces_on_both_sides_of_a_picture_stay(space):
    # A model's translation has one space there; the sentence has two.
    def function(sentence):
        return space.join(sentence.upper().split("  "))

    assert rewritten("ein <img src=x> da.", function) == "EIN <img src=x> DA."
    assert rewritten("ein <img><img> da <img>.", function) == "EIN <img><img> DA <img>."
    assert rewritten("ein<img> da und <img>dort.", function) == "EIN<img> DA UND <img>DORT."


def test_what_is_not_to_be_translated_stays():
    source = "<p translate=no>a</p>b<span class='x notranslate'>c<span>d</span>e</span>f"
    assert rewritten(source) == "<p translate=no>a</p>B<span class='x notranslate'>c<span>d</span>e</span>F"


def test_marks_follow_their_words():
    def written(whole, *parts):
        known = dict(zip(["Der rote Ball", "Der", "rote", "Ball"], [whole, *parts], strict=True))
        return rewritten("Der <b>rote</b> Ball", known.__getitem__)

    assert written("The ball is red", "The", "Red.", "ball") == "The ball is <b>red</b>"
    # What is not found in the sentence: its parts stand for it.
    assert written("The ball is scarlet", "The", "red", "ball") == "The <b>red</b> ball"
    # Parts of words are not words.
    assert written("The reddish ball", "The", "red", "ball") == "The <b>red</b> ball"


def test_what_follows_the_last_tag_is_text_and_a_comment_without_an_end_stays():
    assert [(token.kind, token.raw) for token in read_tokens("<p>A</p>1 < 2")][-1] == ("text", "1 < 2")
    assert [(token.kind, token.raw) for token in read_tokens("A <!-- b > c")] == [
        ("text", "A "),
        ("break", "<!-- b > c"),
    ]
    assert [(token.kind, token.raw) for token in read_tokens("<p><!-- b --> c")][-1] == ("text", " c")
    assert all(token.kind == "break" for token in read_tokens("<script>if (a < b)"))
