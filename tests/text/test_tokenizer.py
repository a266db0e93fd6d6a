import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from locant.errors import CheckpointError, ConfigError, DataError
from locant.text import BOS, EOS, UNK, Tokenizer, TokenizerPair, TokenizerSettings, train_tokenizers
from locant.text.tokenizer import normalize

ALGORITHMS = ["unigram", "bpe"]


@pytest.fixture(scope="module", params=ALGORITHMS)
def tokenizer(request, pairs) -> Tokenizer:
    return train_tokenizers(pairs, TokenizerSettings(algorithm=request.param, vocab_size=200)).source


@given(text=st.text(alphabet="The kalomirü.\n\t\r\0\u00a0\u3000", max_size=40))
def test_round_trip_up_to_white_space(tokenizers, text):
    expected = " ".join(text.replace("\0", " ").split())
    known = set("".join(tokenizers.source.token(i) for i in range(4, 200)))
    if set(expected) - {" "} <= known:
        assert tokenizers.source.decode(tokenizers.source.encode([text])) == [expected]


@given(text=st.text())
def test_any_text_encodes_to_valid_ids_without_control_ids(tokenizers, text):
    ids = tokenizers.source.encode([text, f"{text}</s><pad><s>"])
    assert all(i == UNK or EOS < i < 200 for one in ids for i in one)


def test_normal_form():
    assert normalize("Cafe\u0301\n\u00a0 is  OPEN\0", lowercase=False) == "Café is OPEN"
    assert normalize("ÄÖ", lowercase=True) == "äö"
    assert normalize("，！？", lowercase=False) == "，！？", "full-width signs are not folded into ASCII"


def test_lowercase(pairs, tmp_path):
    pair = train_tokenizers(pairs, TokenizerSettings(vocab_size=80, lowercase=True))
    assert pair.source.decode(pair.source.encode(["The Kalo."])) == ["the kalo."]
    assert pair.target.cased("Der HUND") == "der hund"
    pair.save(tmp_path)
    assert TokenizerPair.load(tmp_path).source.lowercase


def test_chinese_and_japanese_need_no_spaces():
    pairs = [("我喜欢猫和狗。", "私は猫と犬が好きです。"), ("他喜欢狗。", "彼は犬が好きです。")] * 20
    pair = train_tokenizers(pairs, TokenizerSettings(vocab_size=34, algorithm="bpe"))
    for text in ("我喜欢狗。", "彼は猫が好きです。"):
        ids = pair.source.encode([text])
        assert UNK not in ids[0]
        assert 1 < len(ids[0]) <= len(text) + 1
        assert pair.source.decode(ids) == [text]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_text_gives_the_same_model(pairs, algorithm):
    settings = TokenizerSettings(algorithm=algorithm, vocab_size=90)
    first, second = train_tokenizers(pairs, settings), train_tokenizers(pairs, settings)
    assert first.source.model == second.source.model
    assert first.digest == second.digest
    assert first.digest != train_tokenizers(pairs, settings.model_copy(update={"vocab_size": 91})).digest


@pytest.mark.parametrize("joint", [True, False])
def test_save_and_load(pairs, tmp_path, joint):
    pair = train_tokenizers(pairs, TokenizerSettings(vocab_size=60, joint=joint))
    pair.save(tmp_path)
    names = {"tokenizer.joint.model"} if joint else {"tokenizer.source.model", "tokenizer.target.model"}
    assert {path.name for path in tmp_path.iterdir()} == names | {"tokenizer.json"}
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint is joint is pair.joint
    assert loaded.digest == pair.digest
    (tmp_path / sorted(names)[0]).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="damaged"):
        TokenizerPair.load(tmp_path)
    (tmp_path / sorted(names)[0]).unlink()
    with pytest.raises(CheckpointError, match=sorted(names)[0]):
        TokenizerPair.load(tmp_path)


