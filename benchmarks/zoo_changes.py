"""Small files of every architecture of the installed transformers, changed as people change them, as Locant reads them.

    .venv/bin/python benchmarks/zoo_changes.py [--seed 0] [--limit 30] [--with-class] [--run FILE] [model types ...]

The class of transformers is the measure: what it does with a changed file, or that it fails. What was compared stands
in the file of the run (build/zoo-changes.jsonl), architecture by architecture: a run that was stopped goes on there.
Of classes with several parts what stands around their text part is changed, and what is read of the whole is compared
with what is read of the text part that the class makes of it.
At the end how many outcomes there were of each kind is written into docs/results/zoo-changes.json, in the place of what
the same seed had there, and from that docs/results/zoo-changes.md; not where model types are named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # some classes ask the Hub for missing files, and wait for minutes
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from zoo.architectures import architecture  # noqa: E402
from zoo.changed import changed_verdicts  # noqa: E402
from zoo.changed_page import changes_page, summary  # noqa: E402
from zoo.changed_wholes import changed_whole_verdicts  # noqa: E402

from locant.rotary_configs.classes import families  # noqa: E402
from measure import machine  # noqa: E402
from zoo_run import read_run, survey  # noqa: E402

RECORD = ROOT / "docs" / "results" / "zoo-changes.json"


def types_in_order(seed: int) -> list[str]:
    """Return the model types, drawn by a seed, so that a run that was stopped is a sample: those that rotate first."""
    from transformers import CONFIG_MAPPING

    known = [kind for name in sorted(CONFIG_MAPPING.keys()) if (kind := families.model_type(name)) is not None]
    random.Random(seed).shuffle(known)
    return [kind.name for kind in sorted(known, key=lambda kind: not kind.rotates)]


def main() -> None:
    """Compare what is left, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--seed", type=int, default=0, help="of the changes, and the form of the file")
    parser.add_argument("--limit", type=int, default=30, help="changes of each architecture")
    parser.add_argument("--with-class", action="store_true", help="read every file with the class asked, too")
    parser.add_argument("--page", action="store_true", help="compare nothing, only write the page")
    parser.add_argument("--run", type=Path, default=ROOT / "build" / "zoo-changes.jsonl")
    options = parser.parse_args()
    ways = (False, True) if options.with_class else (False,)

    def outcomes(name: str) -> list[dict[str, Any]]:
        found = architecture(name)
        if found.kind not in ("text", "composite"):
            return []
        verdicts = changed_whole_verdicts if found.kind == "composite" else changed_verdicts
        return [each.as_data() for each in verdicts(found, options.seed, options.limit, ways)]

    done = read_run(options.run, options.seed)
    names = [] if options.page else options.names or [name for name in types_in_order(options.seed) if name not in done]
    for line in survey(options.run, names, options.seed, outcomes):
        done[line["model_type"]] = line
        doubtful = [each for each in line["outcomes"] if each["outcome"] not in ("right", "warned")]
        shown = "".join(f"\n   {each['outcome'].upper()} {each['change']}: {each['reason']}" for each in doubtful)
        print(line["model_type"], len(line["outcomes"]), f"{line['seconds']} s", shown, flush=True)
    counted = Counter(each["outcome"] for line in done.values() for each in line["outcomes"])
    print(", ".join(f"{count} {outcome}" for outcome, count in counted.most_common()))
    if not options.names:
        new = summary(list(done.values()), seed=options.seed, limit=options.limit, machine=machine())
        stored = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
        runs = [new, *(each for each in stored if each["seed"] != options.seed)]
        RECORD.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n", encoding="utf-8")
        RECORD.with_suffix(".md").write_text(changes_page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
