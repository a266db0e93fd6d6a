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
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from locant.languages import require_language
from locant.models.architectures import build_model
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.model_folder import save_model_folder
from locant.models.transformer import count_parameters
from locant.runtime import choose_device
from locant.text import (
    BatchStream,
    Corpus,
    PreparedData,
    TokenizerPair,
    TokenLinks,
    aligner_command,
    prepare,
    prepared_links,
    sampling_shares,
    summarize_plan,
)
from locant.text.samples import Doubt, corpus_doubts
from locant.text.vocabulary import Pairs
from locant.text.workers import usable_processes
from locant.training import parallel, run_folder
from locant.training.before_after import BeforeAfter, compare_after
from locant.training.callback import PartReport, PreparedReport, TrainingCallback
from locant.training.checkpoint import find_newest_checkpoint
from locant.training.defaults import (
    Choice,
    TrainingPlan,
    choose_usual_length,
    complete_recipe,
    leaves_open,
    training_warnings,
)
from locant.training.evaluation import validation
from locant.training.finetuning import FineTuning
from locant.training.losses import TranslatorLoss
from locant.training.recipe import (
    Recipe,
    apply_overrides,
    continued_recipe,
    load_recipe,
    load_run_recipe,
    merged,
    run_text_store,
    with_changes,
)
from locant.training.trained_parts import learning_rate_scales
from locant.training.trainer import Trainer
from locant.version import __version__

_logger = logging.getLogger("locant")

