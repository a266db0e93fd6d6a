"""Greedy and beam search, the translator, model folders, scores, and what happens inside a model."""

from locant.decoding.introspection import Introspection, StackStates, TokenPair, hidden_states, introspect, token_pair
from locant.decoding.model_folder import ModelFolder, load_model_folder, save_model_folder
from locant.decoding.position_probe import LinearReading, PositionProbe, StackReadings, probe_positions
from locant.decoding.scores import Scores, bleu_tokenizer, score_translations
from locant.decoding.search import Hypothesis, beam_search, greedy_search, length_penalty
from locant.decoding.settings import DecodingSettings
from locant.decoding.translator import Translation, Translator

__all__ = [
    "DecodingSettings",
    "Hypothesis",
    "Introspection",
    "LinearReading",
    "ModelFolder",
    "PositionProbe",
    "Scores",
    "StackReadings",
    "StackStates",
    "TokenPair",
    "Translation",
    "Translator",
    "beam_search",
    "bleu_tokenizer",
    "greedy_search",
    "hidden_states",
    "introspect",
    "length_penalty",
    "load_model_folder",
    "probe_positions",
    "save_model_folder",
    "score_translations",
    "token_pair",
]
