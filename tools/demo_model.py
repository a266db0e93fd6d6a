"""Train the small model that comes with Locant: it translates the numbers 1 to 999 from English words to German.

Usage: python tools/demo_model.py

It is the model of chapter 6 of the course, with SentencePiece tokens and the loop of that chapter, and a minute of
training. Writes ``src/locant/models/demo``, which ``Translator.from_pretrained("demo")`` loads.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

from locant import Transformer, TransformerConfig
from locant.models import DecodingSettings
from locant.text import BOS, EOS, PAD, TokenizerSettings, train_tokenizers
from locant.translation import Translator

_ENGLISH = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_GERMAN = (
    "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
)
ENGLISH, GERMAN = _ENGLISH.split(), _GERMAN.split()
FOLDER = Path(__file__).parents[1] / "src" / "locant" / "models" / "demo"
_UPDATES = 1500


def say(number: int, names: list[str], hundred: str, *, ones_first: bool) -> list[str]:
    """Return the words of a number from 1 to 999."""
    if number >= 100:
        rest = say(number % 100, names, hundred, ones_first=ones_first) if number % 100 else []
        return [names[number // 100 - 1], hundred, *rest]
    if number < 20:
        return [names[number - 1]]
    tens, ones = names[number // 10 + 17], names[number % 10 - 1]
    if number % 10 == 0:
        return [tens]
    return [ones, "und", tens] if ones_first else [tens, ones]


def main() -> None:
    """Train, check and write the model."""
    pairs = [
        (" ".join(say(n, ENGLISH, "hundred", ones_first=False)), " ".join(say(n, GERMAN, "hundert", ones_first=True)))
        for n in range(1, 1000)
    ]
    random.Random(0).shuffle(pairs)
    test, train = pairs[:100], pairs[100:]
    # Every word is often in the text, so that it becomes one token.
    tokenizers = train_tokenizers(pairs, TokenizerSettings(algorithm="bpe", vocab_size=315))
    size = tokenizers.source.vocab_size

    def batch(sentences: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [[*ids, EOS] for ids in tokenizers.source.encode(sentences)]
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows]), torch.tensor(
            [len(row) for row in rows]
        )

    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocab_size=size,
            target_vocab_size=size,
            d_model=32,
            d_ff=64,
            heads=4,
            encoder_layers=2,
            decoder_layers=2,
            dropout=0.0,
            position="sinusoidal",
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005, weight_decay=0.05)
    draw = random.Random(1)
    for step in range(_UPDATES):
        optimizer.param_groups[0]["lr"] = 0.005 * min((step + 1) / 20, (_UPDATES - step) / _UPDATES)
        some = draw.sample(train, 64)
        source, lengths = batch([one for one, _ in some])
        target, _ = batch([other for _, other in some])
        read = torch.cat((torch.full((len(some), 1), BOS), target[:, :-1]), dim=1)
        logits = model(source, lengths, read)
        loss = cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 300 == 0 or step == _UPDATES - 1:
            print(f"update {step:4}  loss {loss:.3f}")
    translator = Translator(
        model.eval(),
        tokenizers,
        DecodingSettings(beam=1, max_length_extra=8),
        source_language="en",
        target_language="de",
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    translator.save_pretrained(FOLDER)
    weights = load_file(FOLDER / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in weights.items()}, FOLDER / "model.safetensors")
    loaded = Translator.from_pretrained(FOLDER, device="cpu")
    found = loaded.translate([one for one, _ in test])
    print(sum(one == other for one, (_, other) in zip(found, test, strict=True)), "of 100 hidden numbers are right")


if __name__ == "__main__":
    main()