_ALIGNED_ALONE = 100_000
"""Most pairs whose links one process makes symmetric."""


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
        callback: Called as training goes on.
        changes: Sections of the recipe, or keys of them, that differ: ``training={"steps": 8000}``, ``seed=2``.

    Raises:
        CheckpointError: The folder holds something already, another process trains in it, or the disk is full.
        DataError: The corpus cannot be used.
        ConfigError: The recipe is wrong, or does not fit the corpus or the machine.
        TrainingError: Training diverged.
        StoppedError: SIGTERM came; all is saved.
    """
    wanted = _changed(recipe, changes, start_from)
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
    wanted = _changed(recipe, changes, start_from)
    with tempfile.TemporaryDirectory(prefix="locant-") as folder, ExitStack() as held:
        run = Run(Path(folder), None, held)
        run.open(wanted, begins=True, goes_on=False)
        return run.forecast()


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
        callback: Called as training goes on.
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


def _changed(
    recipe: Recipe | Mapping[str, Any] | str | Path, changes: Mapping[str, Any], start_from: Path | str | None
) -> Recipe:
    """Return a recipe with changes of its sections, and with a model to start from where one is given."""
    if start_from is not None:
        changes = {**changes, "finetuning": {**(changes.get("finetuning") or {}), "parent": str(start_from)}}
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
    """Begin a run or go on with one; see :meth:`Run.open`."""
    with parallel.process_group(), ExitStack() as held:
        run = Run(folder, callback, held)
        run.open(wanted, begins=begins, goes_on=goes_on)
        run.plan()
        return run.train(run.prepare())


class Run:
    """A training run in this process: open, plan, prepare, train. Under torchrun every process takes the same steps.

    Args:
        folder: The run folder.
        callback: Called as training goes on.
        held: Holds the folder until it is closed.

    Attributes:
        recipe: As far as it is complete.
        resume: Whether the run goes on.
        choices: What the recipe left open, and what was chosen.
        doubts: What is likely not meant about the text; on the first process.
    """

    def __init__(self, folder: Path, callback: TrainingCallback | None, held: ExitStack) -> None:
        self.folder, self.held = folder, held
        self.callback = callback if callback and parallel.rank() == 0 else TrainingCallback()
        self.choices: tuple[Choice, ...] = ()

    def open(self, wanted: Recipe | Mapping[str, Any], *, begins: bool, goes_on: bool) -> None:
        """Hold the folder, and read the recipe, the corpus and the model to start from.

        ``wanted`` is the recipe, or of a run that goes on what is given of it; ``begins`` and ``goes_on`` say whether
        there may be no run yet, and whether there may be one.
        """
        given = wanted.model_dump(mode="json", exclude_unset=True) if isinstance(wanted, Recipe) else wanted
        digest = hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()
        parallel.require_same({"the version of Locant": __version__, "the recipe": digest})

        def start() -> tuple[Recipe, bool]:
            """Hold the folder, and return the recipe and whether the run goes on."""
            may = {"may_begin": begins, "may_go_on": goes_on}
            exists = run_folder.goes_on(self.folder, **may)  # before anything is written
            if not exists and isinstance(wanted, Recipe):
                _require_languages(wanted.model_dump(exclude_unset=True))
            self.held.enter_context(run_folder.hold(self.folder))
            resume = run_folder.goes_on(self.folder, **may)  # another process may have trained until it was held
            run_folder.begin(self.folder)
            if not resume:
                assert isinstance(wanted, Recipe)
                return wanted, False
            recipe, changes = continued_recipe(load_run_recipe(self.folder), given, str(self.folder))
            for change in changes:
                _logger.info(f"The run goes on with {change}.")
            return recipe, True

        recipe, self.resume = parallel.from_first_process(start)
        parallel.require_same({f"the folder {self.folder}": str((self.folder / run_folder.MARK).exists())})
        if recipe.training.guided_alignment and not self.resume:
            parallel.from_first_process(aligner_command)  # before long work
        self.device = choose_device(recipe.training.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        # The caller's random numbers are those of a program that has not trained.
        self.held.enter_context(torch.random.fork_rng([self.device] if self.device.type == "cuda" else []))
        store = run_text_store(self.folder, self.callback.on_preparing)
        mine: list[Corpus] = []
        parallel.from_first_process(lambda: mine.append(recipe.open_corpus(store)))
        # The others find what is large of it read.
        self.recipe, self.corpus = recipe, mine[0] if mine else recipe.open_corpus(store)
        self.finetuning: FineTuning | None = None
        if recipe.finetuning:
            self.finetuning = FineTuning(recipe, self.corpus, self.folder, resume=self.resume)
            self.recipe, self.corpus = self.finetuning.recipe, self.finetuning.corpus
        self.doubts: list[Doubt] = []
        if parallel.rank() == 0:
            self.doubts = corpus_doubts(self.corpus, lowercase=self.recipe.tokenizer.lowercase)
        if not self.resume:
            _warn(*(doubt.sentence for doubt in self.doubts))

    def plan(self) -> None:
        """Choose what the recipe leaves open, and warn of what is likely not meant."""
        if self.resume:
            return
        if leaves_open(self.recipe):
            plan = self.forecast()
            self.recipe, self.choices = plan.recipe, plan.choices
            self.callback.on_plan(plan)

    def forecast(self) -> TrainingPlan:
        """Return the complete recipe with a forecast, and warn of what is likely not meant."""
        tokenizers = self.finetuning.parent_tokenizers if self.finetuning else None
        # On the first process: clocks differ, and the others must train the same.
        plan = parallel.from_first_process(
            lambda: complete_recipe(
                self.recipe,
                self.corpus,
                self.device,
                processes=parallel.world_size(),
                tokenizers=tokenizers,
                progress=self.callback.on_preparing,
            )
        )
        _warn(*plan.warnings)
        return plan

    def prepare(self) -> PreparedData:
        """Prepare the text on the first process; the others read what it wrote."""
        folder, recipe, finetuning = self.folder, self.recipe, self.finetuning

        def tokenizers_of_model(_: Pairs) -> TokenizerPair:
            return TokenizerPair.load(folder)

        def prepared(resume: bool) -> PreparedData:
            own = finetuning.tokenizers if finetuning else None
            return prepare(
                self.corpus,
                recipe.cleaning,
                recipe.tokenizer,
                max_tokens=recipe.max_tokens,
                folder=folder,
                resume=resume,
                made_before=run_folder.recorded_fingerprint(folder) if resume else None,
                make_tokenizers=tokenizers_of_model if resume else own,
                progress=self.callback.on_preparing,
            )

        def first() -> None:
            for stale in (folder / "cache").glob("sampled-*"):  # left by a killed process
                shutil.rmtree(stale)
            mine.append(prepared(self.resume))
            if finetuning and not self.resume:
                finetuning.keep_start()

        mine: list[PreparedData] = []
        parallel.from_first_process(first)
        return mine[0] if mine else prepared(resume=True)

    def train(self, data: PreparedData) -> RunSummary:
        """Train on the prepared text until the budget is used, from the newest checkpoint where there is one."""
        folder, corpus, finetuning, device = self.folder, self.corpus, self.finetuning, self.device
        lengths: tuple[Choice, ...] = ()
        if not self.resume:
            self.recipe, lengths = choose_usual_length(self.recipe, data.train)
        recipe = self.recipe
        for choice in lengths:
            self.callback.on_chosen(choice)
        checkpoint = parallel.from_first_process(lambda: find_newest_checkpoint(folder)) if self.resume else None
        torch.manual_seed(recipe.seed)
        config = recipe.sized_model(data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size)
        if not self.choices:
            alone = device if parallel.world_size() == 1 else None
            _warn(*training_warnings(config, recipe.training, recipe.batches.tokens, alone))
        links = None
        if recipe.training.guided_alignment:
            place, text, digest = folder / "cache" / "links", data.train, data.fingerprint

            def align() -> None:
                processes = usable_processes() if len(text) > _ALIGNED_ALONE else 1
                self.callback.on_preparing("aligning", 0.0)
                prepared_links(text, place, made_from=digest, processes=processes)

            parallel.from_first_process(align)
            links = TokenLinks(place, len(text), digest)
            config = config.model_copy(update={"alignment_head": True})
        model = build_model(config)
        kept = finetuning.prepare_model(model, begins=checkpoint is None) if finetuning else None
        torch.manual_seed(recipe.seed + 1 + parallel.rank())  # dropout differs between processes, weights do not
        stream = BatchStream(
            data.epochs(recipe.seed, rank=parallel.rank(), processes=parallel.world_size()),
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
            callback=self.callback,
            device=device,
            lr_scales=learning_rate_scales(model, finetuning.settings.layer_decay) if finetuning else None,
            plain_weights=finetuning.plain_weights(model) if finetuning else None,
        )
        if start := checkpoint or kept:
            trainer.resume(start)
        if parallel.rank() == 0:
            report = self._report(data, model)
            run_folder.record(recipe, folder, report, (*self.choices, *lengths), trainer.progress.step)
            self.callback.on_prepared(report)
        reason = trainer.train()
        before_after = parallel.from_first_process(lambda: compare_after(folder)) if finetuning else None
        known, learned = data.tokenizers.languages, next(part for part in corpus.parts if not part.zero_shot)
        languages = known.told(learned.source_language, learned.target_language) if known else {}
        return RunSummary(folder, reason, trainer.progress.step, trainer.progress.seconds, before_after, languages)

    def _report(self, data: PreparedData, model: EncoderDecoder[Any]) -> PreparedReport:
        """Return what will be trained on what."""
        first = data.epochs(self.recipe.seed).drawn(0)
        batches, waste = summarize_plan(
            first.source.lengths, first.target.lengths, self.recipe.batches, seed=self.recipe.seed, epoch=0
        )
        stages = [sampling_shares(data.sizes, weights, self.corpus.temperature) for weights in self.corpus.weights]
        columns = {"source": data.train.source.lengths, "target": data.train.target.lengths}
        parts, end = [], 0
        for number, (part, rows) in enumerate(zip(self.corpus.parts, data.train.parts, strict=True)):
            start, end = end, end + rows.pairs
            parts.append(
                PartReport(
                    name=part.name,
                    cleaning=data.reports[part.name].to_dict(),
                    valid_pairs=data.valid.parts[number].pairs,
                    test_pairs=len(data.tests.get(part.name, ())),
                    train_tokens={side: int(column[start:end].sum()) for side, column in columns.items()},
                    shares=[shares[number] for shares in stages],
                )
            )
        tokenizers = data.tokenizers
        return PreparedReport(
            corpus=self.corpus.name,
            description=self.corpus.description,
            licence=self.corpus.licence,
            source_language=self.corpus.source_language,
            target_language=self.corpus.target_language,
            cleaning=data.report.to_dict(),
            train_pairs=len(data.train),
            valid_pairs=len(data.valid),
            test_pairs=sum(map(len, data.tests.values())),
            train_tokens={side: sum(part.train_tokens[side] for part in parts) for side in ("source", "target")},
            vocabulary={"source": tokenizers.source.vocab_size, "target": tokenizers.target.vocab_size},
            batches_per_epoch=batches,
            padding_waste={"source": waste[0], "target": waste[1]},
            parameters=count_parameters(model),
            trained_parameters=sum(one.numel() for one in model.parameters() if one.requires_grad),
            parts=parts,
            languages=self.corpus.languages,
            zero_shot=tuple(part.name for part in self.corpus.parts if part.zero_shot),
            fingerprint=data.fingerprint,
            doubts=[asdict(doubt) for doubt in self.doubts],
        )


def _require_languages(data: Mapping[str, Any], where: str = "") -> None:
    """Raise ConfigError where a recipe, or a section of it, names a language by something else than its code."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            _require_languages(value, f"{where}{key}.")
        elif isinstance(value, list | tuple):
            _require_languages({str(number): one for number, one in enumerate(value, start=1)}, f"{where}{key}.")
        elif key in ("source_language", "target_language"):
            require_language(value, f"{where}{key}")


def _warn(*messages: str) -> None:
    """Log the warnings that are not empty, on the first process alone."""
    for message in messages:
        if message and parallel.rank() == 0:
            _logger.warning(message)
