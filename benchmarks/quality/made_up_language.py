"""A made-up language pair whose translations are known exactly, for measurements that take minutes, not hours.

    python made_up_language.py runs/made-up

Writes the text beside the folder and trains a small model on it, in two minutes of processor time. The source puts
verbs second and adjectives before nouns; the target puts verbs last and adjectives behind nouns, its articles agree
with the noun, some of its verbs have a synonym, and names are the same in both. Of the names some are in many sentences
and most in one alone, as in real text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random

from locant.training import load_recipe, train

_ONSETS = (*"bdfgklmnprstvz", "br", "dr", "gr", "kl", "pl", "st", "tr")
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("", "", "n", "r", "s", "l")


def _word(random: Random, syllables: int) -> str:
    return "".join(random.choice(_ONSETS) + random.choice(_VOWELS) + random.choice(_CODAS) for _ in range(syllables))


def _words(random: Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[_word(random, random.randint(1, 3))] = None
    return list(found)


class Language:
    """The two languages.

    Args:
        seed: Decides the words.
    """

    def __init__(self, seed: int = 1) -> None:
        random = Random(seed)
        sizes = {"noun": 120, "adjective": 40, "verb": 50, "adverb": 30}
        words = iter(_words(random, 3 * sum(sizes.values())))
        self.words = {
            kind: [(next(words), next(words), next(words)) for _ in range(size)] for kind, size in sizes.items()
        }
        self.names = [name.capitalize() for name in _words(random, 60)]

    def sentences(self, count: int, seed: int) -> Iterator[tuple[str, str]]:
        """Yield sentences with their translations."""
        random = Random(seed)
        for _ in range(count):
            subject, object_ = self._phrase(random), self._phrase(random)
            verb, translated, synonym = random.choice(self.words["verb"])
            if verb < "h" and random.random() < 0.5:
                translated = synonym
            source, target = [subject[0], verb, object_[0]], [subject[1], object_[1]]
            if random.random() < 0.5:
                adverb, other, _ = random.choice(self.words["adverb"])
                source.append(adverb)
                target.insert(1, other)
            one, other = " ".join(source), " ".join([*target, translated])
            yield f"{one[0].upper()}{one[1:]}.", f"{other[0].upper()}{other[1:]}."

    def _phrase(self, random: Random) -> tuple[str, str]:
        if random.random() < 0.35:
            rare = random.random() >= 0.5
            name = _word(random, random.randint(2, 3)).capitalize() if rare else random.choice(self.names)
            return name, name
        noun, other, _ = random.choice(self.words["noun"])
        article = "lo" if noun < "l" else "la"
        if random.random() < 0.4:
            adjective, behind, _ = random.choice(self.words["adjective"])
            return f"the {adjective} {noun}", f"{article} {other} {behind}"
        return f"the {noun}", f"{article} {other}"


_RECIPE = """
description: A made-up language pair.
corpus:
  kind: files
  name: a made-up language pair
  source_language: en
  target_language: eo
  train: {{source: {folder}/train.source, target: {folder}/train.target}}
  valid: {{source: {folder}/valid.source, target: {folder}/valid.target}}
  test: {{source: {folder}/test.source, target: {folder}/test.target}}
tokenizer: {{vocab_size: 500}}
batches: {{tokens: 768}}
model: {{preset: tiny, encoder_layers: 2, decoder_layers: 2, d_model: 64, d_ff: 128, heads: 4, dropout: 0.0, norm: pre}}
training:
  minutes: null
  steps: {steps}
  optimizer: muon
  learning_rate: 0.01
  schedule: cosine
  warmup_steps: 100
  validate_every: {steps}
  validation_sentences: 100
  log_every: 50
decoding: {{beam: 4}}
"""


def main() -> int:
    """Write the text and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="updates; 1,000 by default")
    options = parser.parse_args()
    folder = options.run.with_name(f"{options.run.name}-text")
    folder.mkdir(parents=True, exist_ok=True)
    language = Language()
    for seed, (part, count) in enumerate((("train", 20_000), ("valid", 200), ("test", 1_000))):
        pairs = list(language.sentences(count, seed))
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (folder / f"{part}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = folder / "recipe.yaml"
    recipe.write_text(_RECIPE.format(folder=folder.resolve(), steps=options.steps), encoding="utf-8")
    print(train(load_recipe(recipe), options.run))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
