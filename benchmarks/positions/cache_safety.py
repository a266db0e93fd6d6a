"""Logits with a key-value cache against logits of one pass, Hugging Face and Locant, as the text grows.

Both run the same random Llama, with scalings whose frequencies depend on the length of the text. A difference means
that the same model gives another answer when it generates than when it reads.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests" / "support")]
from small_llama import logits, one_by_one, small_llama

from locant.positions import Rotary
from locant.positions.scaling import DynamicNTK, LongRoPE
from measure import header, row

ORIGINAL, PROMPT = 64, 60
SHORT, LONG = tuple(1.0 + i / 16 for i in range(8)), tuple(1.5 + i / 2 for i in range(8))
CASES = {
    "dynamic NTK": (
        {"rope_type": "dynamic", "factor": 2.0},
        ORIGINAL,
        DynamicNTK(original_length=ORIGINAL, factor=2.0, length_step=16),
    ),
    "LongRoPE": (
        {
            "rope_type": "longrope",
            "short_factor": list(SHORT),
            "long_factor": list(LONG),
            "factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
        },
        4 * ORIGINAL,
        LongRoPE(short_factors=SHORT, long_factors=LONG, original_length=ORIGINAL, factor=4.0),
    ),
}


@torch.no_grad()
def hugging_face(model: transformers.PreTrainedModel, ids: torch.Tensor) -> float:
    full = model(ids, use_cache=False).logits[:, -1]
    state = model(ids[:, :PROMPT], use_cache=True)
    for i in range(PROMPT, ids.shape[1]):
        state = model(ids[:, i : i + 1], past_key_values=state.past_key_values, use_cache=True)
    return float((state.logits[:, -1] - full).abs().max())


def main() -> None:
    print(
        "Largest difference of the last token's logits, with a cache against one pass. Random Llama of 2 layers,\n"
        f"trained length {ORIGINAL}, prompt of {PROMPT} tokens, float32; transformers {transformers.__version__}, "
        f"torch {torch.__version__}.\n"
    )
    print(header("scaling", "length", "Hugging Face", "Locant"))
    for name, (parameters, declared, scaling) in CASES.items():
        model, rope = small_llama(parameters, max_length=declared), Rotary(16, scaling=scaling)
        for length in (64, 65, 96, 128, 256):
            ids = torch.randint(50, (1, length), generator=torch.Generator().manual_seed(1))
            ours = (one_by_one(model, rope, ids, PROMPT)[:, -1] - logits(model, rope, ids)[:, -1]).abs().max()
            print(row(name, length, f"{hugging_face(model, ids):.1e}", f"{float(ours):.1e}"), flush=True)


if __name__ == "__main__":
    main()
