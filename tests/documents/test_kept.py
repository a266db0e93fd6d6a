"""What a translation has as well as its source: every family of it, whatever a model makes of it, in linear time."""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from xml.sax.saxutils import escape, unescape

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translated import reversed_words, translated

from locant.documents import kept, passages
from locant.documents.kept import find_kept
from locant.documents.passages import message_marks

PROSE = {
    "address": "See https://a.b/c_(d)?e=1#f. [https://a.b/c_(d)?e=1#f]",
    "mail": "Write to a.b+c@d-e.org. [a.b+c@d-e.org]",
    "braces": "{{ user.name }} {{{x}}} ${x y} %{x} #{x} {x} {0} {% raw %} {two words} {a, b} "
    "[{{ user.name }} {{{x}}} ${x y} %{x} #{x} {x} {0} {% raw %}]",
    "template": "Hello <%= user.name %> if a <% b <?php echo $x->y > 1; ?> or a <? b "
    "[<%= user.name %> <?php echo $x->y > 1; ?>]",
    "identifier": "At 2026-11-29T02:48:00.5Z by 123e4567-e89b-12d3-a456-426614174000, 2026-11-29 and 12345678-a "
    "[2026-11-29T02:48:00.5Z 123e4567-e89b-12d3-a456-426614174000]",
    "call": "Click $t(button.save) [$t(button.save)]",
    "variable": "For $NAME$ and $user in A$AP [$NAME$ $user]",
    "percent name": "In %PATH% and %%NAME%% by ##a_b## there ## not @@ [%PATH% %%NAME%% ##a_b##]",
    "mention": "Ask @anna, @a_b@c.org or @:owner @ noon, a@b [@anna @a_b@c.org @:owner]",
    "hashtag": "A #tag and #1st of C# is C#x, # no, &#x; [#tag #1st]",
    "emoji name": "So :smile: a:b:c at ::x [:smile:]",
    "underscores": "From __sender__ in snake_case__x or ____ [__sender__]",
    "number": "#1 50% 50 % 5 € $5 -$5 5°C 5 ‰ (-5) 10-20 ±3 3½ at 5:30, 0.85.x 2.0.1-beta v1.2 1.0rc1 1,000.5. 3rd 5km "
    "[#1 50% 50 % 5 € $5 -$5 5°C 5 ‰ -5 10 20 ±3 3½ 5:30 0.85.x 2.0.1-beta v1.2 1.0rc1 1,000.5]",
    "sign": "Sing ♪ → 👩‍🚀👍🏽! [♪ → 👩‍🚀👍🏽]",
}
MESSAGES = {
    "tag": "Please <0>click</0>, <b title='{x}'>here</b><br/> if a < b > c [<0> </0> <b title='{x}'> </b> <br/>]",
    "entity": "R&amp;D &#8230; Q & A; [&amp; &#8230;]",
    "argument": "{ name } {1, date, short} {0:yyyy-MM dd} {n, plural, one {a '{' file} other {{x} files}} {1!r} {a, b} "
    "[{ name } {1, date, short} {0:yyyy-MM dd} {n, plural, one {a '{' file} other {{x} files}} {1!r}]",
    "printf": "%s %+v %(unit name)s %|2$s| %[1]s %0:d % d %-5.1f%% %1$s %lld %*d %@ %dMB %Y-%m %FUN%, "
    "100% sure, 50%off, 5 % de, of % in "
    "[%s %+v %(unit name)s %|2$s| %[1]s %0:d % d %-5.1f %% %1$s %lld %*d %@ %d %Y %m]",
    "position": "Open %1 and %L2. [%1 %L2]",
    "colon name": "Hello :name at 5:30, a::b, a:b, see: this [:name]",
    "accelerator": "Save _all in snake_case [_]",
}


@pytest.mark.parametrize("kind", sorted(PROSE))
def test_each_family_is_kept_in_any_text(kind):
    text, _, rest = PROSE[kind].rpartition(" [")
    found = [text[start:end] for start, end, own in find_kept(text) if own == kind]
    assert " ".join(found) == rest[:-1]


