"""Commands and actions, in the style of SCAN (Lake and Baroni 2018, "Generalization without Systematicity")."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import Problem, Tokens

_VERBS = ("walk", "look", "run", "jump")
_SIDES = ("left", "right")
_TIMES = {"": 1, "twice": 2, "thrice": 3}


def _clauses() -> list[tuple[Tokens, Tokens]]:
    """Return every command without conjunction, with its actions."""
    single: list[tuple[Tokens, Tokens]] = [([verb], [verb.upper()]) for verb in _VERBS]
    for side in _SIDES:
        turn = f"TURN-{side.upper()}"
        for verb, act in [("turn", []), *((verb, [verb.upper()]) for verb in _VERBS)]:
            single.append(([verb, side], [turn, *act]))
            single.append(([verb, "opposite", side], [turn, turn, *act]))
            single.append(([verb, "around", side], 4 * [turn, *act]))
    return [
        ([*command, *([often] if often else [])], times * actions)
        for command, actions in single
        for often, times in _TIMES.items()
    ]


class Commands(Problem):
    """``jump left after walk twice`` -> ``WALK WALK TURN-LEFT JUMP``.

    The words mean what they mean in SCAN; unlike there, any number of clauses is joined, from left to right, so that
    every length exists: ``x and y`` does x first, ``x after y`` does y first.
    """

    name = "commands"
    title = "Carry out commands (SCAN-like)"
    length_means = "actions of the answer"
    symbols = (
        *_VERBS, "turn", *_SIDES, "opposite", "around", "twice", "thrice", "and", "after",
        *(verb.upper() for verb in _VERBS), "TURN-LEFT", "TURN-RIGHT",
    )  # fmt: skip

    def __init__(self) -> None:
        self._by_length: dict[int, list[tuple[Tokens, Tokens]]] = {}
        for command, actions in _clauses():
            self._by_length.setdefault(len(actions), []).append((command, actions))

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        question: Tokens = []
        answer: Tokens = []
        while len(answer) < length:
            room = length - len(answer)
            size = random.choice([size for size in self._by_length if size <= room])
            command, actions = random.choice(self._by_length[size])
            if not question:
                question, answer = command, actions
            elif random.random() < 0.5:
                question, answer = [*question, "and", *command], answer + actions
            else:
                question, answer = [*question, "after", *command], actions + answer
        return question, answer
