"""What the machine itself can do, alone in its process: prints a JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.runtime import has_fast_bfloat16, keep_freed_memory
from measure import median_seconds


def main() -> None:
    keep_freed_memory()
    size = 2048
    found = {}
    kinds = [torch.float32] + ([torch.bfloat16] if has_fast_bfloat16(torch.device("cpu")) else [])
    for kind in kinds:
        one, other = (torch.randn(size, size).to(kind) for _ in range(2))
        out = torch.empty(size, size, dtype=kind)
        seconds = median_seconds(lambda one=one, other=other, out=out: torch.mm(one, other, out=out))
        found[f"matmul_{str(kind).removeprefix('torch.')}_gigaflops"] = 2 * size**3 / seconds / 1e9
    source = torch.randn(64 << 18)
    target = torch.empty_like(source)
    found["copy_gigabytes_per_second"] = 2 * source.nbytes / median_seconds(lambda: target.copy_(source)) / 1e9
    print(json.dumps(found))


if __name__ == "__main__":
    main()
