"""The routes of LibreTranslate's interface: what comes back for what is asked."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from served import serving, tiny_models, tiny_translator

from locant.server import translating

TEXT = "alpha beta gamma. Delta epsilon!\n\n  zeta eta theta\tiota.\r\nkappa"


@pytest.fixture(scope="module")
def client():
    with serving(tiny_models(("de", "en"), ("fr", "en"))) as found:
        yield found


@pytest.fixture(scope="module")
def small():
    with serving(limits={"sentence_tokens": 12}) as found:
        yield found


@pytest.fixture(scope="module")
def translator():
    return tiny_translator()


def ask(client, **fields):
    return client.post("/translate", json={"source": "de", "target": "en", **fields})


def test_a_sentence_is_translated_as_the_translator_does(client, translator):
    answer = ask(client, q="alpha beta gamma")
    assert answer.status_code == 200
    assert answer.json() == {"translatedText": translator.translate("alpha beta gamma")}


def test_a_list_gives_a_list(client, translator):
    texts = ["alpha beta", "gamma delta epsilon", "  ", "zeta"]
    answer = ask(client, q=texts).json()
    assert answer == {"translatedText": [*translator.translate(texts[:2]), "  ", translator.translate("zeta")]}


def test_paragraphs_and_white_space_stay(client, translator):
    answer = ask(client, q=TEXT).json()["translatedText"]
    parts = ["alpha beta gamma.", "Delta epsilon!", "zeta eta theta\tiota.", "kappa"]
    a, b, c, d = translator.translate(parts)
    assert answer == f"{a} {b}\n\n  {c}\r\n{d}"


@pytest.mark.parametrize("kind", ["form", "multipart", "query"])
def test_forms_are_read_like_json(client, translator, kind):
    fields = {"q": "alpha beta", "source": "de", "target": "en"}
    if kind == "form":
        answer = client.post("/translate", data=fields)
    elif kind == "multipart":
        answer = client.post("/translate", files={name: (None, value) for name, value in fields.items()})
    else:
        answer = client.post("/translate", params=fields)
    assert answer.json() == {"translatedText": translator.translate("alpha beta")}


def test_alternatives_are_the_next_best(client, translator):
    answer = ask(client, q="alpha beta gamma", alternatives=2).json()
    best, *others = [found.text for found in translator.translate_n_best(["alpha beta gamma"], beam=3, n_best=3)[0]]
    assert answer == {"translatedText": best, "alternatives": others}
    assert len(ask(client, q=["alpha", "beta"], alternatives=1).json()["alternatives"]) == 2


def test_a_language_is_identified_among_those_that_can_be_translated(client):
    answer = ask(client, q="Ein Mann reitet auf einem Pferd.", source="auto").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["detectedLanguage"]["confidence"] > 50
    answer = ask(client, q=["Le chat dort sur la table.", "The dogs are playing."], source="auto").json()
    assert [each["language"] for each in answer["detectedLanguage"]] == ["fr", "en"]
    assert answer["translatedText"][1] == "The dogs are playing."


def test_a_model_may_translate_within_a_language():
    with serving(tiny_models(("en", "en"))) as client:
        assert client.get("/languages").json() == [{"code": "en", "name": "English", "targets": ["en"]}]
        answer = client.post("/translate", json={"q": "alpha beta", "source": "en", "target": "en"})
        assert answer.json() == {"translatedText": tiny_translator("en", "en").translate("alpha beta")}


def test_languages_are_those_of_the_models(client):
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_a_page_finds_its_settings(client):
    found = client.get("/frontend/settings").json()
    assert found["charLimit"] == 100_000
    assert {".txt", ".md", ".html", ".srt", ".vtt", ".json", ".po", ".docx", ".odt"} <= set(
        found["supportedFilesFormat"]
    )
    assert found["language"]["target"] == {"code": "en", "name": "English"}


def events(answer):
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_stream_is_the_translation_in_pieces(client):
    answer = client.post("/translate/stream", json={"q": TEXT, "source": "de", "target": "en"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    (first, start), *pieces, (last, _) = events(answer)
    assert (first, start["sentences"], last) == ("start", 4, "end")
    assert {name for name, _ in pieces} == {"piece"}
    assert "".join(data["text"] for _, data in pieces) == ask(client, q=TEXT).json()["translatedText"]


def streamed(client, **fields):
    answer = client.post("/translate/stream", json={"source": "de", "target": "en", **fields})
    assert events(answer)[-1][0] == "end"
    return "".join(data["text"] for name, data in events(answer) if name == "piece")


TEXTS = {
    "numbers": "alpha 17 beta. Gamma 3.500,25 delta 17 epsilon! 12:30 zeta 8",
    "addresses": "alpha https://example.org/a?b=c&d=3 beta. See www.example.org, gamma: mail@example.org.",
    "paragraphs": "\n\n  alpha beta.\tgamma delta! \r\n\r\n1) epsilon zeta\n2) eta 5 theta\n\n- alpha\n\t- beta 7\n ",
    "letters": "älphä béta. 北京 3 gamma… “delta” 2024!\u2028epsilon\u00a0zeta",
    "repeated": "Alpha 4 beta. Alpha 4 beta. Alpha 4 beta.\nAlpha 4 beta.",
    "wordless": "12 34.\n\n--- 5 !",
    "empty": " \n",
    "long": "Alpha beta 9 gamma www.example.org delta. " * 60,  # what is cut in another thread
    "no end": "alphabetagamma" * 20,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_stream_is_what_a_translation_is(client, text):
    translated = ask(client, q=text).json()["translatedText"]
    assert streamed(client, q=text) == translated
    for kept in ("www.example.org", "mail@example.org", "3.500,25", "\n\n"):
        assert translated.count(kept) == text.count(kept)


WORDS = ["alpha", "Gamma", "Epsilon.", "zeta!", "3", "3rd", "a@b.de", "(a)", "-", "1.", "ﷺ", "你好。", "…", "🙂"]
WORDS += ["e\u0301", "x" * 90, "\u2028", "\u00a0", "\x00", "\t", "\n", "\r\n", "  "]


@settings(
    max_examples=20 * TIMES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(
    words=st.lists(st.sampled_from(WORDS), max_size=7), space=st.sampled_from(["", " "]), more=st.sampled_from([0, 2])
)
@example(words=["alpha", "beta", "gamma"], space=" ", more=0)
@example(words=["ﷺ"] * 8, space="", more=0)
def test_a_text_that_is_one_plain_sentence_is_translated_as_any_other(small, words, space, more):
    asked = {"q": space.join(words), "alternatives": more}
    short = ask(small, **asked).json()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translating, "is_plain_sentence", lambda text, split: False)
        assert ask(small, **asked).json() == short


def test_html_names_the_language_that_it_is_in(client):
    page = '<html lang="de"><body><p>alpha beta</p></body></html>'
    answer = ask(client, q=page, format="html").json()["translatedText"]
    assert '<html lang="en">' in answer


def test_html_keeps_its_tags(client, translator):
    page = '<p class="a">alpha beta.</p><!-- gamma --><script>delta</script>\n<ul><li>eta &amp; theta</li></ul>'
    answer = ask(client, q=page, format="html").json()["translatedText"]
    first, second = translator.translate(["alpha beta.", "eta & theta"])
    escaped = [text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for text in (first, second)]
    assert answer == (
        f'<p class="a">{escaped[0]}</p><!-- gamma --><script>delta</script>\n<ul><li>{escaped[1]}</li></ul>'
    )


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.md", "# alpha beta\n\n`gamma`\n", "# {}\n\n`gamma`\n"),
        ("a.html", "<p title=x>alpha beta</p><script>gamma</script>", "<p title=x>{}</p><script>gamma</script>"),
        ("a.SRT", "1\n00:00:01,000 --> 00:00:02,000\nalpha beta\n", "1\n00:00:01,000 --> 00:00:02,000\n{}\n"),
        ("a.json", '{"alpha": ["alpha beta", 1.0]}', '{"alpha": ["{}", 1.0]}'),
        ("a.po", 'msgid "alpha beta"\nmsgstr ""\n', 'msgid "alpha beta"\nmsgstr "{}"\n'),
    ],
)
def test_documents_are_translated_and_fetched(client, translator, name, content, expected):
    fields = {"source": "de", "target": "en"}
    answer = client.post("/translate_file", data=fields, files={"file": (name, content.encode())})
    fetched = client.get(answer.json()["translatedFileUrl"])
    assert fetched.text == expected.replace("{}", translator.translate("alpha beta"))
    assert fetched.headers["content-type"] == "application/octet-stream"
    assert fetched.headers["content-disposition"] == f'attachment; filename="a_en{name[1:].lower()}"'


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": []}, "q"),
        ({"q": 5}, "q"),
        ({"q": ["a", 5]}, "q"),
        ({"q": "a", "source": None}, "source"),
        ({"q": "a", "target": ""}, "target"),
        ({"q": "a", "source": "xx"}, "xx"),
        ({"q": "a", "target": "<b>"}, "language"),
        ({"q": "a", "source": "en", "target": "de"}, "German"),
        ({"q": "a", "format": "pdf"}, "format"),
        ({"q": "a", "alternatives": -1}, "alternatives"),
        ({"q": "a", "alternatives": 9}, "alternatives"),
        ({"q": "a" * 100_001}, "100000"),
        ({"q": ["a"] * 1_001}, "texts"),
        ({"q": "\ud800"}, "q"),
    ],
)
def test_what_is_wrong_is_named(client, fields, named):
    body = json.dumps({"source": "de", "target": "en", **fields})
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert named in answer.json()["error"]
    assert "<b>" not in answer.text


def test_the_interface_describes_itself(client):
    description = client.get("/spec").json()
    assert description == client.get("/openapi.json").json()
    page = client.get("/docs").text
    for path in description["paths"]:
        assert path in page


def test_a_sentence_that_is_too_long_is_translated_in_parts(translator):
    words = "alpha beta gamma delta"
    tokens = len(translator.tokenizers.source.encode([words])[0])
    with serving(limits={"sentence_tokens": tokens}) as small:
        answer = ask(small, q=f"{words}  {words}").json()["translatedText"]
    part = translator.translate(words)
    assert answer == f"{part}  {part}"
