"""From text to batches: corpora, cleaning, tokenizers, the token cache and token-bounded batches."""

from locant.text.batches import Batch, BatchSettings, BatchStream, collate, padding_waste, plan_batches
from locant.text.bible import BibleVersion, bible_versions
from locant.text.cache import SampledEpochs, TokenCache, write_cache
from locant.text.cleaning import CleaningReport, CleaningSettings, CleanText, clean
from locant.text.corpus import (
    BibleCorpus,
    Corpus,
    CorpusSettings,
    FilePair,
    FilesCorpus,
    HuggingFaceCorpus,
    JsonlCorpus,
    TsvCorpus,
    load_corpus,
)
from locant.text.languages import LanguageTokens, Prefixes
from locant.text.pairs import Pair, ParallelText
from locant.text.prefetch import prefetch
from locant.text.prepare import PreparedData, prepare
from locant.text.tokenizer import (
    BOS,
    EOS,
    PAD,
    UNK,
    Tokenizer,
    TokenizerPair,
    TokenizerSettings,
    train_tokenizers,
)

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "BatchSettings",
    "BatchStream",
    "BibleCorpus",
    "BibleVersion",
    "CleanText",
    "CleaningReport",
    "CleaningSettings",
    "Corpus",
    "CorpusSettings",
    "FilePair",
    "FilesCorpus",
    "HuggingFaceCorpus",
    "JsonlCorpus",
    "LanguageTokens",
    "Pair",
    "ParallelText",
    "Prefixes",
    "PreparedData",
    "SampledEpochs",
    "TokenCache",
    "Tokenizer",
    "TokenizerPair",
    "TokenizerSettings",
    "TsvCorpus",
    "bible_versions",
    "clean",
    "collate",
    "load_corpus",
    "padding_waste",
    "plan_batches",
    "prefetch",
    "prepare",
    "train_tokenizers",
    "write_cache",
]
