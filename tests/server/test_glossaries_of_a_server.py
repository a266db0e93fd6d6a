"""Glossaries of a server: which direction keeps to which, in texts, streams and files."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest
from served import serving, tiny_models, tiny_translator

from locant.cli import serve
from locant.errors import ConfigError, DataError
from locant.server.models import read_glossaries
from locant.translation import Glossary

TERMS = {"alpha": "Xaquor", "Vlim": None}
TEXT = "Alpha beta Vlim. Gamma delta.\n\nalpha alpha"


@pytest.fixture(scope="module")
def client():
    with serving(tiny_models(("de", "en"), ("en", "fr")), glossaries={"de-en": TERMS}) as found:
        yield found


def ask(client, **fields):
    return client.post("/translate", json={"source": "de", "target": "en", **fields}).json()["translatedText"]


def test_a_text_has_the_terms_that_the_translator_puts_there(client):
    translator, glossary = tiny_translator(), Glossary(TERMS)
    first, second, third = translator.translate(["Alpha beta Vlim.", "Gamma delta.", "alpha alpha"], glossary=glossary)
    assert (first.count("Xaquor"), first.count("Vlim"), third.count("Xaquor")) == (1, 1, 2)
    assert second == translator.translate("Gamma delta.")
    assert ask(client, q=TEXT) == f"{first} {second}\n\n{third}"


def test_a_stream_html_alternatives_and_a_file_have_terms(client):
    answer = client.post("/translate/stream", json={"q": TEXT, "source": "de", "target": "en"})
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    pieces = [json.loads(data[len("data: ") :])["text"] for name, data in blocks if name == "event: piece"]
    assert "".join(pieces) == ask(client, q=TEXT)
    assert ask(client, q="<p>alpha <b>beta</b></p>", format="html").count("Xaquor") == 1
    fields = {"q": "alpha Vlim", "source": "de", "target": "en", "alternatives": 2}
    found = client.post("/translate", json=fields).json()
    assert all("Xaquor" in text and "Vlim" in text for text in [found["translatedText"], *found["alternatives"]])
    files = {"file": ("a.md", b"# alpha\n\nbeta Vlim\n")}
    address = client.post("/translate_file", data={"source": "de", "target": "en"}, files=files).json()
    text = client.get(address["translatedFileUrl"]).text
    assert text.startswith("# ")
    assert (text.count("Xaquor"), text.count("Vlim")) == (1, 1)


def test_other_directions_have_none_and_ways_have_those_of_their_parts(client):
    plain = tiny_translator("en", "fr")
    assert ask(client, q="alpha Vlim", source="en", target="fr") == plain.translate("alpha Vlim")
    halfway = ask(client, q="alpha Vlim")
    assert "Xaquor" in halfway
    assert ask(client, q="alpha Vlim", target="fr") == ask(client, q=halfway, source="en", target="fr")


def test_files_say_their_directions(tmp_path: Path):
    terms, names = tmp_path / "terms.tsv", tmp_path / "names.tsv"
    terms.write_text("alpha\tXaquor\n", encoding="utf-8")
    names.write_text("Vlim\n", encoding="utf-8")
    found = read_glossaries([f"de-en={terms}", f"de-*={names}", str(names)])
    assert found == {"de-en": {"alpha": "Xaquor"}, "de-*": {"Vlim": None}, "*": {"Vlim": None}}
    models = tiny_models(("de", "en"), ("de", "fr"), ("en", "de")).arranged(glossaries=found)
    chosen = {str(direction): route.glossary.terms for direction, route in models.routes.items() if route.glossary}
    assert chosen == {"de-en": {"alpha": "Xaquor"}, "de-fr": {"Vlim": None}, "en-de": {"Vlim": None}}
    parser = ArgumentParser()
    serve.add_arguments(parser)
    options = parser.parse_args(["runs/de-en", "--glossary", f"de-en={terms}", "--glossary", str(names)])
    assert serve._settings(options).glossaries == {"de-en": {"alpha": "Xaquor"}, "*": {"Vlim": None}}


def test_what_is_wrong_with_them_is_said(tmp_path: Path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("alpha\tXaquor\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="two glossaries for all directions"):
        read_glossaries([str(terms), str(terms)])
    with pytest.raises(DataError, match="does not exist"):
        read_glossaries([str(tmp_path / "none.tsv")])
    two = tiny_models(("de", "en"), ("en", "de"))
    with pytest.raises(ConfigError, match="translations is for one direction, and the models translate de-en, en-de"):
        two.arranged(glossaries={"*": {"alpha": "Xaquor"}})
    with pytest.raises(ConfigError, match="a glossary for fr-en, but the models translate de-en, en-de"):
        two.arranged(glossaries={"fr-en": {"Vlim": None}})
    assert tiny_models().arranged(glossaries={"*": {"alpha": "Xaquor"}}).routes.popitem()[1].glossary is not None