@pytest.mark.parametrize("kind", sorted(MESSAGES))
def test_each_family_is_kept_in_messages(kind):
    text, _, rest = MESSAGES[kind].rpartition(" [")
    found = [text[start:end] for start, end, own in find_kept(text, in_message=True) if own == kind]
    marked = [text[start:end] for start, end, _ in message_marks(text)]
    assert " ".join(found if kind != "accelerator" else marked) == rest[:-1]


def test_tags_in_brackets_are_pairs():
    marks = message_marks("a [b]c[/b] [url=http://a.b]d[/url] [this]")
    assert [mark.kind for _, _, mark in marks] == ["open", "close"] * 2


def test_each_family_has_its_example():
    assert {(name, "prose" if where == "prose" else "messages") for name, where, _ in kept._FAMILIES} | {
        ("argument", "messages")
    } == {(name, "prose") for name in PROSE} | {(name, "messages") for name in MESSAGES}


WORDS = re.findall(r"\S+", """alpha beta gamma, delta (eta) "theta" iota-kappa""")
KEPT = re.split(
    r"\|",
    "50%|5 €|$5|-7|2.0.1-beta|v1.2|1,000|10:30|#3|20 °C|{{x}}|{{{y}}}|${z}|%{q}|@anna|#tag|$NAME$|__a__|:smile:|"
    "a@b.org|http://a.b/c|♪|👍🏽",
)
KEPT_IN_MESSAGES = re.split(
    r"\|", "%s|%(unit name)s|{ n }|{1, date, short}|{n, plural, one {x} other {# y}}|%1$d|:name"
)


def faithful(sentence: str, rng: random.Random) -> str:
    return reversed_words(sentence).upper() if not find_kept(sentence) else sentence


def hostile(sentence: str, rng: random.Random) -> str:
    """Drop, garble, double and reorder words, and leave out signs."""
    words = sentence.split()
    rng.shuffle(words)
    found = []
    for word in words:
        choice = rng.randrange(7)
        if choice == 0:
            word = "".join(letter for letter in word if letter.isalnum())
        elif choice == 1:
            word = word[: len(word) // 2]
        elif choice == 2:
            word = f"{word} {word}"
        elif choice == 3:
            word = word.upper()
        found += [] if choice == 4 else [word]
    return rng.choice([" ", ", "]).join(found)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*WORDS, *WORDS, *KEPT, *KEPT_IN_MESSAGES]), min_size=1, max_size=9),
    st.sampled_from([faithful, hostile]),
    st.integers(0, 10_000),
    st.sampled_from(["", "json", "xliff"]),
)
def test_what_is_kept_is_there_as_often_as_it_was(words, model: Callable, seed, in_message):
    words = [word for word in words if in_message or word not in KEPT_IN_MESSAGES]
    source = " ".join(words)
    rng = random.Random(seed)
    if in_message == "json":
        written = json.loads(translated("json", json.dumps(source), lambda text: model(text, rng)))
    elif in_message:
        unit = f'<xliff version="1.2"><trans-unit><source>{escape(source)}</source></trans-unit></xliff>'
        found = re.search(
            "<target[^>]*>(.*)</target>", translated("xliff", unit, lambda text: model(text, rng)).decode()
        )
        written = unescape(found[1]) if found else source
    else:
        written = translated("text", source, lambda text: model(text, rng)).decode()

    def counted(text: str) -> Counter[str]:
        spans = [each[:2] for each in find_kept(text)]
        spans += [each[:2] for each in message_marks(text)] if in_message else []
        inner = [one for one in spans if not any(two[0] <= one[0] and one[1] <= two[1] and one != two for two in spans)]
        return Counter(text[start:end] for start, end in set(inner))

    wanted, found = counted(source), counted(written)
    assert {text: found[text] for text in wanted} == wanted


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("_Open", "Öffnen", "_Öffnen"),
        ("&Save all", "Alle sichern", "Alle &sichern"),
        ("E_xit", "Beenden", "_Beenden"),
        ("Save %s _now", "%s jetzt sichern", "%s _jetzt sichern"),
        ("_Open", "¿Abrir?", "¿_Abrir?"),
        ("<b>_Open</b> it", "Öffnen", "<b>_Öffnen</b>"),
        ("R&D", "F&E", "F&E"),
        ("_A and _B", "_A und _B", "_A und _B"),
    ],
)
def test_the_sign_of_an_accelerator_stands_before_a_word(source, translation, expected):
    asked: list[str] = []
    catalogue = polib.POFile()
    catalogue.append(polib.POEntry(msgid=source, msgstr=""))
    written = translated("po", str(catalogue), lambda text: asked.append(text) or translation, align=True)
    assert polib.pofile(written.decode())[0].msgstr == expected
    assert "_" not in asked[0] or source == "_A and _B"


