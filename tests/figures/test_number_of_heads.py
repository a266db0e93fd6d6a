"""The figure of the number of heads: it shows the lab's record, and the paper's table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from locant.figures import draw_figure

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "lab" / "heads"


def test_the_scores_are_those_of_the_lab() -> None:
    data = draw_figure("number-of-heads").data
    (table,) = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["tables"]
    found = {int(row["variant"]): row["cells"]["BLEU"]["mean"] for row in table["rows"]}
    seeds = [scores for name, scores in data.items() if name.startswith("seed: ")]
    assert len(seeds) == table["rows"][0]["seeds"]
    heads = seeds[0][0].astype(int).tolist()
    np.testing.assert_allclose(np.mean([scores[1] for scores in seeds], axis=0), [found[number] for number in heads])
    assert len({row["parameters"] for row in table["rows"]}) == 1  # the same model, divided differently


def test_the_paper_says_what_the_lab_quotes() -> None:
    heads, bleu = draw_figure("number-of-heads").data["paper"]
    (table,) = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["tables"]
    quoted = {int(row["what"].split()[2]): row["value"] for row in table["published"]}
    assert dict(zip(heads.astype(int).tolist(), bleu.tolist(), strict=True)) == quoted
