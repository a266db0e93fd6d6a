"""Small checkpoints of every architecture of the installed transformers, in the other rotary layout and back.

    .venv/bin/python benchmarks/zoo_layouts.py [--seeds 2] [--processes 2] [model types ...]

Without model types it writes docs/results/layouts.json and, from that, docs/results/layouts.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from zoo.architectures import architecture  # noqa: E402
from zoo.layouts import as_json, conversions, page  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def survey(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return the outcomes of one architecture."""
    return [each.as_data() for each in conversions(architecture(name), range(seeds))]


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()

    import transformers

    names = options.names or sorted(transformers.CONFIG_MAPPING.keys())
    found = []
    with ProcessPoolExecutor(options.processes) as pool:
        for name, outcomes in zip(names, pool.map(partial(survey, seeds=options.seeds), names), strict=True):
            found += outcomes
            for each in outcomes:
                said = each["reason"] or f"{each['difference']:.1e} of {each['largest']:.1e}"
                print(name, each["seed"], each["outcome"], said, flush=True)
    if not options.names:
        record = {"transformers": transformers.__version__, "conversions": found}
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "layouts.json").write_text(as_json(json.loads(json.dumps(record))), encoding="utf-8")
        (RESULTS / "layouts.md").write_text(page(json.loads(as_json(record))), encoding="utf-8")


if __name__ == "__main__":
    main()
