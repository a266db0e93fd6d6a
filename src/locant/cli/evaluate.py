"""``locant evaluate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from locant.cli.arguments import require_both
from locant.cli.translator_options import add_translator_options, load, search_overrides
from locant.errors import UsageError
from locant.languages import find_language

_EPILOG = """examples:
  locant evaluate runs/bible
  locant evaluate runs/en-de --source test.en --target test.de --save hypotheses.de
  locant evaluate runs/en-de --split valid --compute-type int8
  locant evaluate runs/several --source-language de --target-language fr"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("model", type=Path, metavar="RUN", help="folder of a run, or of a model with --source and --target")
    add("--split", choices=("test", "valid"), help="of the run's corpus; default test where there is one")
    add("--part", metavar="NAME", help="one part of the run's corpus alone, or one direction: en-de")
    add("--source", type=Path, metavar="FILE", help="source sentences instead of the run's corpus")
    add("--target", type=Path, metavar="FILE", help="their reference translations")
    add("--save", type=Path, metavar="FILE", help="write the hypotheses here, one a line")
    add("--tokenize", metavar="NAME", help="sacreBLEU's tokenizer, as 13a, char or zh; default by the language")
    add_translator_options(parser)


def run(options: argparse.Namespace) -> None:
    """Evaluate."""
    require_both(options)
    for option in ("split", "part"):
        if options.source and getattr(options, option):
            raise UsageError(f"--{option} chooses from the run's own corpus; leave it out with --source and --target.")

    from locant.cli.console import PlainConsole, WorkBar, print_table
    from locant.files import write_text
    from locant.training import evaluate

    translator, overrides = load(options, choose=bool(options.source)), search_overrides(options)
    named, part = (options.source_language, options.target_language), options.part
    if any(named) and not options.source and translator.tokenizers.languages:
        if not all(named):
            raise UsageError("--source-language and --target-language go together: they name one of the directions.")
        if part:
            raise UsageError("--part names the text already; leave --source-language and --target-language out.")
        known = translator.tokenizers.languages.ids
        part = "-".join(find_language(code, known) or code for code in named)
    elif any(named) and not options.source:
        translator.choose_languages(*named)
    with WorkBar("translating"):
        result = evaluate(
            options.model,
            options.split,
            part=part,
            source=options.source,
            target=options.target,
            translator=translator,
            tokenize=options.tokenize,
            **overrides,
        )
    if options.save:
        write_text(options.save, "".join(line + "\n" for line in result.hypotheses))

    scores = {"this model": result.scores, "copying the source": result.copy_scores}
    for name, part in result.parts.items():
        scores[f"this model, {name}{', zero-shot' if part.zero_shot else ''}"] = part.scores
    console = PlainConsole()
    what = f"{result.name}: {len(result.hypotheses):,} sentences in {result.seconds:.1f} s"
    console.say(f"{what}, beam {result.beam}, {result.engine}")
    rows = ((name, f"{each.bleu:.1f}", f"{each.chrf:.1f}") for name, each in scores.items())
    print_table(console, ("", "BLEU", "chrF"), rows, ruled=False)
    for note in result.notes:
        console.say(note)
    console.say(f"BLEU signature {result.scores.bleu_signature}\nchrF signature {result.scores.chrf_signature}")
