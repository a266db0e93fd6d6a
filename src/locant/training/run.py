"""A run from start to end: recipe in, folder with a usable translator out.

A run folder holds everything needed to use, resume or repeat the run::

    recipe.yaml          the whole configuration, defaults included
    environment.json     versions, machine, command; of each time it went on too
    run.json, .lock      the format of the folder, and who trains in it
    data.json            what cleaning removed, corpus, padding, sizes
    choices.json         what the recipe left open, what was chosen, and why
    metrics.jsonl        losses and scores while training (also as TensorBoard events in tensorboard/)
    config.json, model.safetensors, tokenizer.*   the translator
    checkpoints/, snapshots/, cache/               needed to resume; may be deleted when training is over
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from locant.files import workplace
from locant.languages import require_language
from locant.models.architectures import ModelConfig, build_model
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_folder import save_model_folder
from locant.runtime import choose_device
from locant.text import BatchStream, Corpus, TextStore, aligner_command
from locant.text.doubts import Doubt, corpus_doubts
from locant.training import parallel, run_folder
from locant.training.before_after import BeforeAfter
from locant.training.callback import TrainingCallback
from locant.training.checkpoint import find_newest_checkpoint
from locant.training.defaults import choose_usual_length, complete_recipe, leaves_open
from locant.training.evaluation import validation
from locant.training.finetuning import FineTuning
from locant.training.forecast import memory_warning, warmup_warning
from locant.training.losses import TranslatorLoss
from locant.training.plan import Choice, TrainingPlan
from locant.training.recipe import Recipe, apply_overrides, load_recipe, load_run_recipe, merged, with_changes
from locant.training.resuming import continued_recipe
from locant.training.run_data import align_data, open_corpus, prepare_data, report_data
from locant.training.trainer import Trainer
from locant.version import __version__

_logger = logging.getLogger("locant")


@dataclass(frozen=True)
class RunSummary:
    """How a run ended.

    Attributes:
        folder: The run folder.
        reason: Why training ended.
        steps: Updates done, in all sessions together.
        seconds: Time trained, likewise.
        before_after: Of a fine-tuning, its test sets before and after.
        languages: What a model for several languages is told to translate in the first direction that it learned, by
            side.
    """

    folder: Path
    reason: str
    steps: int
    seconds: float
    before_after: BeforeAfter | None = None
    languages: Mapping[str, str] = field(default_factory=dict)


def train(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    output: Path | str,
    *,
    start_from: Path | str | None = None,
    resume_if_exists: bool = False,
    callback: TrainingCallback | None = None,
    **changes: Any,
) -> RunSummary:
    """Train a translator from the beginning, or from another one.

    On SIGTERM the update is finished and all is saved.

    Args:
        recipe: What to train, on what and how: a recipe, its sections as plain data, the name of a built-in recipe or
            a YAML file.
        output: A new or empty folder for the run.
        start_from: A model to start from, short for ``finetuning={"parent": ...}``: a run, a model folder, a Marian,
            M2M-100 or NLLB folder in Hugging Face's format, or ``hf://user/model``.
        resume_if_exists: Where the folder holds a run already, go on with it. What the recipe and the changes name must
            then be as it was, or may change as for :func:`resume_training`.
        callback: Is told how training goes.
        changes: Sections of the recipe, or keys of them, that differ: ``training={"steps": 8000}``, ``seed=2``.

    Raises:
        CheckpointError: The folder holds something already, another process trains in it, or the disk is full.
        DataError: The corpus cannot be used.
        ConfigError: The recipe is wrong, or does not fit the corpus or the machine.
        TrainingError: Training diverged.
        StoppedError: SIGTERM came; all is saved.
    """
    if start_from is not None:
        changes = _with_parent(changes, start_from)
    wanted = _changed(recipe, changes)
    if not run_folder.has_run(Path(output)):
        _require_languages(wanted.model_dump(exclude_unset=True))
    return _train(wanted, Path(output), begins=True, goes_on=resume_if_exists, callback=callback)


def plan_training(
    recipe: Recipe | Mapping[str, Any] | str | Path, *, start_from: Path | str | None = None, **changes: Any
) -> TrainingPlan:
    """Return what :func:`train` would do, without doing it: the complete recipe, and a forecast of time and memory.

    Nothing is written but, of a large text, what is read of it, to a temporary folder. A vocabulary is learned of a
    sample of the text, and models of a few sizes train for three updates on made-up text.

    Args:
        recipe: As for :func:`train`.
        start_from: Likewise.
        changes: Likewise.

    Raises:
        DataError: The corpus cannot be used.
        ConfigError: The recipe is wrong, or does not fit the corpus or the machine.
    """
    if start_from is not None:
        changes = _with_parent(changes, start_from)
    wanted = _changed(recipe, changes)
    _require_languages(wanted.model_dump(exclude_unset=True))
    with tempfile.TemporaryDirectory(prefix="locant-") as folder:
        # A large text is read once, by all cores.
        corpus = wanted.open_corpus(TextStore(Path(folder)))
        tokenizers = None
        if wanted.finetuning:
            finetuning = FineTuning(wanted, corpus, Path(), resume=False)
            wanted, corpus, tokenizers = finetuning.recipe, finetuning.corpus, finetuning.parent_tokenizers
        plan = complete_recipe(wanted, corpus, choose_device(wanted.training.device), tokenizers=tokenizers)
        for doubt in _doubts(wanted, corpus):
            _warn(doubt.sentence)
    _warn(plan.memory_warning)
    _warn(plan.passes_warning)
    _warn(warmup_warning(plan.recipe.training))
    return plan


def _with_parent(changes: Mapping[str, Any], parent: Path | str) -> dict[str, Any]:
    return {**changes, "finetuning": {**(changes.get("finetuning") or {}), "parent": str(parent)}}


def resume_training(
    run: Path | str,
    overrides: Sequence[str] = (),
    *,
    callback: TrainingCallback | None = None,
    **changes: Any,
) -> RunSummary:
    """Go on with a run from its newest checkpoint, exactly as if it had never stopped.

    Where that checkpoint is damaged the one before it serves, and a warning says so. The recipe may change in what
    ``docs/training.md`` lists, for instance in how long is trained.

    Args:
        run: The run folder.
        overrides: Changes of the recipe as on the command line: ``training.steps=20000``, to train longer.
        callback: Is told how training goes.
        changes: Changes of the recipe as for :func:`train`: ``training={"steps": 20000}``.

    Raises:
        CheckpointError: The folder holds no run, or one of a later version, or one in which another process trains; or
            all checkpoints are damaged.
        DataError: The corpus is not what it was when the run began.
        ConfigError: An override is wrong, or changes what a run keeps.
        TrainingError: Training diverged.
        StoppedError: SIGTERM came; all is saved.
    """
    return _train(merged(apply_overrides({}, overrides), changes), Path(run), begins=False, callback=callback)


def _changed(recipe: Recipe | Mapping[str, Any] | str | Path, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with changes of its sections."""
    if isinstance(recipe, str | Path):
        return load_recipe(recipe, changes=changes)
    if isinstance(recipe, Recipe) and not changes:
        return recipe
    # Unset keys stay unset: what fine-tuning takes from the parent depends on it.
    data = recipe.model_dump(mode="json", exclude_unset=True) if isinstance(recipe, Recipe) else dict(recipe)
    return Recipe.parse(with_changes(data, (), changes), "recipe")


