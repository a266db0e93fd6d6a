"""Settings of fine-tuning: which model to start from, what of it is trained, and what is added to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from locant.errors import ConfigError
from locant.settings import Settings
from locant.text import FilePair
from locant.training.lora import LoraSettings


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


Parts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""One part of a model or a list of parts; see :func:`~locant.training.trained_parts.part_parameters`."""


class FineTuningSettings(Settings):
    """A model to start from, and how.

    Attributes:
        parent: A run, a model folder, a folder of a Marian, M2M-100 or NLLB model in Hugging Face's format, or a model
            on the Hub (``hf://user/model``).
        freeze: Parts that stay as they are: ``embeddings``, ``output``, ``norms``, ``biases``, ``positions``,
            ``encoder``, ``decoder``, ``self_attention``, ``cross_attention``, ``feed_forward``, layers such as
            ``encoder.layers.0``.
        train_only: Parts that are trained while all others stay as they are.
        layer_decay: Factor of the learning rate from each layer to the one below; 1 trains all alike (Howard and Ruder
            2018, section 3.1).
        lora: Low-rank adapters instead of the weights themselves, added to the weights in the end.
        extend_vocabulary: New subwords of the new text for each vocabulary, at most.
        keep_optimizer: Go on with the newest checkpoint of a run, its optimiser included, instead of its best model.
        other_languages: Let the corpus be of other languages than the parent's.
        source_language: Code of the source language as the parent knows it, in place of the corpus' own.
        target_language: Likewise of the target.
        parent_test: Test set of the parent's own text; by default that of its run.
        test_sentences: Sentences of each test set translated before and after; 0 for none.
    """

    parent: Annotated[str, BeforeValidator(_as_text)] = Field(min_length=1)
    freeze: Parts = ()
    train_only: Parts = ()
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    lora: LoraSettings | None = None
    extend_vocabulary: int = Field(default=0, ge=0)
    keep_optimizer: bool = False
    other_languages: bool = False
    source_language: str | None = None
    target_language: str | None = None
    parent_test: FilePair | None = None
    test_sentences: int = Field(default=1000, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.keep_optimizer and (self.lora or self.extend_vocabulary):
            what = "lora" if self.lora else "extend_vocabulary"
            raise ConfigError(
                f"keep_optimizer goes on with the parent's own weights, to which {what} adds others; leave out one"
            )
        if self.lora and self.train_only:
            raise ConfigError("lora trains adapters alone, so train_only has no meaning; use lora.target_modules")
        return self
