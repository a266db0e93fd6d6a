import numpy as np
import pytest

from locant.errors import ConfigError, DataError
from locant.settings import Settings
from locant.text import (
    BOS,
    EOS,
    PAD,
    UNK,
    CleaningSettings,
    CorpusSettings,
    TokenizerSettings,
    collate,
    load_corpus,
    prepare,
    train_tokenizers,
)


class Holder(Settings):
    corpus: CorpusSettings


@pytest.fixture
def texts(pairs, tmp_path):
    """Three texts: files named after them with .a and .b for the sides."""
    for name, chosen in {"clean": pairs[:200], "web": pairs[200:500], "held": pairs[500:520]}.items():
        for side, ending in enumerate("ab"):
            text = "".join(pair[side] + "\n" for pair in chosen)
            (tmp_path / f"{name}.{ending}").write_text(text, encoding="utf-8")
    return tmp_path


def files(folder, name, **more):
    return {"kind": "files", "folder": str(folder), "train": {"source": f"{name}.a", "target": f"{name}.b"}, **more}


def mixture(sources, **more):
    settings = Holder.parse({"corpus": {"kind": "mixture", "sources": sources, **more}}, "recipe").corpus
    assert Holder.parse(Holder(corpus=settings).to_dict()).corpus == settings
    return settings


def test_the_sources_are_the_parts(texts, pairs):
    held = {"source": "held.a", "target": "held.b"}
    settings = mixture(
        {
            "clean": {"weight": 3, "corpus": files(texts, "clean", valid=held, test=held, source_language="en")},
            "web": {"corpus": files(texts, "web", licence="CC0")},
        },
        temperature=float("inf"),
    )
    corpus = load_corpus(settings)
    assert [(part.name, part.weights, len(part.train)) for part in corpus.parts] == [
        ("clean", (3,), 200),
        ("web", (1,), 300),
    ]
    assert corpus.temperature == float("inf")
    assert (corpus.source_language, corpus.target_language) == ("en", None)
    assert list(corpus.train) == pairs[:500]
    assert list(corpus.valid) == pairs[500:520], "where a source names its validation text, none is held out"
    assert list(corpus.tests) == ["clean"]
    assert (corpus.name, corpus.licence) == ("mixture of clean, web", "CC0 (web)")


def test_validation_text_is_held_out_of_each_source_where_none_names_it(texts):
    corpus = load_corpus(mixture({name: {"corpus": files(texts, name)} for name in ("clean", "web")}))
    assert {name: len(text) for name, text in corpus.valids.items()} == {"clean": 10, "web": 15}
    corpus = load_corpus(
        mixture({"clean": {"corpus": files(texts, "clean")}, "web": {"corpus": files(texts, "web", valid_size=0)}})
    )
    assert list(corpus.valids) == ["clean"]
    nothing = mixture({"web": {"corpus": files(texts, "web", valid_size=0)}})
    with pytest.raises(ConfigError, match="The corpus has no validation text"):
        load_corpus(nothing)


def test_equal_weights_are_one_corpus(texts, pairs, tmp_path):
    for side in "ab":
        both = "".join((texts / f"{name}.{side}").read_text(encoding="utf-8") for name in ("clean", "web"))
        (texts / f"all.{side}").write_text(both, encoding="utf-8")
    held = {"source": "held.a", "target": "held.b"}
    plain = load_corpus(Holder.parse({"corpus": files(texts, "all", valid=held)}).corpus)
    mixed = load_corpus(
        mixture({"clean": {"corpus": files(texts, "clean", valid=held)}, "web": {"corpus": files(texts, "web")}})
    )
    cleaning = CleaningSettings(duplicates=False)  # which are looked for in each source by itself
    one, two = (
        prepare(corpus, cleaning, TokenizerSettings(vocab_size=200), max_tokens=40, folder=tmp_path / name)
        for corpus, name in ((plain, "one"), (mixed, "two"))
    )
    assert one.tokenizers.digest == two.tokenizers.digest
    assert two.epochs(seed=1)(3) is two.train
    assert one.train.source.tokens[:].tolist() == two.train.source.tokens[:].tolist()
    assert two.reports["web"].total == 300
    assert one.report == two.report