def _train(
    wanted: Recipe | Mapping[str, Any],
    folder: Path,
    *,
    begins: bool,
    goes_on: bool = True,
    callback: TrainingCallback | None,
) -> RunSummary:
    """Begin a run or go on with one.

    Args:
        wanted: The recipe; of a run that goes on what is given of it.
        folder: The run folder.
        begins: Whether there may be no run yet.
        goes_on: Whether there may be one.
        callback: Is told how training goes.
    """
    with parallel.process_group(), ExitStack() as held:
        parallel.require_same({"the version of Locant": __version__, "the recipe": _digest(wanted)})
        recipe, resume, seen = parallel.from_first_process(lambda: _start(held, wanted, folder, begins, goes_on))
        apart = not (folder / seen).exists()  # on a machine that does not share the folder
        prepares = apart and parallel.node_place().rank == 0
        if recipe.training.guided_alignment and not resume:
            parallel.on_some_processes(prepares or parallel.rank() == 0, aligner_command)  # before long work
        device = parallel.use_device(choose_device(recipe.training.device))
        callback = callback if callback and parallel.rank() == 0 else TrainingCallback()
        # The caller's random numbers are those of a program that has not trained.
        held.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        corpus = open_corpus(recipe, folder, callback, prepares=prepares)
        finetuning = FineTuning(recipe, corpus, folder, resume=resume) if recipe.finetuning else None
        if finetuning:
            recipe, corpus = finetuning.recipe, finetuning.corpus
        doubts = _doubts(recipe, corpus) if parallel.rank() == 0 else []
        for doubt in doubts if not resume else ():
            _warn(doubt.sentence)
        choices: tuple[Choice, ...] = ()
        if not resume and leaves_open(recipe):
            plan = _plan_together(recipe, corpus, device, finetuning)
            recipe, choices = plan.recipe, plan.choices
            callback.on_plan(plan)
            _warn(plan.memory_warning)
            _warn(plan.passes_warning)
        if not resume:
            _warn(warmup_warning(recipe.training))
        data = prepare_data(
            recipe, corpus, folder, resume=resume, finetuning=finetuning, callback=callback, prepares=prepares
        )
        lengths: tuple[Choice, ...] = ()
        if not resume:
            recipe, lengths = choose_usual_length(recipe, data.train)
        for choice in lengths:
            callback.on_chosen(choice)
        checkpoint = parallel.from_first_process(lambda: find_newest_checkpoint(folder)) if resume else None
        torch.manual_seed(recipe.seed)
        sizes = data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size
        config = recipe.sized_model(*sizes)
        if not choices and parallel.world_size() == 1:
            _warn(memory_warning(config, recipe.training, recipe.batches.tokens, device))
        links = None
        if recipe.training.guided_alignment:
            links = align_data(data, folder, callback, prepares=prepares)
            config = config.model_copy(update={"alignment_head": True})
        model = new_model(config, recipe.training.parallel)
        kept = finetuning.prepare_model(model, begins=checkpoint is None) if finetuning else None
        torch.manual_seed(recipe.seed + 1 + parallel.rank())  # dropout differs between processes, weights do not
        stream = BatchStream(
            data.epochs(recipe.seed, *parallel.node_place()),
            recipe.batches,
            seed=recipe.seed,
            rank=parallel.rank(),
            world_size=parallel.world_size(),
            links=links,
        )
        trainer = Trainer(
            folder,
            TranslatorLoss.of(model, recipe.training, device),
            recipe.training,
            batches=stream,
            stages=corpus.stages,
            validate=validation(recipe, corpus, data),
            publish=lambda trained: save_model_folder(
                folder,
                trained,
                data.tokenizers,
                recipe.decoding,
                source_language=corpus.source_language,
                target_language=corpus.target_language,
            ),
            callback=callback,
            device=device,
            lr_scales=finetuning.learning_rate_scales(model) if finetuning else None,
            plain_weights=finetuning.plain_weights(model) if finetuning else None,
        )
        if checkpoint:
            trainer.resume(checkpoint)
        elif kept:
            trainer.begin_with(kept)
        if parallel.rank() == 0:
            report = report_data(recipe, corpus, doubts, data, model)
            run_folder.record(recipe, folder, report, (*choices, *lengths), trainer.progress.step)
            callback.on_prepared(report)
        reason = trainer.train()
        before_after = parallel.from_first_process(finetuning.compare_after) if finetuning else None
    known, learned = data.tokenizers.languages, next(part for part in corpus.parts if not part.zero_shot)
    languages = known.told(learned.source_language, learned.target_language) if known else {}
    return RunSummary(folder, reason, trainer.progress.step, trainer.progress.seconds, before_after, languages)


