"""A teacher, its distilled student, and the same small model trained on the original text: scores and speed.

Usage: python benchmarks/distillation.py FOLDER, with the runs that `make distillation` leaves in it: teacher, student
and undistilled. Every model translates the teacher's test text, greedily and with a beam of four, in turns with the
others, with the engine that `locant evaluate` takes; the shortest time of the rounds counts.
The record is FOLDER/distillation.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from locant.models.model_folder import load_model_folder
from locant.models.transformer import count_parameters
from locant.training import Evaluation, evaluate
from locant.translation import load_translator
from measure import machine, table, warn_when_busy, write_record

RUNS = {
    "teacher": "teacher",
    "student": "student, distilled",
    "undistilled": "the same small model, original text",
}
BEAMS = (4, 1)
ROUNDS = 3


def main() -> None:
    """Measure and print the table."""
    folder = Path(sys.argv[1])
    warn_when_busy()
    translators = {name: load_translator(folder / name, engine="auto")[0] for name in RUNS}
    best: dict[tuple[str, int], Evaluation] = {}
    for _ in range(ROUNDS):
        for beam in BEAMS:
            for name, translator in translators.items():
                found = evaluate(folder / name, "test", translator=translator, beam=beam)
                if (name, beam) not in best or found.seconds < best[name, beam].seconds:
                    best[name, beam] = found
    teacher = best["teacher", BEAMS[0]]
    if any(found.sources != teacher.sources for found in best.values()):
        sys.exit("The runs have different tests; train them as `make distillation` does.")
    rows, shown = [], []
    for name, label in RUNS.items():
        millions = count_parameters(load_model_folder(folder / name, device="cpu").model) / 1e6
        for beam in BEAMS:
            found = best[name, beam]
            speed, times = len(found.sources) / found.seconds, teacher.seconds / found.seconds
            scores = {"bleu": round(found.scores.bleu, 2), "chrf": round(found.scores.chrf, 2)}
            rows.append({"model": label, "beam": beam, **scores, "sentences_per_second": speed, "speed": times})
            cells = (f"{scores['bleu']:.1f}", f"{scores['chrf']:.1f}", f"{speed:,.0f}", f"{times:.1f}")
            shown.append([label, f"{millions:.1f} million", beam, *cells])
    print(table(["model", "parameters", "beam", "BLEU", "chrF", "sentences/s", "speed"], shown))
    facts = {"engine": teacher.engine, "signature": teacher.scores.bleu_signature}
    print(f"\n{len(teacher.sources)} sentences, {'; '.join(facts.values())}; {machine()}")
    write_record(folder / "distillation.json", rows=rows, **facts)


if __name__ == "__main__":
    main()