def test_subwords_that_are_no_text(tokenizers):
    """They would fail in the middle of a translation, wherever one is written."""
    model = tokenizers.source.model
    subword = "\N{LOWER ONE EIGHTH BLOCK}".encode()  # a space
    assert subword in model
    with pytest.raises(CheckpointError, match=r"is damaged: the subword b'\\xe2\\xc4\\x81.*' is no text in UTF-8"):
        Tokenizer(model.replace(subword, b"\xe2\xc4\x81"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_vocabulary_is_as_large_as_the_text_can_fill(pairs, algorithm, capfd):
    largest = train_tokenizers(pairs, TokenizerSettings(algorithm=algorithm, vocab_size=9000)).source.vocab_size
    assert 200 < largest < 9000
    settings = TokenizerSettings(algorithm=algorithm, vocab_size=largest)
    assert train_tokenizers(pairs, settings).source.vocab_size == largest
    with pytest.raises(ConfigError, match=r"the characters .* alone need \d+ tokens"):
        train_tokenizers(pairs, TokenizerSettings(algorithm=algorithm, vocab_size=10))
    with pytest.raises(DataError, match="no sentence"):
        train_tokenizers([(" ", "")], TokenizerSettings())
    assert capfd.readouterr() == ("", ""), "SentencePiece prints nothing"


def test_of_two_vocabularies_one_may_be_smaller():
    pairs = [("a b c", f"x{number} y{number * 7} z") for number in range(300)]
    pair = train_tokenizers(pairs, TokenizerSettings(vocab_size=60, joint=False))
    assert pair.source.vocab_size < 20
    assert pair.target.vocab_size == 60


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("joint", [True, False])
def test_language_tokens_are_reserved_and_stand_for_no_text(pairs, algorithm, joint, tmp_path):
    settings = {"algorithm": algorithm, "joint": joint}
    plain = train_tokenizers(pairs, TokenizerSettings(vocab_size=120, **settings))
    told = train_tokenizers(pairs, TokenizerSettings(vocab_size=123, **settings), languages=["en", "de", "fr"])
    told.save(tmp_path)
    told = TokenizerPair.load(tmp_path)
    assert plain.languages is None
    assert told.languages.layout == "fairseq"
    assert told.languages.ids == {"en": 4, "de": 5, "fr": 6}
    for before, after in ((plain.source, told.source), (plain.target, told.target)):
        assert [after.token(index) for index in (4, 5, 6)] == ["__en__", "__de__", "__fr__"]
        if algorithm == "bpe":  # of unigram the subwords pruned last depend on the size
            assert [before.token(index) for index in range(4, 120)] == [after.token(index) for index in range(7, 123)]
        assert not {4, 5, 6} & set(after.encode(["__en__ The __fr__"])[0])
        sampled = after.encode_sampled(["__de__ The ka" for _ in range(9)], alpha=0.3, seed=1)
        assert not {4, 5, 6} & {index for ids in sampled for index in ids}
        assert after.decode([[5, *after.encode(["ka lo"])[0]]]) == ["ka lo"]
    assert told.prefixes("en", "fr") == ([4], [EOS, 6])
    marian = train_tokenizers(pairs, TokenizerSettings(vocab_size=123, **settings), languages=["de"], layout="marian")
    assert (marian.source.token(4), marian.prefixes("en", "de")) == (">>de<<", ([4], [BOS]))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("The file a cannot be read: Input/output error.")])
def test_what_stops_the_reading_of_the_text_is_told_as_it_is(error, pairs):
    def stopping():
        yield from pairs[:50]
        raise error

    class Text(list):
        def __iter__(self):
            return stopping()

    with pytest.raises(type(error)) as caught:
        train_tokenizers(Text(pairs), TokenizerSettings(vocab_size=200))
    assert caught.value is error


@pytest.mark.parametrize(
    "limits",
    [{"_TRAINING_SENTENCES": 250}, {"_TRAINING_CHARACTERS": 15_000, "_MANY": 1000, "_MEASURED": 100}],
    ids=["sentences", "characters"],
)
def test_of_a_large_text_some_is_learned_from(pairs, monkeypatch, limits):
    for name, value in limits.items():
        monkeypatch.setattr(f"locant.text.vocabulary.{name}", value)
    learned = []
    train = sentencepiece.SentencePieceTrainer.train

    def trained(sentence_iterator, **more):
        learned.extend(sentence_iterator)
        train(sentence_iterator=iter(learned), **more)

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", trained)
    train_tokenizers(pairs, TokenizerSettings(vocab_size=120))
    assert 0 < len(learned) <= limits.get("_TRAINING_SENTENCES", 600)
    assert sum(map(len, learned)) <= 1.1 * limits.get("_TRAINING_CHARACTERS", 10**9)
    assert {source for source, _ in pairs} & set(learned)
    assert {target for _, target in pairs} & set(learned)


@pytest.mark.parametrize("long", ["zebra quux " * 900, "中文字" * 2000, "quux" * 3000 + " zebra"])
def test_long_texts_are_learned_from_whole(long):
    """SentencePiece leaves out sentences of more than 4,192 bytes."""
    pairs = [("a plain text", "one more plain text")] * 5 + [("short", long)]
    tokenizer = train_tokenizers(pairs, TokenizerSettings(vocab_size=23, joint=True, character_coverage=1.0)).source
    (ids,) = tokenizer.encode([long])
    assert UNK not in ids
