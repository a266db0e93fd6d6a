"""Evaluation of translators: on the validation set while they are trained, on a test set afterwards."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from locant.analysis.scores import Scores, bleu_tokenizer, mean_scores, require_tokenizer, score_translations
from locant.errors import CheckpointError, ConfigError, DataError, UsageError, nearest
from locant.files import explaining_damage, read_json, write_json
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_card import weights_digest
from locant.text import Corpus, CorpusPart, Pair, PreparedData, collate, plan_batches
from locant.text.readers import read_files
from locant.text.samples import tokenised_texts
from locant.training.checkpoint import ValidationScores, from_plain_data
from locant.training.losses import TranslatorLoss
from locant.training.recipe import Recipe, load_run_recipe, run_text_store
from locant.training.run_folder import evaluate_command
from locant.training.trainer import Validate
from locant.translation.engines import fastest_engine
from locant.translation.translator import Translator

_GIVEN = "given"
"""What the evaluation of files that were given is called, beside the splits of the corpus."""


@dataclass(frozen=True)
class PartScores:
    """How well a model translates the text of one part of a corpus.

    Attributes:
        scores: Of the model's translations.
        copy_scores: Of the source itself, taken as a translation.
        zero_shot: Whether the model was never trained on this direction.
    """

    scores: Scores
    copy_scores: Scores
    zero_shot: bool = False


@dataclass(frozen=True)
class Evaluation:
    """How well a model translates a text.

    Attributes:
        name: What was translated.
        scores: Of the model's translations; of several languages, the mean over the directions that were trained.
        copy_scores: Of the source itself, taken as a translation: what doing nothing would score.
        beam: Beam size.
        seconds: Time of translating.
        sources: Source sentences.
        references: Reference translations.
        hypotheses: The model's translations.
        engine: What translated, and in which type of numbers.
        parts: The scores of each part of a corpus that has several with such a text, by name; their sentences follow
            one another.
        languages: What a model for several languages was told to translate the first source, by side.
        notes: What there is to know about the text and how it is scored, one sentence each.
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
    parts: dict[str, PartScores] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def evaluate(
    model: Path | str,
    split: str | None = None,
    *,
    part: str | None = None,
    source: Path | str | None = None,
    target: Path | str | None = None,
    translator: Translator | None = None,
    tokenize: str | None = None,
    **overrides: Any,
) -> Evaluation:
    """Translate a held-out text and score the result.

    Without ``source`` and ``target`` the text is a split of the run's own corpus. The result is saved in the run
    folder. A corpus of several parts is scored as a whole and part by part.

    Args:
        model: The folder of a run; with ``source`` and ``target`` any model folder.
        split: ``test`` or ``valid``; by default the test split, or validation where the corpus has no other.
        part: The name of a part of the run's corpus, to evaluate on its text alone; the result is not saved.
        source: A file to translate, one sentence a line.
        target: Its reference translation, line by line.
        translator: Of the model, with another engine than PyTorch on the fastest device.
        tokenize: sacreBLEU's tokenizer for BLEU; by default that of the target language, see
            :func:`~locant.analysis.bleu_tokenizer`.
        overrides: Changes of the model's decoding settings, ``beam=4`` for instance.

    Raises:
        UsageError: One of ``source`` and ``target`` is missing, or ``split`` or ``part`` is given as well.
        ConfigError: The corpus has no such split or part.
        DataError: The files are missing, empty, not UTF-8 or of unequal length.
        CheckpointError: The folder holds no trained model.
    """
    folder = Path(model)
    if bool(source) != bool(target):
        raise UsageError("--source and --target go together: one file each, with as many lines.")
    if source and target:
        if split or part:
            option = "--split" if split else "--part"
            raise UsageError(f"{option} chooses from the run's own corpus; leave it out with --source and --target.")
        pairs = list(read_files([Path(source)], [Path(target)]))
        if not pairs:
            raise DataError(f"{source} and {target} are empty; there is nothing to evaluate.")
        result = _evaluate(translator or Translator.from_pretrained(folder), pairs, str(source), tokenize, overrides)
        if (folder / "recipe.yaml").is_file():
            write_json(_evaluation_path(folder, _GIVEN), asdict(result))
        return result
    if (folder / "config.json").is_file() and not (folder / "recipe.yaml").is_file():
        raise UsageError(
            f"{folder} is a model without a run, so it has no test set of its own. Give one: --source FILE and "
            "--target FILE, sentences and their translations line by line."
        )
    # Before they are read: a training that goes on may publish others meanwhile.
    weights = weights_digest(folder) if (folder / "model.safetensors").is_file() else ""
    translator = translator or Translator.from_pretrained(folder)
    corpus = load_run_recipe(folder).open_corpus(run_text_store(folder))
    split = split or ("test" if corpus.tests else "valid")
    texts = corpus.tests if split == "test" else corpus.valids
    if not texts:
        raise ConfigError(
            f"The corpus {corpus.name} has no test split; use --split valid, or give --source and --target."
        )
    if part and part not in texts:
        raise ConfigError(f"The {split} split has no part '{part}'.{nearest(part, texts)} Known: {', '.join(texts)}.")
    results = {}
    for one in corpus.parts:
        if one.name in texts and part in (None, one.name):
            if translator.tokenizers.languages:
                takes_source = translator.tokenizers.languages.takes_source
                translator.choose_languages(one.source_language if takes_source else None, one.target_language)
            name = f"{one.name if part else corpus.name}, {split} split"
            results[one.name] = _evaluate(translator, list(texts[one.name]), name, tokenize, overrides)
    result, *others = results.values()
    if others:
        sources, references, hypotheses = (
            [text for one in results.values() for text in getattr(one, name)]
            for name in ("sources", "references", "hypotheses")
        )
        words = tokenize or bleu_tokenizer(translator.target_language, references)
        copied = [translator.tokenizers.target.cased(source) for source in sources]
        of_parts = {name: one.scores for name, one in results.items()}
        of_copies = {name: one.copy_scores for name, one in results.items()}
        zero_shot = {one.name for one in corpus.parts if one.zero_shot}
        result = replace(
            result,
            scores=_pooled_scores(corpus, of_parts, hypotheses, references, words),
            copy_scores=_pooled_scores(corpus, of_copies, copied, references, words),
            seconds=sum(one.seconds for one in results.values()),
            sources=sources,
            references=references,
            hypotheses=hypotheses,
            notes=list(dict.fromkeys(note for one in results.values() for note in one.notes)),
            parts={name: PartScores(one.scores, one.copy_scores, name in zero_shot) for name, one in results.items()},
        )
    if not part:
        # Scores belong to weights, which may be trained on.
        write_json(_evaluation_path(folder, split), {**asdict(result), "weights": weights})
    return result


