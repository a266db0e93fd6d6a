"""``locant extend``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from locant.cli.arguments import add_device, add_output, parse_length
from locant.errors import UsageError

if TYPE_CHECKING:
    from locant.extension.extend.extend import ExtendedModel
    from locant.extension.extend.finetune import FineTuning, FineTuningStep
    from locant.extension.extend.folder import MeasuredMethod

_EPILOG = """examples:
  locant extend models/llama --to 32k                          (writes the folder llama-32k)
  locant extend models/llama --to 32768 --method auto --text book.txt -o models/llama-32k
  locant extend smollm2 --to 16384 -o smollm2-16k
  locant extend smollm2 --to 16384 --finetune books.txt --steps 200 --device cuda -o smollm2-16k

The method auto measures {measured} on a text, and takes the best."""

_WITH_FINETUNE = ("steps", "length", "full", "rank", "learning_rate", "save_every")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from locant.extension.extend.methods import AUTO, DEFAULT, extension_methods

    methods = extension_methods()
    parser.epilog = _EPILOG.format(measured=", ".join(name for name in methods if methods[name].comparable))
    parser.add_argument("model", metavar="MODEL", help="folder, GGUF file, 'smollm2', or id on Hugging Face's Hub")
    parser.add_argument("--to", required=True, type=parse_length, metavar="N", help="tokens to read; 32k is 32768")
    parser.add_argument("--method", default=DEFAULT, choices=(AUTO, *methods), help=f"how (default: {DEFAULT})")
    add_output(parser, "FOLDER", "new folder to write (default: NAME-8k, after MODEL and --to)")
    what = "of the result (default: that of MODEL, if not trained)"
    parser.add_argument("--format", choices=("huggingface", "gguf"), help=what)
    parser.add_argument("--text", type=Path, nargs="+", default=[], metavar="FILE", help="what auto measures on")
    add_device(parser, "for auto and --finetune: ")
    training = parser.add_argument_group("training on long texts")
    training.add_argument("--finetune", type=Path, nargs="+", metavar="TEXT", help="files of text to train on")
    training.add_argument("--steps", type=int, metavar="N", help="updates, each from one piece of text")
    what = "tokens of a piece (default: --to; with drope as before)"
    training.add_argument("--length", type=parse_length, metavar="N", help=what)
    training.add_argument("--full", action="store_true", default=None, help="train all weights instead of LoRA")
    training.add_argument("--rank", type=int, metavar="N", help="of LoRA (default: 16)")
    training.add_argument("--learning-rate", type=float, metavar="X", help="(default: 2e-4, with --full 2e-5)")
    training.add_argument("--save-every", type=int, metavar="N", help="steps between saved states (default: 50)")


def run(options: argparse.Namespace) -> None:
    """Extend a model and say what was done."""
    finetuning = _finetuning(options)
    if options.text and options.method != "auto":
        raise UsageError("--text goes with --method auto only.")

    from locant.cli.console import WorkBar
    from locant.extension.extend.extend import extend_model
    from locant.runtime import choose_device

    with WorkBar("extending") as bar:

        def measured(found: MeasuredMethod) -> None:
            bar.console.say(
                f"{found.method:<9} perplexity {found.short:>9.3f} at the original length, {found.long:>9.3f} at "
                f"{options.to} tokens or all of the text"
            )

        def trained(step: FineTuningStep) -> None:
            numbers = f"of {step.steps}  loss {step.loss:.4f}"
            bar.show(step.step / step.steps, numbers, before=f"step {step.step:>6}")

        extended = extend_model(
            options.model,
            options.output or _default_output(options.model, options.to),
            options.to,
            method=options.method,
            format=options.format,
            texts=options.text,
            finetuning=finetuning,
            device=choose_device(options.device),
            on_measured=measured,
            on_step=trained,
        )
    _print(extended)


def _default_output(model: str, length: int) -> Path:
    path = Path(model)
    name = path.stem if path.suffix == ".gguf" else path.resolve().name if path.exists() else path.name
    return Path(f"{name}-{length // 1024}k" if length % 1024 == 0 else f"{name}-{length}")


def _finetuning(options: argparse.Namespace) -> FineTuning | None:
    given = {name: getattr(options, name) for name in _WITH_FINETUNE if getattr(options, name) is not None}
    if not options.finetune:
        if given:
            raise UsageError(f"--{next(iter(given)).replace('_', '-')} goes with --finetune only.")
        return None
    if "steps" not in given:
        raise UsageError("--finetune needs --steps, the number of updates.")
    if given.pop("full", False):
        if "rank" in given:
            raise UsageError("--rank is LoRA's, which --full does without.")
        given["kind"] = "full"

    from locant.extension.extend.finetune import FineTuning

    return FineTuning.parse({"texts": options.finetune, **given}, "--finetune")


def _print(extended: ExtendedModel) -> None:
    report = extended.report
    print(
        f"{extended.path} is written: {report.model} from {report.original_length} to {report.target_length} tokens "
        f"by {report.method}."
    )
    if report.instead_of:
        print(report.why_instead)
    if report.measurements:
        print(
            f"{report.method} was chosen: of the methods whose perplexity at {report.lengths[1]} tokens is within 1% "
            f"of the best, it is the best at {report.lengths[0]}."
        )
    print(f"See {extended.path / 'README.md'} for what changed, and try: locant inspect {extended.model}")