@pytest.mark.parametrize(
    ("source", "model", "expected"),
    [
        # A pair that holds only what is kept stands around it, whatever is aligned; so do marks within.
        ("page <b>12</b>", lambda text: "12 Seite", "<b>12</b> Seite"),
        ("a <b>(12)</b>, b", lambda text: "x y (12), z", "x y <b>(12)</b>, z"),
        ("the <i>$5</i> price", lambda text: "Preis 5 $", "Preis <i>$5</i>"),
        ("see <a>#<i>house</i></a> now", lambda text: "nun #house sehen", "nun <a>#<i>house</i></a> sehen"),
        ("see <a>#<i>house</i></a> now", lambda text: text.upper(), "SEE <a>#<i>HOUSE</i></a> NOW"),
        # Punctuation that is not marked stays outside, what is marked inside.
        ("See <a>(the house)</a>.", lambda text: "Siehe (das Haus).", "Siehe <a>(das Haus)</a>."),
        ('A <b>"b c"</b>, d', lambda text: "W „x y“, z", "W <b>„x y“</b>, z"),
        ("See <b>it,</b> now", lambda text: "Sieh es, nun", "Sieh <b>es,</b> nun"),
        ("See <b>it</b>!", lambda text: "Sieh es!", "Sieh <b>es</b>!"),
        # Signs belong to their number; a word for one of them does not stand beside it.
        ("He has 50% now", lambda text: "Er hat 50 Prozent" if "50" in text else text.upper(), "HE HAS 50% NOW"),
        ("He has 50% now", lambda text: "Er hat 50 % nun", "Er hat 50% nun"),
        # Parts do not grow together where a model leaves out signs.
        ("is 100% (good) {{x}}- bad", lambda text: text.strip("()-. ").upper(), "IS 100% (GOOD) {{x}}- BAD"),
        ('a "{{x}}" b (50%) c', lambda text: "".join(c for c in text if c.isalpha()), 'a "{{x}}" b (50%) c'),
    ],
)
def test_marks_numbers_and_signs(source, model, expected):
    assert translated("html", source, model, align=True).decode() == expected


BOMBS = re.split(
    r"\|",
    "a1 |中1111<b>|<b>1</b>a |]00:a|@a |#a|{a |{'|{|}|{{a}} |'{|$a|$t(|%a%|%|%(a|_a|__a__|&a |1.|1.1-|-1 |5 % |http://)|"
    'a@b.c |a.|:a|☺a|<a |<0>a</0>|"a |a (|a\n|a. |x<wbr>|<code>a1</code>|{n, plural, one {a} other {b}} c ',
)


def work(format: str, source: str, function: Callable[[str], str]) -> int:
    """Count the lines of Python that are run."""
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        translated(format, source, function, align=True, split=lambda line: [line])
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("format", ["html", "json"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_twice_the_size_is_twice_the_work(bomb, format, monkeypatch):
    # What is within these limits takes time with the square of its size, which is no more than a factor.
    monkeypatch.setattr(passages, "_MOST_CHARACTERS", 300)
    monkeypatch.setattr(passages, "_MOST_KEPT", 8)

    def source(size: int) -> str:
        text = "a " + bomb * (size // len(bomb))
        return json.dumps(text) if format == "json" else text

    work(format, source(100), str.upper)  # patterns are compiled and modules loaded
    for function in (str.upper, lambda text: "x"):
        assert work(format, source(2_400), function) < 2.2 * work(format, source(1_200), function)
