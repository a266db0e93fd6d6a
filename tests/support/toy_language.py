from __future__ import annotations

import random

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "red": "rot"}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of a toy language pair: word by word."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = rng.choices(list(WORDS), k=rng.randint(2, 8))
        pairs.append((" ".join(words), " ".join(WORDS[word] for word in words)))
    return pairs
