"""A whole file of mixed lengths: Locant's compiled engine and CTranslate2's translate_file, each in its own process.

    python translate_file.py RUN SOURCE REFERENCE --beam 4

RUN is a trained model, SOURCE and REFERENCE are files of sentences. Both engines sort by length and make batches of
tokens; CTranslate2 runs with its threads in one worker and with one thread a worker. Engines take turns; prints a
Markdown table with medians of sentences a second, loading and a first translation excluded, and BLEU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from locant.runtime import has_fast_bfloat16

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import alone, in_turns, machine, table, warn_when_busy

CORES = os.cpu_count() or 1
BFLOAT16 = ["bfloat16"] if has_fast_bfloat16(torch.device("cpu")) else []
SHARES = sorted({f"{CORES}x1", f"1x{CORES}"})  # workers x threads
ENGINES = [
    *(f"locant {kind}" for kind in ("float32", *BFLOAT16, "int8")),
    *(f"ctranslate2 {kind} {share}" for kind in ("float32", "int8") for share in SHARES),
]


def locant(run: Path, source: Path, beam: int, compute_type: str) -> tuple[float, list[str]]:
    """Translate by the compiled kernels; returns seconds and translations."""
    from locant.runtime import keep_freed_memory
    from locant.translation import load_translator

    keep_freed_memory()
    translator, _ = load_translator(run, engine="compiled", device="cpu", compute_type=compute_type)
    lines = source.read_text(encoding="utf-8").splitlines()
    translator.translate(lines[:8], beam=beam)
    start = time.perf_counter()
    found = translator.translate(lines, beam=beam)
    return time.perf_counter() - start, found


def ctranslate2(run: Path, source: Path, beam: int, compute_type: str, share: str) -> tuple[float, list[str]]:
    """Translate by CTranslate2's own loop over a file of pieces; cutting and joining text counts as for Locant."""
    import ctranslate2 as engine

    from locant.interop import export_ctranslate2
    from locant.models import load_model_folder

    found = load_model_folder(run, device="cpu")
    tokenizers, settings = found.tokenizers, found.decoding
    ids = {tokenizers.target.token(index): index for index in range(tokenizers.target.vocab_size)}
    with tempfile.TemporaryDirectory() as folder:
        export_ctranslate2(run, Path(folder, "model"))
        workers, threads = map(int, share.split("x"))
        translator = engine.Translator(
            str(Path(folder, "model")), compute_type=compute_type, inter_threads=workers, intra_threads=threads
        )

        def cut(lines: list[str]) -> list[list[str]]:
            return [[tokenizers.source.token(index) for index in row] for row in tokenizers.source.encode(lines)]

        size = max(1, settings.batch_tokens // beam)
        search = {"beam_size": beam, "max_batch_size": size, "batch_type": "tokens", "max_input_length": 0}
        lines = source.read_text(encoding="utf-8").splitlines()
        translator.translate_batch(cut(lines[:8]), **search)
        start = time.perf_counter()
        rows = cut(lines)
        Path(folder, "in").write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")
        # All of it is read, and sorted, at once, as Locant does.
        translator.translate_file(
            str(Path(folder, "in")),
            str(Path(folder, "out")),
            read_batch_size=sum(len(row) + 1 for row in rows),
            max_decoding_length=200,
            **search,
        )
        written = Path(folder, "out").read_text(encoding="utf-8").splitlines()
        translations = tokenizers.target.decode([[ids[piece] for piece in line.split()] for line in written])
        return time.perf_counter() - start, translations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, help="run this one alone and print its seconds and translations")
    arguments = parser.parse_args()
    if arguments.engine:
        name, *options = arguments.engine.split()
        run = {"locant": locant, "ctranslate2": ctranslate2}[name]
        print(json.dumps(run(arguments.run, arguments.source, arguments.beam, *options)))
        return
    import sacrebleu

    warn_when_busy()
    references = arguments.reference.read_text(encoding="utf-8").splitlines()
    print(f"{machine()}. {len(references):,} sentences, beam {arguments.beam}\n")
    engines = {name: partial(alone, __file__, *sys.argv[1:], "--engine", name) for name in ENGINES}
    rows = []
    for engine, results in in_turns(engines, arguments.rounds).items():
        seconds = [took for took, _ in results]
        median = statistics.median(seconds)
        bleu = sacrebleu.corpus_bleu(results[-1][1], [references]).score
        reach = f"{min(seconds):.1f} to {max(seconds):.1f}"
        rows.append([engine, f"{median:.1f}", reach, f"{len(references) / median:.1f}", f"{bleu:.2f}"])
    print(table(["engine", "seconds", "lowest to highest", "sentences/s", "BLEU"], rows))


if __name__ == "__main__":
    main()
