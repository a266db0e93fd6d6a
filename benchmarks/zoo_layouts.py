"""Small checkpoints of every architecture of the installed transformers, in the other rotary layout and back.

    .venv/bin/python benchmarks/zoo_layouts.py [--seeds 2] [--run build/layouts.jsonl] [--page] [model types ...]

What was converted stands in the file of the run, architecture by architecture: a run that was stopped goes on there.
Model types that are named are converted anew. At the end docs/results/layouts.json and, from that,
docs/results/layouts.md are written about all that the file of the run holds.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # some classes ask the Hub for missing files, and wait for minutes
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from transformers import CONFIG_MAPPING  # noqa: E402
from zoo.architectures import architecture  # noqa: E402
from zoo.layouts import as_json, conversions, page  # noqa: E402

from measure import machine  # noqa: E402
from zoo_run import VERSIONS, read_run, survey  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def outcomes(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return the outcomes of one architecture."""
    return [each.as_data() for each in conversions(architecture(name), range(seeds))]


def main() -> None:
    """Convert what is left, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="convert nothing, only write the page")
    parser.add_argument("--run", type=Path, default=ROOT / "build" / "layouts.jsonl")
    options = parser.parse_args()

    every = sorted(CONFIG_MAPPING.keys())
    done = read_run(options.run, options.seeds)
    left = options.names or [name for name in every if name not in done]
    for line in survey(
        options.run, () if options.page else left, options.seeds, partial(outcomes, seeds=options.seeds)
    ):
        done[line["model_type"]] = line
        for each in line["outcomes"]:
            said = each["reason"] or f"{each['difference']:.1e} of {each['largest']:.1e}"
            print(each["model_type"], each["seed"], each["outcome"], said, flush=True)
    record = {
        **VERSIONS,
        "machine": machine(),
        "architectures": len(every),
        "not_reached": [name for name in every if name not in done],
        "conversions": [each for name in every if name in done for each in done[name]["outcomes"]],
    }
    (RESULTS / "layouts.json").write_text(as_json(record), encoding="utf-8")
    (RESULTS / "layouts.md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
