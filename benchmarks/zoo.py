"""Every architecture of the installed transformers against what Locant reads from its config.json.

    .venv/bin/python benchmarks/zoo.py [--seeds 4] [--run build/zoo.jsonl] [--page] [model types ...]

What was compared stands in the file of the run, architecture by architecture: a run that was stopped goes on there.
Model types that are named are compared anew. At the end docs/results/zoo.json and, from that, docs/results/zoo.md are
written about all that the file of the run holds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from transformers import CONFIG_MAPPING  # noqa: E402
from zoo.architectures import architecture  # noqa: E402
from zoo.page import as_json, page  # noqa: E402
from zoo.survey import verdicts  # noqa: E402
from zoo.windows import window_verdicts  # noqa: E402

from locant.rotary_configs.classes import families  # noqa: E402
from measure import machine  # noqa: E402
from zoo_run import VERSIONS, read_run, survey  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def outcomes(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return the outcomes of one architecture."""
    found = architecture(name)
    return [each.as_data() for each in (*verdicts(found, range(seeds)), *window_verdicts(found))]


def _urgency(name: str) -> int:
    """Return a smaller number for what a run that is stopped should have seen: models that rotate, and unknown ones."""
    known = families.model_type(name)
    if known is None:
        return 1
    return 2 if known.text_type else 0 if known.rotates else 3


def main() -> None:
    """Compare what is left, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--page", action="store_true", help="compare nothing, only write the page")
    parser.add_argument("--run", type=Path, default=ROOT / "build" / "zoo.jsonl")
    options = parser.parse_args()

    every = sorted(CONFIG_MAPPING.keys())
    done = read_run(options.run, options.seeds)
    left = options.names or sorted((name for name in every if name not in done), key=_urgency)
    for line in survey(
        options.run, () if options.page else left, options.seeds, partial(outcomes, seeds=options.seeds)
    ):
        done[line["model_type"]] = line
        doubtful = [each for each in line["outcomes"] if each["outcome"] != "right"]
        print(line["model_type"], len(line["outcomes"]), *(f"\n   {json.dumps(each)}" for each in doubtful), flush=True)
    record = {
        **VERSIONS,
        "machine": machine(),
        "seeds": options.seeds,
        "architectures": len(every),
        "not_reached": [name for name in every if name not in done],
        "verdicts": [outcome for name in every if name in done for outcome in done[name]["outcomes"]],
    }
    (RESULTS / "zoo.json").write_text(as_json(record), encoding="utf-8")
    (RESULTS / "zoo.md").write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
