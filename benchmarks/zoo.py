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
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from zoo.architectures import architecture  # noqa: E402
from zoo.page import as_json, page  # noqa: E402
from zoo.survey import verdicts  # noqa: E402

from locant.rotary_configs import families  # noqa: E402
from measure import machine  # noqa: E402

RESULTS = ROOT / "docs" / "results"


def survey(name: str, seeds: int, versions: dict[str, str]) -> dict[str, Any]:
    """Return the line of a run about one architecture: its outcomes, and what they were seen with."""
    start = time.perf_counter()
    outcomes = [each.as_data() for each in verdicts(architecture(name), range(seeds))]
    seconds = round(time.perf_counter() - start, 1)
    return {"model_type": name, "seeds": seeds, **versions, "seconds": seconds, "outcomes": outcomes}


def read_run(path: Path, seeds: int, versions: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return what a run has compared so far with these versions, by model type."""
    done = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        each = json.loads(line)
        if each["seeds"] == seeds and all(each[name] == version for name, version in versions.items()):
            done[each["model_type"]] = each
    return done


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

    import torch
    import transformers

    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    every = sorted(transformers.CONFIG_MAPPING.keys())
    done = read_run(options.run, options.seeds, versions)
    options.run.parent.mkdir(parents=True, exist_ok=True)
    left = options.names or sorted((name for name in every if name not in done), key=_urgency)
    for name in () if options.page else left:
        done[name] = survey(name, options.seeds, versions)
        with options.run.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[name]) + "\n")
        doubtful = [each for each in done[name]["outcomes"] if each["outcome"] != "right"]
        print(name, len(done[name]["outcomes"]), *(f"\n   {json.dumps(each)}" for each in doubtful), flush=True)
    record = {
        **versions,
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
