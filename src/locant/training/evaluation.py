"""Evaluation of translators: on the validation set while they are trained, on a test set afterwards."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from locant.analysis.scores import Scores, bleu_tokenizer, score_translations
from locant.errors import CheckpointError, ConfigError, DataError, UsageError
from locant.files import read_json, write_json
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_card import weights_digest
from locant.text import Corpus, Pair, PreparedData, collate, load_corpus, plan_batches
from locant.text.readers import read_files
from locant.training.checkpoint import ValidationScores
from locant.training.losses import TranslatorLoss
from locant.training.recipe import Recipe, load_run_recipe
from locant.training.trainer import Validate
from locant.translation.engines import fastest_engine
from locant.translation.translator import Translator


@dataclass(frozen=True)
class Evaluation:
    """How well a model translates a text.

    Attributes:
        name: What was translated.
        scores: Of the model's translations.
        copy_scores: Of the source itself, taken as a translation: what doing nothing would score.
        beam: Beam size.
        seconds: Time of translating.
        sources: Source sentences.
        references: Reference translations.
        hypotheses: The model's translations.
        engine: What translated, and in which type of numbers.
    """

    name: str
    scores: Scores
    copy_scores: Scores
    beam: int
    seconds: float
    sources: list[str]
    references: list[str]
    hypotheses: list[str]
    engine: str = "PyTorch"


def evaluate(
    model: Path | str,
    split: str | None = None,
    *,
    source: Path | str | None = None,
    target: Path | str | None = None,
    translator: Translator | None = None,
    **overrides: Any,
) -> Evaluation:
    """Translate a held-out text and score the result.

    Without ``source`` and ``target`` the text is a split of the run's own corpus, and the result is saved in the run
    folder too.

    Args:
        model: The folder of a run; with ``source`` and ``target`` any model folder.
        split: ``test`` or ``valid``; by default the test split, or validation where the corpus has no other.
        source: A file to translate, one sentence a line.
        target: Its reference translation, line by line.
        translator: Of the model, with another engine than PyTorch on the fastest device.
        overrides: Changes of the model's decoding settings, ``beam=4`` for instance.

    Raises:
        UsageError: One of ``source`` and ``target`` is missing, or ``split`` is given as well.
        ConfigError: The corpus has no such split.
        DataError: The files are missing, empty, not UTF-8 or of unequal length.
        CheckpointError: The folder holds no trained model.
    """
    folder = Path(model)
    if bool(source) != bool(target):
        raise UsageError("--source and --target go together: one file each, with as many lines.")
    if source and target:
        if split:
            raise UsageError("--split chooses from the run's own corpus; leave it out with --source and --target.")
        return _of_files(folder, Path(source), Path(target), translator, overrides)
    translator = translator or Translator.from_pretrained(folder)
    corpus = load_corpus(load_run_recipe(folder).corpus)
    split = split or ("test" if corpus.test is not None else "valid")
    pairs = corpus.test if split == "test" else corpus.valid
    if pairs is None:
        raise ConfigError(
            f"The corpus {corpus.name} has no test split; use --split valid, or give --source and --target."
        )
    result = _evaluate(translator, list(pairs), f"{corpus.name}, {split} split", overrides)
    # Scores belong to weights, which may be trained on.
    write_json(_evaluation_path(folder, split), {**asdict(result), "weights": weights_digest(folder)})
    return result


def _of_files(
    folder: Path, source: Path, target: Path, translator: Translator | None, overrides: dict[str, Any]
) -> Evaluation:
    pairs = list(read_files([source], [target]))
    if not pairs:
        raise DataError(f"{source} and {target} are empty; there is nothing to evaluate.")
    return _evaluate(translator or Translator.from_pretrained(folder), pairs, str(source), overrides)


def load_run_evaluation(folder: Path) -> Evaluation:
    """Read the evaluation of a run on its test split, or else on validation.

    Raises:
        CheckpointError: The run has not been evaluated.
    """
    for split in ("test", "valid"):
        path = _evaluation_path(folder, split)
        if path.exists():
            data = read_json(path)
            data.pop("weights", None)
            scores, copy_scores = Scores(**data.pop("scores")), Scores(**data.pop("copy_scores"))
            return Evaluation(scores=scores, copy_scores=copy_scores, **data)
    if not any((Path(folder) / name).exists() for name in ("recipe.yaml", "config.json")):
        raise CheckpointError(f"There is no run in {folder}: it holds neither recipe.yaml nor config.json.")
    raise CheckpointError(f"The run {folder} has not been evaluated. Do that first: locant evaluate {folder}")


def _evaluation_path(folder: Path, split: str) -> Path:
    return folder / f"evaluation.{split}.json"


def _evaluate(translator: Translator, pairs: list[Pair], name: str, overrides: dict[str, Any]) -> Evaluation:
    sources = [source for source, _ in pairs]
    cased = translator.tokenizers.target.cased
    references = [cased(target) for _, target in pairs]
    tokenize = bleu_tokenizer(translator.target_language)
    started = time.perf_counter()
    hypotheses = translator.translate(sources, **overrides)
    return Evaluation(
        name=name,
        scores=score_translations(hypotheses, references, tokenize=tokenize),
        copy_scores=score_translations([cased(source) for source in sources], references, tokenize=tokenize),
        beam=overrides.get("beam", translator.settings.beam),
        seconds=time.perf_counter() - started,
        sources=sources,
        references=references,
        hypotheses=hypotheses,
        engine=translator.engine.name,
    )


def validation(recipe: Recipe, corpus: Corpus, data: PreparedData) -> Validate:
    """Return the function that measures a model on the validation set while it is trained."""
    plan = plan_batches(data.valid.source.lengths, data.valid.target.lengths, recipe.batches, seed=0, epoch=0)
    before = len(data.valid.prefixes.source)
    lengths = [before + len(ids) for ids in data.tokenizers.source.encode([source for source, _ in data.valid_pairs])]
    usable = [pair for pair, length in zip(data.valid_pairs, lengths, strict=True) if length < recipe.max_tokens]
    pairs = usable[: recipe.training.validation_sentences]
    references = [data.tokenizers.target.cased(target) for _, target in pairs]
    greedy = DecodingSettings(beam=1)

    @torch.inference_mode()
    def measure(model: EncoderDecoder[Any]) -> ValidationScores:
        device = model.target_embedding.weight.device
        cross_entropy = TranslatorLoss(model, 0.0, torch.float32)
        total, tokens = 0.0, 0
        for rows in plan:
            batch = collate(data.valid, rows).to(device)
            total += float(cross_entropy(batch)[1])
            tokens += batch.target_tokens
        if not pairs or not math.isfinite(total):
            return ValidationScores(total / tokens)
        translator = Translator(
            model,
            data.tokenizers,
            greedy,
            engine=fastest_engine(model),
            source_language=corpus.source_language,
            target_language=corpus.target_language,
        )
        hypotheses = translator.translate([source for source, _ in pairs])
        scores = score_translations(hypotheses, references, tokenize=bleu_tokenizer(corpus.target_language))
        return ValidationScores(total / tokens, scores.bleu, scores.chrf)

    return measure
