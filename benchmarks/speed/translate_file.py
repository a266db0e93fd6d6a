"""A whole file of mixed lengths: Locant's compiled engine and CTranslate2's translate_file, each in a process of its own.

    python translate_file.py RUN SOURCE REFERENCE --beam 4

RUN is a trained model, SOURCE and REFERENCE are files of sentences; prints a Markdown table with sentences a second,
loading excluded, and BLEU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENGINES = ["locant float32", "locant int8", "ctranslate2 float32", "ctranslate2 int8"]


def locant(run: Path, source: Path, beam: int, compute_type: str) -> tuple[float, list[str]]:
    """Translate by the compiled kernels; returns seconds and translations."""
    from locant.interop import load_translator
    from locant.runtime import keep_freed_memory

    keep_freed_memory()
    translator, _ = load_translator(run, engine="compiled", device="cpu", compute_type=compute_type)
    lines = source.read_text(encoding="utf-8").splitlines()
    translator.translate(lines[:8], beam=beam)
    start = time.perf_counter()
    found = translator.translate(lines, beam=beam)
    return time.perf_counter() - start, found


def ctranslate2(run: Path, source: Path, beam: int, compute_type: str) -> tuple[float, list[str]]:
    """Translate by CTranslate2's own loop over a file of pieces; cutting and joining text counts as for Locant."""
    import ctranslate2 as engine

    from locant.decoding import load_model_folder
    from locant.interop import export_ctranslate2

    tokenizers = load_model_folder(run, device="cpu").tokenizers
    settings = load_model_folder(run, device="cpu").decoding
    ids = {tokenizers.target.piece(index): index for index in range(tokenizers.target.vocab_size)}
    with tempfile.TemporaryDirectory() as folder:
        export_ctranslate2(run, Path(folder, "model"))
        workers = os.cpu_count() or 1
        threads = {"inter_threads": workers, "intra_threads": 1}
        translator = engine.Translator(str(Path(folder, "model")), compute_type=compute_type, **threads)
        start = time.perf_counter()
        lines = source.read_text(encoding="utf-8").splitlines()
        pieces = [[tokenizers.source.piece(index) for index in row] for row in tokenizers.source.encode(lines)]
        Path(folder, "in").write_text("".join(" ".join(row) + "\n" for row in pieces), encoding="utf-8")
        translator.translate_file(
            str(Path(folder, "in")),
            str(Path(folder, "out")),
            beam_size=beam,
            max_batch_size=max(1, settings.batch_tokens // beam),
            batch_type="tokens",
            max_decoding_length=200,
            max_input_length=0,
        )
        written = Path(folder, "out").read_text(encoding="utf-8").splitlines()
        found = tokenizers.target.decode([[ids[piece] for piece in line.split()] for line in written])
        return time.perf_counter() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--engine", choices=ENGINES)
    arguments = parser.parse_args()
    if arguments.engine:
        name, compute_type = arguments.engine.split()
        run = {"locant": locant, "ctranslate2": ctranslate2}[name]
        print(json.dumps(run(arguments.run, arguments.source, arguments.beam, compute_type)))
        return
    import sacrebleu

    references = arguments.reference.read_text(encoding="utf-8").splitlines()
    print(f"{len(references):,} sentences, beam {arguments.beam}\n")
    print("| engine | seconds | sentences/s | BLEU |")
    print("| --- | --- | --- | --- |")
    for engine in ENGINES:
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--engine", engine], capture_output=True, text=True, check=True
        )
        seconds, found = json.loads(done.stdout.strip().splitlines()[-1])
        score = sacrebleu.corpus_bleu(found, [references]).score
        print(f"| {engine} | {seconds:.1f} | {len(found) / seconds:.1f} | {score:.2f} |", flush=True)


if __name__ == "__main__":
    main()
