"""What ``train``, ``evaluate-context`` and ``compare`` say while they work."""

from __future__ import annotations

from locant.cli.console import PlainConsole, WorkBar, format_duration, print_table
from locant.extension.evaluate.evaluation import EvaluationCallback
from locant.lab.comparison import Job
from locant.lab.runner import ComparisonCallback
from locant.training import Choice, PreparedReport, Recipe, StepReport, TrainingCallback, TrainingPlan, ValidationReport
from locant.training.defaults import format_passes


class TrainingProgress(WorkBar, TrainingCallback):
    """Progress of ``locant train``.

    Args:
        recipe: Of a run that begins.
    """

    def __init__(self, recipe: Recipe | None) -> None:
        super().__init__()
        self._recipe = recipe
        self._step = 0
        self._numbers = self._preparing = ""

    def on_preparing(self, what: str, share: float) -> None:
        """Show how far it is."""
        if what != self._preparing:
            self.remove(self._preparing)
            self._preparing = what
        self.show(share, before=what, task=what)

    def on_plan(self, plan: TrainingPlan) -> None:
        """Show what was chosen, and what is to be expected."""
        self.remove(self._preparing)
        show_plan(plan, self.console)
        self._recipe = None

    def on_chosen(self, choice: Choice) -> None:
        """Show what was chosen."""
        self.remove(self._preparing)
        self.console.say(f"{choice.key} {choice.value}: {choice.reason}")

    def on_prepared(self, report: PreparedReport) -> None:
        """Show what will be trained on what."""
        self.remove(self._preparing)
        if self._recipe:
            show_refusals(self._recipe, self.console)
        self.console.print(report.corpus, style="bold", end="")
        self.console.say(f": {report.description}")
        cleaning, several = report.cleaning, len(report.parts) > 1
        # One column for each part of a mixture, and for all of it.
        columns = {
            **{part.name: part.cleaning for part in report.parts if several},
            "all" if several else "count": cleaning,
        }
        rows = []
        for label in ("total", *cleaning["removed"], "kept"):
            counts = [{**column["removed"], **column}[label] for column in columns.values()]
            rows.append([label, *(f"{count:,}" for count in counts)])
        stages = len(report.parts[0].shares) if several else 0
        for stage in range(stages):
            label = f"drawn, stage {stage + 1}" if stages > 1 else "drawn"
            rows.append([label, *(f"{part.shares[stage]:.1%}" for part in report.parts), ""])
        print_table(self.console, ("training pairs", *columns), rows, names=1, ruled=False)
        vocabulary, waste = report.vocabulary, report.padding_waste
        frozen = report.trained_parameters < report.parameters
        trained = f", of which {report.trained_parameters:,} are trained" if frozen else ""
        self.console.print(
            f"validation {report.valid_pairs:,} pairs, test {report.test_pairs:,} pairs\n"
            f"vocabulary {vocabulary['source']:,} source and {vocabulary['target']:,} target subwords\n"
            f"{report.batches_per_epoch:,} batches an epoch, padding {waste['source']:.1%} of source and "
            f"{waste['target']:.1%} of target cells\n"
            f"model {report.parameters / 1e6:.1f} million parameters{trained}"
        )

    def on_start(self, done: float, device: str) -> None:
        """Show the bar."""
        self.console.print(f"Training on {device}.")
        self.show(done, before=f"step {self._step:>6}", lines=False)

    def on_step(self, done: float, report: StepReport | None) -> None:
        """Move the bar; every ``log_every`` steps renew its numbers."""
        self._step += 1
        if report:
            self._step, speed, rate = report.step, report.tokens_per_second, report.learning_rate
            self._numbers = f"loss {report.loss:.3f}  {speed:,.0f} tokens/s  learning rate {rate:.2e}"
            if not self.console.is_terminal:
                self.console.say(f"step {report.step:>6}  {100 * done:>3.0f}%  {self._numbers}")
        self.show(done, self._numbers, before=f"step {self._step:>6}", lines=False)

    def on_stage(self, number: int, count: int) -> None:
        """Write a line that stays."""
        self.console.say(f"stage {number} of {count} of the corpus")

    def on_validation(self, report: ValidationReport) -> None:
        """Write a line that stays."""
        scores = "" if report.bleu is None else f"   BLEU {report.bleu:.1f}   chrF {report.chrf:.1f} (greedy)"
        best = "   best so far" if report.best else ""
        self.console.say(f"validation at step {report.step}: loss {report.loss:.3f}{scores}{best}")
        if report.parts:
            parts = "   ".join(f"{name} {bleu:.1f}" for name, bleu in report.parts.items())
            self.console.say(f"    BLEU by part: {parts}")


