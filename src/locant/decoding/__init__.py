"""Greedy and beam search, the translator, model folders and scores."""

from locant.decoding.model_folder import ModelFolder, load_model_folder, save_model_folder
from locant.decoding.scores import Scores, bleu_tokenizer, score_translations
from locant.decoding.search import Hypothesis, beam_search, greedy_search, length_penalty
from locant.decoding.settings import DecodingSettings
from locant.decoding.translator import Translation, Translator

__all__ = [
    "DecodingSettings",
    "Hypothesis",
    "ModelFolder",
    "Scores",
    "Translation",
    "Translator",
    "beam_search",
    "bleu_tokenizer",
    "greedy_search",
    "length_penalty",
    "load_model_folder",
    "save_model_folder",
    "score_translations",
]