def _start(
    held: ExitStack, wanted: Recipe | Mapping[str, Any], folder: Path, begins: bool, goes_on: bool
) -> tuple[Recipe, bool, str]:
    """Hold a run folder until the stack is closed.

    Returns:
        The recipe, whether the run goes on, and the name of something in the folder by which processes of other
        machines see whether they share it.
    """

    def check() -> bool:
        exists = run_folder.has_run(folder)
        if not exists and not begins:
            run_folder.require_run(folder)
        if not (exists and goes_on):
            run_folder.require_new(folder)
        return exists

    check()  # before anything is written
    held.enter_context(run_folder.hold(folder))
    resume = check()  # another process may have begun and ended until the folder was held
    run_folder.begin(folder)
    seen = held.enter_context(workplace(folder)).name if parallel.world_size() > 1 else ""
    if not resume:
        assert isinstance(wanted, Recipe)
        return wanted, False, seen
    given = wanted.model_dump(mode="json", exclude_unset=True) if isinstance(wanted, Recipe) else wanted
    recipe, changes = continued_recipe(load_run_recipe(folder), given, str(folder))
    for change in changes:
        _logger.info(f"The run goes on with {change}; that changes {change.effect}.")
    return recipe, True, seen


def _digest(wanted: Recipe | Mapping[str, Any]) -> str:
    given = wanted.model_dump(mode="json", exclude_unset=True) if isinstance(wanted, Recipe) else wanted
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()


def _plan_together(recipe: Recipe, corpus: Corpus, device: torch.device, finetuning: FineTuning | None) -> TrainingPlan:
    """Complete the recipe on the first process; clocks differ, and the others must train the same."""
    processes, tokenizers = parallel.world_size(), finetuning.parent_tokenizers if finetuning else None
    return parallel.from_first_process(
        lambda: complete_recipe(recipe, corpus, device, processes=processes, tokenizers=tokenizers)
    )


def _doubts(recipe: Recipe, corpus: Corpus) -> list[Doubt]:
    return corpus_doubts(recipe.corpus, corpus, lowercase=recipe.tokenizer.lowercase)


def _require_languages(data: Mapping[str, Any], where: str = "") -> None:
    """Raise ConfigError where a recipe, or a section of it, names a language by something else than its code."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            _require_languages(value, f"{where}{key}.")
        elif isinstance(value, list | tuple):
            _require_languages({str(number): one for number, one in enumerate(value, start=1)}, f"{where}{key}.")
        elif key in ("source_language", "target_language"):
            require_language(value, f"{where}{key}")


def _warn(message: str) -> None:
    """Log a warning, if there is one, on the first process alone."""
    if message and parallel.rank() == 0:
        _logger.warning(message)


def new_model(config: ModelConfig, mode: str) -> EncoderDecoder[Any]:
    """Return a new model; where it will be sharded, the first process alone has its weights, the others its shapes."""
    if parallel.rank():
        with torch.device("meta"):
            shapes = build_model(config)
        if parallel.is_sharded(shapes, mode):
            return shapes
    return build_model(config)
