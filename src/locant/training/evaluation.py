"""Measuring a trained model on a test set."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from locant.analysis.scores import Scores, bleu_tokenizer, score_translations
from locant.errors import CheckpointError, ConfigError, DataError
from locant.files import read_json, write_json
from locant.models.model_card import weights_digest
from locant.text import Pair, load_corpus
from locant.text.readers import read_files
from locant.training.recipe import load_recipe
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


def evaluate_run(
    folder: Path, split: str | None = None, *, translator: Translator | None = None, **overrides: Any
) -> Evaluation:
    """Translate a held-out split of the run's own corpus and score it; the result is saved in the run folder too.

    Args:
        folder: The run folder.
        split: ``test`` or ``valid``; by default the test split, or validation where the corpus has no other.
        translator: Of the run, with another engine than PyTorch on the fastest device.
        overrides: Changes of the run's decoding settings.

    Raises:
        ConfigError: The corpus has no such split.
        CheckpointError: The folder holds no trained run.
    """
    translator = translator or Translator.from_pretrained(folder)
    corpus = load_corpus(load_recipe(folder / "recipe.yaml").corpus)
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


def evaluate_files(
    model: Path, source: Path, target: Path, *, translator: Translator | None = None, **overrides: Any
) -> Evaluation:
    """Translate a text file and score the result against another.

    Args:
        model: A model folder or finished run.
        source: The file to translate.
        target: Its reference translation.
        translator: Of the model, with another engine than PyTorch on the fastest device.
        overrides: Changes of the model's decoding settings.

    Raises:
        DataError: The files are missing, empty, not UTF-8 or of unequal length.
        CheckpointError: The folder holds no trained model.
    """
    pairs = list(read_files([source], [target]))
    if not pairs:
        raise DataError(f"{source} and {target} are empty; there is nothing to evaluate.")
    return _evaluate(translator or Translator.from_pretrained(model), pairs, str(source), overrides)


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
        engine=translator.engine,
    )
