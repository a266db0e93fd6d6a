from locant.text.batches import Batch as Batch
from locant.text.batches import BatchSettings as BatchSettings
from locant.text.batches import BatchStream as BatchStream
from locant.text.batches import collate as collate
from locant.text.batches import padding_waste as padding_waste
from locant.text.batches import plan_batches as plan_batches
from locant.text.batches import prefetch as prefetch
from locant.text.batches import summarize_plan as summarize_plan
from locant.text.bible import BibleVersion as BibleVersion
from locant.text.bible import bible_versions as bible_versions
from locant.text.cache import Encoder as Encoder
from locant.text.cache import TokenCache as TokenCache
from locant.text.cache import write_cache as write_cache
from locant.text.cleaning import CleaningReport as CleaningReport
from locant.text.cleaning import CleaningSettings as CleaningSettings
from locant.text.cleaning import TranslationFilters as TranslationFilters
from locant.text.cleaning import clean as clean
from locant.text.corpus import Corpus as Corpus
from locant.text.corpus import CorpusPart as CorpusPart
from locant.text.corpus import load_corpus as load_corpus
from locant.text.corpus_settings import BibleCorpus as BibleCorpus
from locant.text.corpus_settings import CorpusSettings as CorpusSettings
from locant.text.corpus_settings import FilePair as FilePair
from locant.text.corpus_settings import FilesCorpus as FilesCorpus
from locant.text.corpus_settings import HuggingFaceCorpus as HuggingFaceCorpus
from locant.text.corpus_settings import JsonlCorpus as JsonlCorpus
from locant.text.corpus_settings import LanguagesCorpus as LanguagesCorpus
from locant.text.corpus_settings import MixtureCorpus as MixtureCorpus
from locant.text.corpus_settings import MixtureSource as MixtureSource
from locant.text.corpus_settings import MixtureStage as MixtureStage
from locant.text.corpus_settings import TsvCorpus as TsvCorpus
from locant.text.epochs import RowSampler as RowSampler
from locant.text.epochs import StagePlace as StagePlace
from locant.text.epochs import TrainingEpochs as TrainingEpochs
from locant.text.epochs import sampling_shares as sampling_shares
from locant.text.links import TokenLinks as TokenLinks
from locant.text.links import aligner_command as aligner_command
from locant.text.links import grow_diag_final_and as grow_diag_final_and
from locant.text.links import prepared_links as prepared_links
from locant.text.noise import NoiseSettings as NoiseSettings
from locant.text.noise import add_noise as add_noise
from locant.text.pairs import Pair as Pair
from locant.text.pairs import ParallelText as ParallelText
from locant.text.prepare import PreparedData as PreparedData
from locant.text.prepare import prepare as prepare
from locant.text.spans import Span as Span
from locant.text.spans import encode_with_spans as encode_with_spans
from locant.text.spans import word_spans as word_spans
from locant.text.store import TextStore as TextStore
from locant.text.tokenizer import BOS as BOS
from locant.text.tokenizer import EOS as EOS
from locant.text.tokenizer import PAD as PAD
from locant.text.tokenizer import UNK as UNK
from locant.text.tokenizer import Tokenizer as Tokenizer
from locant.text.tokenizer import TokenizerSettings as TokenizerSettings
from locant.text.tokenizer_pair import LanguageLayout as LanguageLayout
from locant.text.tokenizer_pair import LanguageTokens as LanguageTokens
from locant.text.tokenizer_pair import Prefixes as Prefixes
from locant.text.tokenizer_pair import TokenizerPair as TokenizerPair
from locant.text.vocabulary import train_tokenizers as train_tokenizers

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "Batch",
    "NoiseSettings",
    "add_noise",
    "sampling_shares",
]
