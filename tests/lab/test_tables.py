"""Tables, ranks and the proof of fairness, from records whose numbers are known."""

import csv
import io

import pytest
from lab_records import make_record

from locant.lab import Budget, Comparison, MetricValue, Record
from locant.lab.record import check_fairness
from locant.lab.tables import (
    csv_text,
    lines_of,
    markdown,
    mean_ranks,
    rank_lines,
    result_tables,
    tables_by_length,
    verdict,
)

COMPARISON = Comparison(
    tasks=("copy", "reverse"),
    variants=("none", "learned"),
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
    assert (first.variant, first.seeds, first.tokens_per_second) == ("none", 2, 300.0)
    assert first.cells["seen"].mean == pytest.approx(90.0)  # of 95 and 85
    assert first.cells["seen"].spread == pytest.approx(50**0.5)  # of the sample: ((5^2 + 5^2) / 1)^0.5
    assert first.cells["at 3"].mean == pytest.approx(40.0)
    assert first.cells["at 3"].spread == pytest.approx(200**0.5)
    assert second.cells["seen"].mean == pytest.approx(99.5)
    assert second.cells["unseen"].mean is None
    assert lines_of(table)[2][1:3] == ["99.5 ±0.7", "cannot"]
    assert table.notes == ["learned cannot at 3: the table ends"]
    assert first.curves == {"exact": {1: [100.0, 100.0], 2: [90.0, 70.0], 3: [50.0, 30.0], 4: [10.0, 10.0]}}


def test_a_variant_that_cannot_at_all() -> None:
    broken = RECORDS[2].model_copy(
        update={"outcome": RECORDS[2].outcome.model_copy(update={"cannot": "no", "measurements": ()})}
    )
    (table,) = result_tables(COMPARISON, [*RECORDS[:2], broken])
    assert {cell.shown(1) for cell in table.rows[1].cells.values()} == {"cannot"}
    assert table.notes == ["learned cannot: no"]


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
    ranks = mean_ranks(records, "unseen")
    # Ranks of none: 1, 2 and 2 (three share the ranks 1 to 3); of learned: 3, 3 and 2.
    assert ranks["none"] == ranks["rotary"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert ranks["learned"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)
    seen = [make_record("copy", name, 1, {1: value, 3: 100 - value}) for name, value in (("t5", 90.0), ("fire", 80.0))]
    header = ["scheme", "unseen lengths", "seen lengths"]
    assert rank_lines(seen) == [header, ["fire", "1.000", "0.500"], ["t5", "0.500", "1.000"]]
    assert rank_lines(seen[:1]) == []


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


def test_a_budget_of_updates_is_proven_by_the_tokens_trained_on() -> None:
    records = [record.model_copy(update={"configuration": {"budget": {"steps": 5}}}) for record in RECORDS[::2]]
    assert {check.what: check.common for check in check_fairness(records)}["tokens trained on"] == "600"
    fewer = records[1].model_copy(update={"outcome": records[1].outcome.model_copy(update={"tokens": 599})})
    (broken,) = (check for check in check_fairness([records[0], fewer]) if not check.holds)
    assert (broken.what, broken.common) == ("tokens trained on", "none: 600, learned: 599")
    timed = [one.model_copy(update={"configuration": {"budget": {"minutes": 1}}}) for one in (records[0], fewer)]
    assert all(check.holds for check in check_fairness(timed))


def test_files_say_what_the_tables_say() -> None:
    tables = result_tables(COMPARISON, RECORDS)
    text = markdown(tables, RECORDS)
    assert "| none | 90.0 ±7.1 | 25.0 ±7.1 |" in text
    rows = list(csv.DictReader(io.StringIO(csv_text(RECORDS))))
    assert len(rows) == 16
    assert rows[1] == {
        "task": "copy", "variant": "none", "seed": "1", "condition": "", "metric": "exact", "length": "2",
        "split": "seen", "value": "90.0", "reason": "",
    }  # fmt: skip


def measured(task: str, variant: str, values: dict[str, dict[int | None, float | None]]) -> Record:
    """A record of several metrics by length."""
    plain = make_record(task, variant, 1, {})
    measurements = tuple(
        MetricValue(metric=metric, value=value, length=length, split="seen" if length else None)
        for metric, of_one in values.items()
        for length, value in of_one.items()
    )
    return plain.model_copy(update={"outcome": plain.outcome.model_copy(update={"measurements": measurements})})


def test_the_recurrent_row_against_length() -> None:
    records = [
        measured("translation", "sinusoidal", {
            "bleu": {None: 30.0, 10: 31.0, 20: 29.0}, "decoding": {10: 900.0, 20: 800.0},
            "training": {10: 5000.0, 60: 4.0},
        }),
        measured("translation", "rnn", {
            "bleu": {None: 20.0, 10: 28.0, 20: None}, "decoding": {10: 90.0, 20: 80.0}, "training": {10: 500.0},
        }),
    ]  # fmt: skip
    comparison = Comparison(tasks=("translation",), seeds=1, budget=Budget(steps=5))
    (table,) = result_tables(comparison, records)
    found = {metric.name: lines for metric, lines in tables_by_length(table)}
    assert found == {
        "BLEU": [["scheme", "10", "20"], ["sinusoidal", "31.0", "29.0"], ["rnn", "28.0", "cannot"]],
        "decoding (tokens/s)": [["scheme", "10", "20"], ["sinusoidal", "900", "800"], ["rnn", "90", "80"]],
        "training (tokens/s)": [["scheme", "10", "60"], ["sinusoidal", "5,000", "4"], ["rnn", "500", ""]],
    }


def test_of_many_lengths_some_of_either_split_are_shown_and_the_last() -> None:
    values: dict[int, float | None] = dict.fromkeys(range(1, 21), 50.0)
    (table,) = result_tables(COMPARISON, [make_record("copy", "none", 1, values, trained=10)])
    assert list(table.columns) == ["seen", "unseen", *(f"at {length}" for length in (2, 6, 10, 12, 16, 20))]


def test_the_verdict_names_the_best_and_what_is_not_learned() -> None:
    (said,) = verdict(result_tables(COMPARISON, [make_record("copy", "none", 1, {1: 99.0, 3: 91.5}), RECORDS[2]]))
    assert "none is best on unseen lengths" in said
    assert "91.5" in said
    slow = make_record("copy", "none", 1, {1: 40.0, 3: 0.0})
    _, not_learned = verdict(result_tables(COMPARISON, [slow, RECORDS[2]]))
    assert ": none;" in not_learned
