"""The models that the page about the Transformer can show: a small example with initial weights, and a trained one."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import RLock
from typing import Protocol

import torch
from torch import Tensor

from locant.analysis.introspection import token_pair
from locant.analysis.stack_trace import trace_stack
from locant.app.explorer.limits import text
from locant.app.explorer.model_panels import Reader
from locant.errors import UsageError
from locant.figures.numbers import SEED
from locant.figures.trained import readable
from locant.models.blocks import Decoder, Encoder
from locant.models.config import TransformerConfig
from locant.models.transformer import Transformer
from locant.text.tokenizer import PAD

EXAMPLE, TRAINED = "small example", "trained run"
STACKS = ("encoder", "decoder")
LONGEST_SENTENCE = 500
MOST_TOKENS = 64

_MOST_WORDS = 12
_WIDTH, _HEADS, _LAYERS = 6, 3, 2  # three heads of two features, as in many articles
_FEWEST_IDS = 4  # the vocabulary is not used: each word has a vector of its own
_KEPT = 16


@dataclass(frozen=True)
class StackInput:
    """A sentence as a stack reads it.

    Attributes:
        tokens: To be read by people.
        words: Embeddings of the tokens times ``sqrt(E)``, ``[L, E]``.
        groups: The tokens of every word, in order; what opens or closes the sentence belongs to none.
        padding: Embedding of a padding token times ``sqrt(E)``, ``[E]``.
        memory: What the encoder hands to a decoder, ``[S, E]``.
        source_tokens: The tokens of that.
    """

    tokens: tuple[str, ...]
    words: Tensor
    groups: tuple[tuple[int, ...], ...]
    padding: Tensor
    memory: Tensor | None = None
    source_tokens: tuple[str, ...] = ()

    def word(self, number: int) -> str:
        """Return a word, counted from 1."""
        pieces = (self.tokens[place].removeprefix("-") for place in self.groups[number - 1])
        return "".join(pieces).replace("␣", "")


class ShownModel(Protocol):
    """A model for the page."""

    weights: str
    """Where the weights are from."""

    lock: RLock
    """To be held while the model computes."""

    @property
    def sentence(self) -> str:
        """What is read at first."""
        ...

    @property
    def model(self) -> Transformer:
        """The model itself, in evaluation mode."""
        ...

    def read(self, sentence: str, stack: str) -> StackInput:
        """Return a sentence as a stack reads it.

        Raises:
            UsageError: It is empty or too long.
        """
        ...


class ExampleModel:
    """A model of 6 features, 3 heads and 2 layers with initial weights from a fixed seed.

    Every word has a random vector that depends on nothing but the word.
    """

    weights = "initial weights"
    sentence = "the dog bites the man"

    def __init__(self) -> None:
        self.lock = RLock()

    @cached_property
    def model(self) -> Transformer:
        """The model."""
        config = TransformerConfig(
            source_vocab_size=_FEWEST_IDS,
            target_vocab_size=_FEWEST_IDS,
            d_model=_WIDTH,
            d_ff=4 * _WIDTH,
            heads=_HEADS,
            encoder_layers=_LAYERS,
            decoder_layers=_LAYERS,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            return Transformer(config).eval()

    def read(self, sentence: str, stack: str) -> StackInput:
        """Return the words of a sentence; the decoder reads them after BOS, and the encoder's output of them."""
        words = text("The sentence", sentence, LONGEST_SENTENCE).split()
        if len(words) > _MOST_WORDS:
            raise UsageError(f"The sentence has {len(words)} words; the small example reads {_MOST_WORDS} at most.")
        vectors, padding = torch.stack(list(map(_vector, words))), _vector("(pad)")
        groups = tuple((place,) for place in range(len(words)))
        if stack == "encoder":
            return StackInput(tuple(words), vectors, groups, padding)
        with self.lock:
            memory = trace_stack(self.model.encoder, vectors).output
        tokens = ("(begin)", *words)
        vectors = torch.cat((_vector("(begin)")[None], vectors))
        groups = tuple((place + 1,) for (place,) in groups)
        return StackInput(tokens, vectors, groups, padding, memory, tuple(words))


def _vector(word: str) -> Tensor:
    """Return the vector ``[E]`` of a word, of unit variance as an initial embedding times ``sqrt(E)``."""
    drawn = torch.Generator().manual_seed(zlib.crc32(word.encode("utf-8", "replace")))
    return torch.randn(_WIDTH, generator=drawn)


class TrainedModel:
    """The Transformer that the explorer was given.

    Args:
        reader: Of the model.
    """

    weights = "trained weights"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.lock = reader.lock
        self._read = lru_cache(maxsize=_KEPT)(self._compute)

    @cached_property
    def sentence(self) -> str:
        """A held-out sentence of the run, or where there is none, that of the small example."""
        return self._reader.example or ExampleModel.sentence

    @property
    def model(self) -> Transformer:
        """The model."""
        model = self._reader.translator.model
        assert isinstance(model, Transformer)
        return model

    def read(self, sentence: str, stack: str) -> StackInput:
        """Return the tokens of a sentence, or of the model's translation of it for the decoder."""
        sentence = " ".join(text("The sentence", sentence, LONGEST_SENTENCE).split())
        with self.lock:
            return self._read(sentence, stack)

    def _compute(self, sentence: str, stack: str) -> StackInput:
        translator, model = self._reader.translator, self.model
        translated = translator.translate(sentence) if stack == "decoder" else ""
        pair = token_pair(translator.tokenizers, sentence, translated, translator.prefixes)
        ids, pieces, embedding = pair.source, pair.source_tokens, model.source_embedding
        if stack == "decoder":
            ids, pieces, embedding = pair.target, pair.target_tokens, model.target_embedding
        if max(len(pair.source), len(ids)) > MOST_TOKENS:
            raise UsageError(f"The sentence has {len(ids)} tokens; {MOST_TOKENS} is the most that is shown here.")
        device, scale = embedding.weight.device, math.sqrt(model.config.d_model)
        with torch.no_grad():
            vectors, padding = (scale * embedding(torch.tensor(one, device=device)) for one in (ids, PAD))
            memory = None
            if stack == "decoder":
                source = torch.tensor([pair.source], device=device)
                memory = model.encode(source, torch.tensor([len(pair.source)], device=device))[0]
        return StackInput(
            tuple(readable(pieces)), vectors, _words_of(pieces), padding, memory, tuple(readable(pair.source_tokens))
        )


def _words_of(pieces: list[str]) -> tuple[tuple[int, ...], ...]:
    """Return the tokens of every word: a word begins with the sign for a space and ends before what is special."""
    groups: list[list[int]] = []
    inside = False
    for place, piece in enumerate(pieces):
        if piece.startswith("▁"):
            groups.append([place])
            inside = True
        elif piece in ("<s>", "</s>", "<pad>"):
            inside = False
        elif inside:
            groups[-1].append(place)
    return tuple(map(tuple, groups))


def stack_of(model: Transformer, stack: str) -> Encoder | Decoder:
    """Return the encoder or the decoder of a model."""
    return model.encoder if stack == "encoder" else model.decoder


def shown_models(reader: Reader | None) -> dict[str, ShownModel]:
    """Return the models that can be shown, by name; that of a run first, where it is a Transformer."""
    trained: dict[str, ShownModel] = {TRAINED: TrainedModel(reader)} if reader is not None and reader.layers else {}
    return {**trained, EXAMPLE: ExampleModel()}