def _pooled_scores(
    corpus: Corpus, parts: dict[str, Scores], hypotheses: list[str], references: list[str], tokenize: str
) -> Scores:
    """Return the scores of all parts of a corpus together: of several languages the mean over those trained on."""
    if corpus.layout is None:
        return score_translations(hypotheses, references, tokenize=tokenize)
    trained = [parts[part.name] for part in corpus.parts if part.name in parts and not part.zero_shot]
    return mean_scores(trained or list(parts.values()))


def load_run_evaluation(folder: Path) -> Evaluation:
    """Read the evaluation of a run on its test split, or else on validation, or else on files that were given.

    Raises:
        CheckpointError: The run has not been evaluated.
    """
    for split in ("test", "valid", _GIVEN):
        path = _evaluation_path(folder, split)
        if path.exists():
            with explaining_damage(path):
                return from_plain_data(Evaluation, read_json(path))
    if not any((Path(folder) / name).exists() for name in ("recipe.yaml", "config.json")):
        raise CheckpointError(f"There is no run in {folder}: it holds neither recipe.yaml nor config.json.")
    raise CheckpointError(f"The run {folder} has not been evaluated. Do that first: {evaluate_command(folder)}")


def _evaluation_path(folder: Path, split: str) -> Path:
    return folder / f"evaluation.{split}.json"


