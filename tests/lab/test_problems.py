"""Every problem's answers, worked out in another way."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from locant.lab.problems import BINARY, PROBLEMS, UNARY, scan_clauses


def addition(question: str) -> str:
    first, second = question.replace(" ", "").split("+")
    return " ".join(str(int(first) + int(second)))


def polynomial(question: str) -> str:
    value, formula = question.split(" ; ")
    x = int(value.removeprefix("x = "))
    return str(eval(formula.replace(" x ^ ", f"*{x}**")) % 10)


def chains(question: str) -> str:
    *assignments, asked = question.split(" ; ")
    known = {"1": 1}
    while len(known) <= len(assignments):
        for assignment in assignments:
            name, _, sign, before = assignment.split()
            if before in known:
                known[name] = known[before] * int(f"{sign}1")
    return f"{known[asked.removeprefix('? ')]:+d}"


def commands(question: str) -> str:
    """Fold clauses from the right, each worked out by the published rewriting rules of SCAN."""
    for word in (" and ", " after "):
        question = question.replace(word, f"|{word.strip()}|")
    parts = question.split("|")
    done = clause(parts[0])
    for joint, part in zip(parts[1::2], parts[2::2], strict=True):
        done = [*done, *clause(part)] if joint == "and" else [*clause(part), *done]
    return " ".join(done)


def clause(words: str) -> list[str]:
    if words.endswith(" twice"):
        return 2 * clause(words.removesuffix(" twice"))
    if words.endswith(" thrice"):
        return 3 * clause(words.removesuffix(" thrice"))
    verb, *way = words.split()
    act = [] if verb == "turn" else [verb.upper()]
    match way:
        case []:
            return act
        case ["opposite", side]:
            return [f"TURN-{side.upper()}", f"TURN-{side.upper()}", *act]
        case ["around", side]:
            return [f"TURN-{side.upper()}", *act] * 4
        case [side]:
            return [f"TURN-{side.upper()}", *act]
    raise AssertionError(words)


def edits(question: str) -> str:
    words = question.split()
    operations = [word for word in words if len(word) > 1]
    text, *others = "".join(words[len(operations) :]).split(",")
    for operation in reversed(operations):
        other = others.pop(0) if operation in ("append", "prepend", "remove-first", "remove-second") else ""
        text = {
            "copy": text,
            "reverse": "".join(reversed(text)),
            "shift": text[1:] + text[:1],
            "swap": text if len(text) == 1 else f"{text[-1]}{text[1:-1]}{text[0]}",
            "append": text + other,
            "prepend": other + text,
            "remove-first": other,
            "remove-second": text,
        }[operation]
    return " ".join(text)


ANSWERS: dict[str, Callable[[str], str]] = {
    "copy": lambda question: question,
    "reverse": lambda question: "".join(reversed(question)),
    "addition": addition,
    "sorting": lambda question: " ".join(map(str, sorted(map(int, question.split())))),
    "summation": lambda question: str(sum(map(int, question.split())))[-1],
    "parity": lambda question: ("even", "odd")[question.replace(" ", "").count("1") & 1],
    "polynomial": polynomial,
    "chains": chains,
    "commands": commands,
    "edits": edits,
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_answers(name: str) -> None:
    problem, random = PROBLEMS[name], Random(1)
    seen = Counter[str]()
    for length in (1, 2, 3, 7, 20):
        for _ in range(100):
            question, answer = problem.sample(random, length)
            assert {*question, *answer} <= set(problem.symbols)
            seen.update({*question, *answer})
            assert " ".join(answer) == ANSWERS[name](" ".join(question))
    assert set(seen) == set(problem.symbols)
    assert len(problem.symbols) == len(set(problem.symbols))


@pytest.mark.parametrize(
    ("command", "actions"),
    [  # Lake and Baroni 2018, Figure 1, with their words for turns
        ("jump", "JUMP"),
        ("jump left", "LTURN JUMP"),
        ("jump around right", "RTURN JUMP RTURN JUMP RTURN JUMP RTURN JUMP"),
        ("turn left twice", "LTURN LTURN"),
        ("jump thrice", "JUMP JUMP JUMP"),
        ("walk around left", "LTURN WALK LTURN WALK LTURN WALK LTURN WALK"),
        ("jump opposite left", "LTURN LTURN JUMP"),
        ("walk thrice", "WALK WALK WALK"),
    ],
)
def test_clauses_of_the_scan_paper(command: str, actions: str) -> None:
    known = {" ".join(words): " ".join(done) for of_size in scan_clauses().values() for words, done in of_size}
    assert known[command] == actions.replace("LTURN", "TURN-LEFT").replace("RTURN", "TURN-RIGHT")


def test_edits_of_the_pcfg_paper() -> None:
    """Hupkes et al. 2020, Table 1."""
    one = {"copy": "ABCD", "reverse": "DCBA", "shift": "BCDA", "swap": "DBCA"}
    assert {name: "".join(change(list("ABCD"))) for name, change in UNARY.items()} == one
    two = {"append": "ABCD", "prepend": "CDAB", "remove-first": "CD", "remove-second": "AB"}
    assert {name: "".join(join(list("AB"), list("CD"))) for name, join in BINARY.items()} == two
