"""Every architecture of the installed transformers against what Locant reads from its config.json.

    .venv/bin/python benchmarks/zoo.py [--seeds 4] [--processes 2] [model types ...]

Without model types it writes docs/results/zoo.json and, from that, docs/results/zoo.md.
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
from zoo.survey import as_json, page, verdicts  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def survey(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return the outcomes of one architecture."""
    return [each.as_data() for each in verdicts(architecture(name), range(seeds))]


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()

    import transformers

    names = options.names or sorted(transformers.CONFIG_MAPPING.keys())
    found = []
    with ProcessPoolExecutor(options.processes) as pool:
        for name, outcomes in zip(names, pool.map(partial(survey, seeds=options.seeds), names), strict=True):
            found += outcomes
            wrong = [each for each in outcomes if each["outcome"] in ("wrong", "refused")]
            print(name, len(outcomes), *(f"\n   {json.dumps(each)}" for each in wrong), flush=True)
    if not options.names:
        record = {"transformers": transformers.__version__, "verdicts": found}
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "zoo.json").write_text(as_json(record), encoding="utf-8")
        (RESULTS / "zoo.md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
