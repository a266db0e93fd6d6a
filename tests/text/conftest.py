import random

import pytest
from hypothesis import settings

from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers

# How long an example takes says more about the load of the machine than about the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

SYLLABLES = ["ka", "lo", "mir", "ten", "bu", "shi", "gra", "fel", "no", "üm", "ström", "qui", "wex", "dy", "zap"]


def make_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs of varied lengths that a translator could learn."""
    draw = random.Random(seed)
    words = {"".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))): None for _ in range(150)}
    pairs = []
    for _ in range(count):
        chosen = draw.choices(list(words), k=draw.randint(1, 14))
        source = "The " + " ".join(chosen[: draw.randint(1, 14)]) + "."
        pairs.append((source, " ".join(word[::-1] for word in chosen) + "."))
    return pairs


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return make_pairs(600)


@pytest.fixture(scope="session")
def tokenizers(pairs) -> TokenizerPair:
    return train_tokenizers(pairs, TokenizerSettings(vocab_size=200))