@pytest.mark.parametrize(
    ("sources", "more", "message"),
    [
        ({}, {}, r"'corpus.sources': Dictionary should have at least 1 item"),
        ({"web": {"weight": 0}}, {}, "the weights of all sources are 0, so there is no text to train on"),
        ({"web": {"weight": -1}}, {}, "sources.web.weight.*greater than or equal to 0"),
        ({"web": {"wieght": 1}}, {}, r"unknown key '.*web.wieght'. Did you mean 'weight'\?"),
        ({"web": {}}, {"temperature": 0}, "temperature.*greater than 0"),
        ({"web": {"tag": "a b"}}, {}, "sources.web': the tag 'a b'"),
        ({"web": {"tag": "</s>"}}, {}, "the tag </s>"),
    ],
)
def test_wrong_mixtures_are_errors(texts, sources, more, message):
    with pytest.raises(ConfigError, match=message):
        mixture({name: {"corpus": files(texts, name), **source} for name, source in sources.items()}, **more)


def test_a_mixture_is_of_one_pair_of_languages_and_of_plain_corpora(texts):
    one, other = (files(texts, name, target_language=code) for name, code in (("clean", "de"), ("web", "fr")))
    with pytest.raises(ConfigError, match="the target language is de in 'clean', fr in 'web'"):
        load_corpus(mixture({"clean": {"corpus": one}, "web": {"corpus": other}}))
    codes = [files(texts, name, target_language=code) for name, code in (("clean", "de"), ("web", "deu_Latn"))]
    assert load_corpus(mixture({"a": {"corpus": codes[0]}, "b": {"corpus": codes[1]}})).target_language == "de"
    with pytest.raises(ConfigError, match=r"'corpus.sources.all.corpus.kind' is 'mixture'. Known: 'files'"):
        mixture({"all": {"corpus": {"kind": "mixture", "sources": {"clean": {"corpus": one}}}}})
    with pytest.raises(DataError, match=r"nothing.a does not exist"):
        load_corpus(mixture({"clean": {"corpus": one}, "web": {"corpus": files(texts, "nothing")}}))


@pytest.mark.parametrize("joint", [True, False])
def test_a_tag_stands_before_the_sources_of_its_part_in_training_alone(texts, tmp_path, joint):
    held = {"source": "held.a", "target": "held.b"}
    corpus = load_corpus(
        mixture(
            {
                "clean": {"corpus": files(texts, "clean", valid=held)},
                "web": {"tag": "<bt>", "corpus": files(texts, "web", valid=held)},
            }
        )
    )
    tokenizer = TokenizerSettings(vocab_size=120, joint=joint, sampling=0.1)
    data = prepare(corpus, CleaningSettings(), tokenizer, max_tokens=40, folder=tmp_path / "run")
    tag = data.tokenizers.source.id("<bt>")
    assert tag not in (PAD, UNK, BOS, EOS)
    clean = data.sizes[0]
    for cache in (data.train, data.epochs(seed=1)(0)):
        rows = [cache.source[index].tolist() for index in range(len(cache))]
        assert {row[0] == tag for row in rows[clean:]} == {True}
        assert not any(tag in row for row in rows[:clean])
        assert sum(row.count(tag) for row in rows) == data.sizes[1]
        assert max(map(len, rows)) < 40
    assert data.tokenizers.target.id("<bt>") == (tag if joint else UNK), "a token of the source alone"
    if joint:
        assert tag not in data.train.target.tokens[:]
    assert tag not in data.valid.source.tokens[:]
    batch = collate(data.train, np.array([0, clean]))
    assert (batch.source[:, 0] == tag).tolist() == [False, True]
    assert batch.source_lengths.tolist() == [data.train.source.lengths[row] + 1 for row in (0, clean)]

    # The token stands for no text: none becomes it, and it becomes none.
    assert tag not in data.tokenizers.source.encode(["<bt> The kalo."])[0]
    assert data.tokenizers.source.decode([[tag, *data.tokenizers.source.encode(["kalo"])[0]]]) == ["kalo"]


