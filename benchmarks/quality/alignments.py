"""Word alignments by a model's attention against those of the statistical aligner eflomal, layer by layer.

    python alignments.py runs/bible-german-english

eflomal (Östling and Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo") learns from the training
and test text of the run, in both directions, which are made symmetric by grow-diag-final-and (Koehn et al. 2005); the
test text counts. It reads lower-case words without the punctuation at their ends, as many as white space separates, so
that both align the same words. Needs the package eflomal, which pip compiles: a C compiler, Cython and NumPy.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.models.encoder_decoder import AlignmentStep
from locant.text.links import Links, grow_diag_final_and
from locant.training import load_run_recipe
from locant.translation import Translator
from measure import header, machine, row

Pairs = list[tuple[str, str]]


def eflomal_links(pairs: Pairs) -> list[tuple[Links, Links]]:
    """Return the links of each pair in both directions, as (source, target)."""
    import eflomal

    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in ("source", "target", "forward", "reverse")}
        for side, name in enumerate(("source", "target")):
            lines = (" ".join(map(_plain, pair[side].split())) + "\n" for pair in pairs)
            paths[name].write_text("".join(lines), encoding="utf-8")
        with paths["source"].open(encoding="utf-8") as source, paths["target"].open(encoding="utf-8") as target:
            eflomal.Aligner().align(
                source,
                target,
                links_filename_fwd=str(paths["forward"]),
                links_filename_rev=str(paths["reverse"]),
                quiet=True,
            )
        found = [
            [{tuple(map(int, link.split("-"))) for link in line.split()} for line in paths[name].open(encoding="utf-8")]
            for name in ("forward", "reverse")
        ]
    return list(zip(*found, strict=True))  # type: ignore[arg-type]


def _plain(word: str) -> str:
    """Return a word for counting: lower case, no punctuation at its ends unless there is nothing else."""
    return re.sub(r"^[\W_]+|[\W_]+$", "", word.lower()) or word


def show(name: str, found: list[Links], sure: list[Links], possible: list[Links] | None = None) -> None:
    """Print alignment error rate, precision, recall and number of links, over all sentences (Och and Ney 2003)."""
    allowed = [one | other for one, other in zip(sure, possible or sure, strict=True)]
    links, wanted = (sum(map(len, of)) for of in (found, sure))
    right, fitting = (sum(len(a & b) for a, b in zip(found, of, strict=True)) for of in (sure, allowed))
    rates = (1 - (right + fitting) / (links + wanted), fitting / links, right / wanted)
    print(row(name, *(f"{rate:.3f}" for rate in rates), f"{links:,}"))


def main() -> int:
    """Align and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run with a test text")
    options = parser.parse_args()
    corpus = load_run_recipe(options.run).open_corpus()
    (part,) = corpus.parts
    if part.test is None:
        parser.error(f"{options.run} has no test text")
    test: Pairs = list(part.test)
    translator = Translator.from_pretrained(options.run, device="cpu")
    begun = time.process_time()
    links = eflomal_links([*part.train, *test])[-len(test) :]
    print(f"eflomal: {time.process_time() - begun:.0f} s of processor time", file=sys.stderr)
    reference = [grow_diag_final_and(*each) for each in links]
    sure, possible = [a & b for a, b in links], [a | b for a, b in links]

    sources, targets = [source for source, _ in test], [target for _, target in test]
    print(header("links", "alignment error rate", "precision", "recall", "links"))
    steps: tuple[AlignmentStep, ...] = get_args(AlignmentStep)
    for layer in range(translator.model.config.decoder_layers):  # type: ignore[attr-defined]
        for step in steps:
            found = [set(each.links) for each in translator.align(sources, targets, layer=layer, step=step)]
            show(f"layer {layer + 1}, the step that {step} a word", found, reference)
    begun = time.process_time()
    chosen = [set(each.links) for each in translator.align(sources, targets)]
    seconds = time.process_time() - begun
    show("**what `align` takes**", chosen, reference)
    show("the same; sure: both directions of eflomal, possible: either", chosen, sure, possible)
    show("eflomal, source to target alone", [a for a, _ in links], reference)
    show("eflomal, target to source alone", [b for _, b in links], reference)
    print(f"\n{len(test)} pairs; attention: {seconds:.1f} s of processor time; {machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
