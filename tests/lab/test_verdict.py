"""The verdict of a comparison in words."""

from locant.lab import build_task
from locant.lab.tables import Cell, ResultTable, Row, verdict


def row(variant: str, seen: float, unseen: float | None, steps: float) -> Row:
    return Row(variant, "", {"seen": Cell(seen), "unseen": Cell(unseen)}, 1, 100, 0, steps, 1.0, 1)


def table(*rows: Row) -> ResultTable:
    task = build_task("copy")
    metric = next(iter(task.metrics.values()))
    return ResultTable(task, {"seen": metric, "unseen": metric}, list(rows), {}, [], [])


def test_the_best_is_named_with_its_number() -> None:
    said = verdict([table(row("none", 99, 5, 100), row("alibi", 98, 91.5, 102), row("learned", 97, None, 100))])
    assert len(said) == 1
    assert "alibi" in said[0]
    assert "91.5" in said[0]


def test_what_is_not_learned_or_not_alike_is_said() -> None:
    said = " ".join(verdict([table(row("none", 40, 0, 150), row("alibi", 95, 10, 225))]))
    assert "Not learned" in said
    assert "none" in said
    assert "150 to 225" in said