def test_tagged_text_is_not_held_out_for_validation(texts):
    sources = {"clean": {"corpus": files(texts, "clean")}, "web": {"tag": "<bt>", "corpus": files(texts, "web")}}
    corpus = load_corpus(mixture(sources))
    assert list(corpus.valids) == ["clean"]
    assert corpus.tags == ["<bt>"]


def test_pairs_of_several_languages_may_be_mixtures_drawn_together(texts):
    one = files(texts, "clean", source_language="en", target_language="de")
    sources = {"clean": {"corpus": one}, "web": {"tag": "<bt>", "weight": 2, "corpus": files(texts, "web")}}

    def load(**more):
        pairs = [{"kind": "mixture", "sources": sources, **more}]
        return load_corpus(Holder.parse({"corpus": {"kind": "languages", "pairs": pairs}}).corpus)

    parts = [(part.name, part.tag, *part.weights) for part in load().parts]
    assert parts == [("en-de", None, 1), ("en-de 2", "<bt>", 2), ("de-en", None, 1)]
    for more in ({"stages": [{"until": 0.5}, {}]}, {"temperature": 5}):
        with pytest.raises(ConfigError, match="pair 1 has stages or a temperature of its own"):
            load(**more)


def test_a_tag_must_be_in_the_vocabulary(texts, tokenizers):
    with pytest.raises(ConfigError, match="The tag '<bt>' is not in the vocabulary of the source"):
        tokenizers.tag("<bt>")
    with pytest.raises(ConfigError, match="The tag '__de__' is the token of a language"):
        train_tokenizers([("a", "b")], TokenizerSettings(), languages=["de"], tags=["__de__"])


def test_stages_have_weights_of_their_own(texts):
    held = {"source": "held.a", "target": "held.b"}
    sources = {
        "clean": {"weight": 2, "corpus": files(texts, "clean", valid=held)},
        "web": {"weight": 0, "corpus": files(texts, "web")},
    }
    stages = [{"until": 0.5}, {"until": 0.7, "sources": {"web": 3, "clean": None}}, {"sources": "clean"}]
    corpus = load_corpus(mixture(sources, stages=stages))
    assert corpus.weights == [(2, 0), (2, 3), (2, 0)]
    assert [stage.ends(0.6, 1000) for stage in corpus.stages] == [True, False, False]
    (by_updates, _) = load_corpus(mixture(sources, stages=[{"until": 500}, {}])).stages
    assert [by_updates.ends(0.9, 499), by_updates.ends(0.1, 500)] == [False, True]


@pytest.mark.parametrize(
    ("stages", "named"),
    [
        ([{"until": 0.5}, {"sources": ["cleen"]}], "'cleen'.*'clean'"),
        ([{"until": 0.5}, {"sources": "off"}], "stage 2"),
        ([{"until": 0.5}, {"sources": {"clean": 0}}], "stage 2"),
        ([{"until": 0.5}, {"sources": ["clean", "clean"]}], "'clean'"),
        ([{"until": 0.5}], "until"),
        ([{}, {}], "until"),
        ([{"until": 0.5}, {"until": 0.5}, {}], "0.5, 0.5"),
        ([{"until": 0.5}, {"until": 800}, {}], "0.5, 800"),
        ([{"until": 1.0}, {}], "at 1;"),
        ([{"until": 0}, {}], "stages.0.until"),
    ],
)
def test_wrong_stages_are_errors(texts, stages, named):
    sources = {"clean": {"corpus": files(texts, "clean")}, "off": {"weight": 0, "corpus": files(texts, "web")}}
    with pytest.raises(ConfigError, match=named):
        mixture(sources, stages=stages)
