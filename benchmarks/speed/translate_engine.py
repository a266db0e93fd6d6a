"""One engine's translation speed, alone in its process: prints a JSON object.

Every engine translates sentences of 25 tokens into exactly 25 tokens, with random weights (the embedding of the end
mark is zero, so that it never wins).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from locant.runtime import prepare_threads

if "locant" in sys.argv:  # as its command line does, before torch is loaded
    prepare_threads()

import torch
from shapes import LENGTH, SHAPES, Shape, locant_model, marian_model

from locant.runtime import has_fast_bfloat16, keep_freed_memory
from locant.text import BOS, EOS, PAD

Translate = Callable[[list[list[int]]], list[list[int]]]


def _model(shape: Shape) -> torch.nn.Module:
    model = locant_model(shape).eval()
    with torch.no_grad():
        model.target_embedding.weight[EOS] = 0
    return model


def locant(shape: Shape, beam: int, variant: str) -> Translate:
    """Locant's search; variants: pytorch (float32), and its compiled kernels in float32, bfloat16 and int8."""
    from locant.models import DecodingSettings
    from locant.translation import CompiledEngine, PyTorchEngine

    keep_freed_memory()
    model = _model(shape)
    engine = PyTorchEngine(model) if variant == "pytorch" else CompiledEngine(model, variant)
    settings = DecodingSettings(beam=beam, batch_tokens=10_000_000)  # all in one batch

    def translate(sources: list[list[int]]) -> list[list[int]]:
        found = dict(engine.translate(sources, [LENGTH] * len(sources), (BOS,), settings))
        return [found[number][0].tokens for number in range(len(sources))]

    return translate


def ctranslate2(shape: Shape, beam: int, variant: str) -> Translate:
    """CTranslate2; variants: TYPE-WORKERSxTHREADS, as in int8-1x2."""
    import ctranslate2 as engine
    from ctranslate2 import specs

    from locant.translation.ctranslate2 import transformer_spec

    compute, workers = variant.split("-")
    inter, intra = map(int, workers.split("x"))
    spec = transformer_spec(_model(shape), 64, specs)
    pieces = [f"t{index}" for index in range(shape.vocabulary)]
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "t0", pieces[BOS], pieces[EOS]
    spec.config.decoder_start_token = pieces[BOS]
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=compute)
    folder = tempfile.mkdtemp()
    spec.save(folder)
    translator = engine.Translator(folder, compute_type=compute, inter_threads=inter, intra_threads=intra)

    def translate(sources: list[list[int]]) -> list[list[int]]:
        batch = max(1, -(-len(sources) // inter))
        found = translator.translate_batch(
            [[pieces[token] for token in source] for source in sources],
            beam_size=beam,
            max_batch_size=batch,
            max_decoding_length=LENGTH,
            min_decoding_length=1,
        )
        return [[int(piece[1:]) for piece in one.hypotheses[0]] for one in found]

    return translate


def transformers(shape: Shape, beam: int, variant: str) -> Translate:
    """MarianMTModel.generate of Hugging Face transformers; variants: float32, bfloat16."""
    model = marian_model(shape, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=BOS)
    model.final_logits_bias[0, EOS] = -1e4
    model = model.to(getattr(torch, variant))

    def translate(sources: list[list[int]]) -> list[list[int]]:
        with torch.inference_mode():
            out = model.generate(torch.tensor(sources), num_beams=beam, do_sample=False, max_new_tokens=LENGTH)
        return [row[1:] for row in out.tolist()]

    return translate


ENGINES = {"locant": locant, "ctranslate2": ctranslate2, "transformers": transformers}


def variants(engine: str) -> list[str]:
    """Return the ways in which an engine is run, of which the best counts."""
    bfloat16 = ["bfloat16"] if has_fast_bfloat16(torch.device("cpu")) else []
    match engine:
        case "ctranslate2":
            return ["int8-1x1", "int8-1x2", "int8-2x1", "float32-2x1"]
        case "locant":
            return ["pytorch", "float32", *bfloat16, "int8"]
        case _:
            return ["float32", *bfloat16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("variant")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    torch.manual_seed(0)
    translate = ENGINES[arguments.engine](shape, arguments.beam, arguments.variant)
    generator = torch.Generator().manual_seed(1)
    times: list[float] = []
    while len(times) < 5 or sum(times) < arguments.seconds:
        sources = torch.randint(4, shape.vocabulary, (arguments.batch, LENGTH), generator=generator).tolist()
        start = time.perf_counter()
        found = translate(sources)
        times.append(time.perf_counter() - start)
        assert [len(tokens) for tokens in found] == [LENGTH] * arguments.batch, "an engine wrote another length"
    seconds = statistics.median(times[2:])
    tokens = arguments.batch * LENGTH
    result = {
        "tokens_per_second": tokens / seconds,
        "gigaflops": tokens * shape.decoding_flops(LENGTH) / seconds / 1e9,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calls": len(times),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