def show_plan(plan: TrainingPlan, console: PlainConsole) -> None:
    """Show what the recipe left open and a forecast of the training."""
    if plan.choices:
        shown = [f"{each.value:g}" if isinstance(each.value, float) else str(each.value) for each in plan.choices]
        rows = [(each.key, value, each.reason) for each, value in zip(plan.choices, shown, strict=True)]
        print_table(console, ("chosen", "value", "because"), rows, ruled=False)
    if "usual_source_length" not in plan.recipe.decoding.model_fields_set:
        console.say("decoding.usual_source_length is chosen when all the text has been tokenised")
    kept = f"{plan.pairs:,} pairs" + (f" (cleaning removes {plan.removed:,})" if plan.removed else "")
    console.say(
        f"expected: {plan.steps:,} updates in about {format_duration(plan.seconds)}, {format_passes(plan.epochs)} "
        f"passes over {kept}; {plan.parameters / 1e6:.1f} million parameters at {plan.tokens_per_second:,.0f} target "
        f"tokens a second, {plan.memory / 1e9:.1f} GB of memory"
    )
    show_refusals(plan.recipe, console)


def show_refusals(recipe: Recipe, console: PlainConsole) -> None:
    """Say to which formats the model cannot be exported, while it can still be another."""
    from locant.interop.refusals import export_refusals

    if recipe.finetuning:
        return
    several = recipe.corpus.kind == "languages" or (recipe.corpus.kind == "bible" and recipe.corpus.languages)
    for name, reason in export_refusals(recipe.sized_model(8, 8), several_languages=bool(several)).items():
        console.say(f"no export to {name}: {reason}")


class EvaluationProgress(WorkBar, EvaluationCallback):
    """Progress of ``locant evaluate-context``."""

    def on_plan(self, measurements: int, kept: int) -> None:
        """Say what is to come, and show the bar."""
        if kept == measurements:
            self.console.print(f"All {measurements:,} measurements are there already.")
            return
        from_before = f", of which {kept:,} are there already" if kept else ""
        self.console.print(f"{measurements:,} measurements{from_before}. Ctrl-C loses nothing.")
        self.show(0.0)

    def on_progress(self, done: float, what: str) -> None:
        """Move the bar."""
        self.show(done, what)


class ComparisonProgress(WorkBar, ComparisonCallback):
    """Progress of ``locant compare``: a bar for every trial that runs, and one for all."""

    _done, _all = 0, 1

    def on_start(self, waiting: int, finished: int, at_once: int) -> None:
        """Say how much there is to do."""
        self._all = waiting
        done = f"{finished} are finished already; " if finished else ""
        self.console.print(f"{done}{waiting} trials to run, {at_once} at once.")

    def on_progress(self, job: Job, share: float) -> None:
        """Move a trial's bar."""
        self.show(share, before=str(job), task=job, lines=False)

    def on_end(self, job: Job, error: str) -> None:
        """Write a line that stays."""
        self.remove(job)
        self._done += bool(job.variant)
        number = f"{self._done}/{self._all} " if job.variant else ""
        self.console.say(f"{number}{job}: {f'FAILED: {error}' if error else 'done'}")
        if job.variant:
            self.show(self._done / self._all, before="all trials", lines=False)
