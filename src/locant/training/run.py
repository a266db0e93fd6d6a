"""A run from start to end: recipe in, folder with a usable translator out.

A run folder holds everything needed to use, resume or repeat the run::

    recipe.yaml          the whole configuration, defaults included
    environment.json     versions, machine, command
    data.json            what cleaning removed, corpus, padding, sizes
    metrics.jsonl        losses and scores while training (also as TensorBoard events in tensorboard/)
    config.json, model.safetensors, tokenizer.*   the translator
    checkpoints/, snapshots/, cache/               needed to resume; may be deleted when training is over
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from locant.analysis.scores import bleu_tokenizer, score_translations
from locant.errors import CheckpointError, ConfigError
from locant.files import write_json
from locant.models.architectures import build_model
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_folder import save_model_folder
from locant.models.transformer import count_parameters
from locant.runtime import choose_device, environment, keep_freed_memory, limit_onednn_cache
from locant.text import BatchStream, Corpus, PreparedData, collate, load_corpus, padding_waste, plan_batches, prepare
from locant.training import parallel
from locant.training.checkpoint import checkpoint_folders, load_checkpoint
from locant.training.monitor import SilentCallback, TrainingCallback
from locant.training.recipe import Recipe, apply_overrides, load_recipe, save_recipe
from locant.training.trainer import Trainer, TrainingStep, Validate
from locant.translation.translator import Translator

_PREPARED = ("cache", "tokenizer")  # what a run killed while it prepared its data leaves behind


@dataclass(frozen=True)
class RunSummary:
    """How a run ended.

    Attributes:
        folder: The run folder.
        reason: Why training ended.
        steps: Updates done, in all sessions together.
        seconds: Time trained, likewise.
    """

    folder: Path
    reason: str
    steps: int
    seconds: float


def start_run(
    recipe: Recipe,
    folder: Path,
    *,
    monitor: TrainingCallback | None = None,
    on_prepared: Callable[[dict[str, Any]], None] | None = None,
) -> RunSummary:
    """Train a translator from the beginning.

    Args:
        recipe: What to train, on what and how.
        folder: A new or empty folder for the run.
        monitor: Watches the training.
        on_prepared: Called once, on the first process, with the content of ``data.json`` when data and model are ready.

    Raises:
        CheckpointError: The folder holds something already, or the disk is full.
        DataError: The corpus cannot be used.
        ConfigError: The recipe does not fit the corpus or the machine.
        TrainingError: Training diverged.
    """
    if (folder / "recipe.yaml").exists():
        raise CheckpointError(
            f"{folder} already holds a run. Go on with it by --resume {folder}, or choose another folder for --output."
        )
    if folder.exists():
        foreign = [entry.name for entry in folder.iterdir() if not entry.name.lstrip(".").startswith(_PREPARED)]
        if foreign:
            raise CheckpointError(f"{folder} is not empty (it holds {foreign[0]}). Choose a new folder for --output.")
    return _train(recipe, folder, resume=False, monitor=monitor, on_prepared=on_prepared)


def resume_run(
    folder: Path,
    overrides: Sequence[str] = (),
    *,
    monitor: TrainingCallback | None = None,
    on_prepared: Callable[[dict[str, Any]], None] | None = None,
) -> RunSummary:
    """Go on with a run from its newest checkpoint, exactly as if it had never stopped.

    Args:
        folder: The run folder.
        overrides: Changes of the recipe, ``training.steps=20000`` for instance, to train longer.
        monitor: Watches the training.
        on_prepared: As for :func:`start_run`.

    Raises:
        CheckpointError: The folder holds no run, or its newest checkpoint is damaged.
        DataError: The corpus is not what it was when the run began.
        ConfigError: An override is wrong.
        TrainingError: Training diverged.
    """
    path = folder / "recipe.yaml"
    if not path.exists():
        raise CheckpointError(f"There is no run to resume in {folder}: it holds no recipe.yaml.")
    recipe = load_recipe(path)
    if overrides:
        recipe = Recipe.parse(apply_overrides(recipe.to_dict(), overrides), "command line")
    return _train(recipe, folder, resume=True, monitor=monitor, on_prepared=on_prepared)


def _train(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool,
    monitor: TrainingCallback | None,
    on_prepared: Callable[[dict[str, Any]], None] | None,
) -> RunSummary:
    keep_freed_memory()
    limit_onednn_cache()
    device = choose_device(recipe.training.device)
    with parallel.process_group(device):
        corpus = load_corpus(recipe.corpus)
        data = _prepare(recipe, corpus, folder, resume=resume)
        torch.manual_seed(recipe.seed)
        sizes = data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size
        model = build_model(recipe.sized_model(*sizes))
        torch.manual_seed(recipe.seed + 1 + parallel.rank())  # dropout differs between processes, weights do not
        decoding = recipe.decoding
        stream = BatchStream(
            data.epochs(recipe.seed),
            recipe.batches,
            seed=recipe.seed,
            rank=parallel.rank(),
            world_size=parallel.world_size(),
        )
        trainer = Trainer(
            folder,
            model,
            recipe.training,
            batches=stream.start,
            validate=validation(recipe, corpus, data),
            publish=lambda trained: save_model_folder(
                folder,
                trained,
                data.tokenizers,
                decoding,
                source_language=corpus.source_language,
                target_language=corpus.target_language,
            ),
            monitor=monitor if monitor and parallel.rank() == 0 else SilentCallback(),
            device=device,
        )
        checkpoints = checkpoint_folders(folder)
        if resume and checkpoints:
            trainer.resume(load_checkpoint(checkpoints[-1]))
        if parallel.rank() == 0:
            record = _record(recipe, folder, corpus, data, model)
            if on_prepared:
                on_prepared(record)
        reason = trainer.train()
    return RunSummary(folder, reason, trainer.progress.step, trainer.progress.seconds)


def _prepare(recipe: Recipe, corpus: Corpus, folder: Path, *, resume: bool) -> PreparedData:
    """Prepare the data on the first process; the others then read what it wrote."""

    def prepared(resume: bool) -> PreparedData:
        return prepare(
            corpus, recipe.cleaning, recipe.tokenizer, max_tokens=recipe.max_tokens, folder=folder, resume=resume
        )

    def first() -> None:
        for stale in (folder / "cache").glob("sampled-*"):  # left by a killed process
            shutil.rmtree(stale)
        mine.append(prepared(resume))

    mine: list[PreparedData] = []
    parallel.from_first_process(first)
    return mine[0] if mine else prepared(resume=True)


def validation(recipe: Recipe, corpus: Corpus, data: PreparedData) -> Validate:
    """Return the function that measures a model on the validation set."""
    plan = plan_batches(data.valid.source.lengths, data.valid.target.lengths, recipe.batches, seed=0, epoch=0)
    lengths = [len(ids) for ids in data.tokenizers.source.encode([source for source, _ in data.valid_pairs])]
    usable = [pair for pair, length in zip(data.valid_pairs, lengths, strict=True) if length < recipe.max_tokens]
    pairs = usable[: recipe.training.validation_sentences]
    references = [data.tokenizers.target.cased(target) for _, target in pairs]
    greedy = DecodingSettings(beam=1)

    @torch.inference_mode()
    def measure(model: EncoderDecoder[Any]) -> tuple[float, float | None, float | None]:
        device = model.target_embedding.weight.device
        step = TrainingStep(model, 0.0, torch.float32)
        total, tokens = 0.0, 0
        for rows in plan:
            batch = collate(data.valid, rows).to(device)
            total += float(step(batch)[1])
            tokens += batch.target_tokens
        if not pairs or not math.isfinite(total):
            return total / tokens, None, None
        translator = Translator(model, data.tokenizers, greedy)
        with suppress(ConfigError):  # elsewhere than on a CPU with a compiler PyTorch finds the same, in more time
            translator.compile()
        hypotheses = translator.translate([source for source, _ in pairs])
        scores = score_translations(hypotheses, references, tokenize=bleu_tokenizer(corpus.target_language))
        return total / tokens, scores.bleu, scores.chrf

    return measure


def _record(
    recipe: Recipe, folder: Path, corpus: Corpus, data: PreparedData, model: EncoderDecoder[Any]
) -> dict[str, Any]:
    """Write what the run is made of, and return the content of ``data.json``."""
    source, target = data.train.source.lengths, data.train.target.lengths
    plan = plan_batches(source, target, recipe.batches, seed=recipe.seed, epoch=0)
    waste = padding_waste(plan, source, target)
    record = {
        "corpus": corpus.name,
        "description": corpus.description,
        "licence": corpus.licence,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "cleaning": data.report.to_dict(),
        "train_pairs": len(data.train),
        "valid_pairs": len(data.valid),
        "test_pairs": len(data.test_pairs or ()),
        "train_tokens": {"source": int(source.sum()), "target": int(target.sum())},
        "vocabulary": {
            "source": data.tokenizers.source.vocab_size,
            "target": data.tokenizers.target.vocab_size,
        },
        "batches_per_epoch": len(plan),
        "padding_waste": {"source": waste[0], "target": waste[1]},
        "parameters": count_parameters(model),
    }
    write_json(folder / "data.json", record)
    write_json(folder / "environment.json", environment())
    # Written last: a folder with a recipe is a run that can be resumed.
    save_recipe(recipe, folder / "recipe.yaml")
    return record