def _evaluate(
    translator: Translator, pairs: list[Pair], name: str, tokenize: str | None, overrides: dict[str, Any]
) -> Evaluation:
    sources = [source for source, _ in pairs]
    cased = translator.tokenizers.target.cased
    references = [cased(target) for _, target in pairs]
    notes = []
    if tokenize is None:
        tokenize = bleu_tokenizer(translator.target_language, references)
        if tokenize != bleu_tokenizer(translator.target_language):
            notes.append(
                f"BLEU is that of sacreBLEU's tokenizer '{tokenize}', by the script of the references, as the target "
                "language is not known; --target-language (target_language) names it."
            )
    require_tokenizer(tokenize)  # before long work
    if 5 * len(tokenised := tokenised_texts(references)) >= len(references):
        notes.append(
            f"{len(tokenised):,} of {len(references):,} references look tokenised or escaped ('{tokenised[0]:.60}'), "
            "so BLEU cannot be compared with that of plain text."
        )
    started = time.perf_counter()
    hypotheses = translator.translate(sources, **overrides)
    seconds = time.perf_counter() - started
    known = translator.tokenizers.languages
    return Evaluation(
        name=name,
        scores=score_translations(hypotheses, references, tokenize=tokenize),
        copy_scores=score_translations([cased(source) for source in sources], references, tokenize=tokenize),
        beam=overrides.get("beam", translator.settings.beam),
        seconds=seconds,
        sources=sources,
        references=references,
        hypotheses=hypotheses,
        engine=translator.engine.name,
        languages=known.told(translator.source_language, translator.target_language) if known else {},
        notes=notes,
    )


def validation(recipe: Recipe, corpus: Corpus, data: PreparedData) -> Validate:
    """Return the function that measures a model on the validation set while it is trained."""
    plan = list(plan_batches(data.valid.source.lengths, data.valid.target.lengths, recipe.batches, seed=0, epoch=0))
    texts = _validation_texts(recipe, corpus, data)
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
        if not texts or not math.isfinite(total):
            return ValidationScores(loss=total / tokens)
        found: dict[str, Scores] = {}
        hypotheses: list[str] = []
        references: list[str] = []
        for part, pairs in texts:
            translator = Translator(
                model,
                data.tokenizers,
                greedy,
                engine=fastest_engine(model),
                source_language=part.source_language,
                target_language=part.target_language,
            )
            translated = translator.translate([source for source, _ in pairs])
            right = [data.tokenizers.target.cased(target) for _, target in pairs]
            tokenize = bleu_tokenizer(part.target_language, right)
            found[part.name] = score_translations(translated, right, tokenize=tokenize)
            hypotheses += translated
            references += right
        tokenize = bleu_tokenizer(corpus.target_language, references)
        scores = _pooled_scores(corpus, found, hypotheses, references, tokenize)
        parts = {name: one.bleu for name, one in found.items()} if len(found) > 1 else {}
        return ValidationScores(loss=total / tokens, bleu=scores.bleu, chrf=scores.chrf, parts=parts)

    return measure


def _validation_texts(recipe: Recipe, corpus: Corpus, data: PreparedData) -> list[tuple[CorpusPart, list[Pair]]]:
    """Return the pairs of each part that are translated at a validation, as many as the recipe wants in all."""
    usable: list[tuple[CorpusPart, list[Pair]]] = []
    for part, rows in zip(corpus.parts, data.valid.parts, strict=True):
        pairs, before = data.valids.get(part.name, []), len(rows.prefixes.source)
        encoded = data.tokenizers.source.encode([source for source, _ in pairs])
        short = [pair for pair, ids in zip(pairs, encoded, strict=True) if before + len(ids) < recipe.max_tokens]
        usable.append((part, short))
    total, wanted = sum(len(pairs) for _, pairs in usable), recipe.training.validation_sentences
    if total > wanted:  # of each part in proportion, rounded up
        usable = [(part, pairs[: -(-wanted * len(pairs) // total)]) for part, pairs in usable]
    return [(part, pairs) for part, pairs in usable if pairs]
