"""Tables, ranks and the proof of fairness, from records whose numbers are known."""

import csv
import io
import json

import pytest
from lab_records import make_record

from locant.lab import Budget, Comparison
from locant.lab.fairness import check_fairness
from locant.lab.ranks import PAPER, agreement, mean_ranks
from locant.lab.tables import Cell, _some, result_tables
from locant.lab.written import as_data, csv_text, header, markdown, row_texts

COMPARISON = Comparison(
    tasks=("copy", "reverse"),
    contenders=("none", "learned"),
    seeds=2,
    budget=Budget(steps=5),
    options={"train_length": 2},
)
RECORDS = [
    make_record("copy", "none", 1, {1: 100.0, 2: 90.0, 3: 50.0, 4: 10.0}),
    make_record("copy", "none", 2, {1: 100.0, 2: 70.0, 3: 30.0, 4: 10.0}),
    make_record("copy", "learned", 1, {1: 100.0, 2: 100.0, 3: None, 4: None}),
    make_record("copy", "learned", 2, {1: 98.0, 2: 100.0, 3: None, 4: None}),
]


def test_means_and_spread_over_seeds() -> None:
    (table,) = result_tables(COMPARISON, RECORDS)
    assert list(table.columns) == ["seen", "unseen", "at 1", "at 2", "at 3", "at 4"]
    first, second = table.rows
    assert (first.contender, first.seeds, first.tokens_per_second) == ("none", 2, 300.0)
    assert first.cells["seen"].mean == pytest.approx(90.0)  # of 95 and 85
    assert first.cells["seen"].spread == pytest.approx(50**0.5)  # of the sample: ((5^2 + 5^2) / 1)^0.5
    assert first.cells["at 3"].mean == pytest.approx(40.0)
    assert first.cells["at 3"].spread == pytest.approx(200**0.5)
    assert second.cells["seen"].mean == pytest.approx(99.5)
    assert second.cells["unseen"].mean is None
    assert row_texts(table, second)[1:3] == ["99.5 ±0.7", "cannot"]
    assert table.notes == ["learned cannot at 3: the table ends"]
    assert table.curves[0].values == {1: [100.0, 100.0], 2: [90.0, 70.0], 3: [50.0, 30.0], 4: [10.0, 10.0]}


def test_one_seed_has_no_spread() -> None:
    (table,) = result_tables(COMPARISON, RECORDS[:1])
    assert table.rows[0].cells["seen"] == Cell(95.0, None)
    assert row_texts(table, table.rows[0])[1] == "95.0"


def test_a_contender_that_cannot_at_all() -> None:
    broken = RECORDS[2].model_copy(
        update={"outcome": RECORDS[2].outcome.model_copy(update={"cannot": "no", "measurements": ()})}
    )
    (table,) = result_tables(COMPARISON, [*RECORDS[:2], broken])
    assert {cell.shown(1) for cell in table.rows[1].cells.values()} == {"cannot"}
    assert table.notes == ["learned cannot: no"]


def test_some_lengths_end_with_the_last() -> None:
    assert _some(range(1, 11), 4) == [1, 4, 7, 10]
    assert _some(range(11, 21), 4) == [11, 14, 17, 20]
    assert _some([5, 6], 4) == [5, 6]


def test_mean_reciprocal_ranks_by_hand() -> None:
    records = [
        make_record("copy", "none", 1, {3: 50.0}),
        make_record("copy", "rotary", 1, {3: 20.0}),
        make_record("copy", "learned", 1, {3: None}),
        make_record("copy", "none", 2, {3: 20.0}),
        make_record("copy", "rotary", 2, {3: 50.0}),
        make_record("copy", "learned", 2, {3: None}),
        make_record("parity", "none", 1, {3: 0.0}),
        make_record("parity", "rotary", 1, {3: 0.0}),
        make_record("parity", "learned", 1, {3: None}),
        make_record("reverse", "none", 1, {3: 100.0}),  # not all have run: does not count
    ]
    ranks = {rank.contender: rank.all for rank in mean_ranks(records)}
    # Ranks of none: 1, 2 and 2 (three share the ranks 1 to 3); of learned: 3, 3 and 2.
    assert ranks["none"] == ranks["rotary"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert ranks["learned"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)
    assert agreement(mean_ranks(records)) == ""


def test_agreement_with_the_paper() -> None:
    order = [make_record("copy", name, 1, {3: 100 * value}) for name, value in PAPER.items()]
    assert agreement(mean_ranks(order)) == "Of the 10 pairs of the paper's five schemes, 10 stand in its order."
    other = [make_record("copy", name, 1, {3: {"none": 1.0}.get(name, 100 * value)}) for name, value in PAPER.items()]
    said = agreement(mean_ranks([*other, make_record("copy", "rotary", 1, {3: 99.0})]))
    assert said.startswith("Of the 10 pairs of the paper's five schemes, 6 stand in its order; the other way round: ")
    assert said.endswith("t5 above none, alibi above none, rotary-25 above none, sinusoidal above none.")
    best = mean_ranks([*other, make_record("copy", "rotary", 1, {3: 99.0})])[0]
    assert (best.contender, best.all, best.among_paper, best.paper) == ("rotary", 1.0, None, None)


def test_fairness() -> None:
    assert [(check.what, check.holds, check.common) for check in check_fairness(RECORDS[::2])] == [
        ("first batch", True, "b" * 12),
        ("initial weights", True, "w" * 12),
        ("parameters without the scheme's", True, "90"),
    ]
    changed = RECORDS[2].outcome.model_copy(update={"first_batch": "c" * 64, "parameters": 101})
    checks = check_fairness([RECORDS[0], RECORDS[2].model_copy(update={"outcome": changed})])
    assert [check.holds for check in checks] == [False, True, False]
    assert checks[2].common == "none: 90, learned: 91"


def test_files_say_what_the_tables_say() -> None:
    tables = result_tables(COMPARISON, RECORDS)
    text = markdown(tables, RECORDS)
    assert "| none | 90.0 ±7.1 | 25.0 ±7.1 |" in text
    assert "Share of test questions whose greedily decoded answer is right" in text
    lines = [line for line in text.splitlines() if line.startswith("| none | 90.0")]
    assert lines[0].count("|") == len(header(tables[0])) + 1
    rows = list(csv.DictReader(io.StringIO(csv_text(RECORDS))))
    assert len(rows) == 16
    assert rows[1] == {
        "task": "copy", "contender": "none", "seed": "1", "condition": "", "metric": "exact", "length": "2",
        "split": "seen", "value": "90.0", "reason": "",
    }  # fmt: skip
    data = json.loads(json.dumps(as_data(tables, RECORDS)))
    assert data["tables"][0]["rows"][0]["cells"]["seen"]["mean"] == pytest.approx(90.0)
    assert data["mean_reciprocal_ranks"][0] == {"contender": "none", "all": 1.0, "among_paper": None, "paper": 0.687}
