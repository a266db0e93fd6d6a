"""The values that decide about errata on order, numbers and sinusoids, computed by Locant's own modules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from locant.analysis import measure_geometry, shift_matrix
from locant.figures.errata.entry import Value
from locant.figures.masks import mask_weights
from locant.figures.numbers import SEED, seeded, wavelengths_of
from locant.figures.trained import read_record
from locant.models import LanguageModel, LanguageModelConfig, Transformer, TransformerConfig
from locant.models.layer_norm import layer_norm
from locant.positions import Binary, Index, Learned, Mask, sinusoid_frequencies, sinusoid_table


def _swapped(ids: torch.Tensor) -> torch.Tensor:
    """Return ids with the first two words in each other's places."""
    return ids[:, [1, 0, *range(2, ids.shape[1])]]


def _order() -> list[Value]:
    ids = torch.tensor([[2, 3, 4, 5, 6]])
    sizes = {"d_model": 32, "d_ff": 64, "heads": 4, "dropout": 0.0, "position": "none"}
    config = TransformerConfig(source_vocab_size=8, target_vocab_size=8, encoder_layers=2, decoder_layers=1, **sizes)
    with seeded():
        decoder = LanguageModel(LanguageModelConfig(vocab_size=8, layers=2, **sizes)).double().eval()
        encoder = Transformer(config).double().eval()
    with torch.no_grad():
        encoded = [encoder.encode(order, torch.tensor([5]))[0, -1] for order in (ids, _swapped(ids))]
        decoded = [decoder.hidden(order)[0, -1] for order in (ids, _swapped(ids))]
    return [
        Value(
            "encoder of two layers without positions: largest change in the last word when the first two change places",
            float((encoded[1] - encoded[0]).abs().max()),
            form="{:.3f}",
        ),
        Value(
            "causal decoder of two layers without positions: the same",
            float((decoded[1] - decoded[0]).abs().max()),
            0.0,
            form="{:.3f}",
        ),
        Value(
            "weight of the first of ten words for the tenth, all scores equal, causal mask (the n-th word sees 1/n)",
            float(mask_weights(Mask(causal=True), 10, 10)[9, 0]),
            form="{:.3f}",
        ),
    ]


def _learned() -> list[Value]:
    positions = torch.arange(512)
    with seeded(), torch.no_grad():
        learned = Learned(512, max_positions=512).encode(positions)
    return [
        Value(
            "largest number that the index adds to a text of 512 tokens",
            float(Index(512).encode(positions).max()),
            form="{:,.0f}",
        ),
        Value(
            "largest number in 512 learned codes as they are drawn, d = 512",
            float(learned.abs().max()),
            511.0,
            form="{:,.2f}",
        ),
    ]


def _one_number() -> list[Value]:
    features = 4
    index = Index(features, features=features).encode(torch.arange(4)).double()
    words = torch.linspace(-1, 1, features, dtype=torch.float64).expand(4, features)
    normed = layer_norm(words + index, nn.LayerNorm(features, dtype=torch.float64)).detach()
    return [
        Value("what position 3 adds to the first feature", float(index[3, 0]), 0.0, form="{:.0f}"),
        Value("what position 3 adds to the last feature", float(index[3, -1]), form="{:.0f}"),
        Value("what position 0 adds to the last feature", float(index[0, -1]), 3.0, form="{:.0f}"),
        Value(
            "what a layer norm leaves of a number that all features share: largest difference between positions 0 and "
            "3",
            float((normed[3] - normed[0]).abs().max()),
            form="{:.3f}",
        ),
    ]


def _labels() -> list[Value]:
    rows = sinusoid_table(torch.arange(5), 4)[:, 0]
    return [
        Value("position of the fourth row", 3, 4),
        Value("first feature of the fourth row, sin 3", float(rows[3]), float(rows[4]), form="{:.4f}"),
    ]


def _bits() -> list[Value]:
    positions = torch.arange(16)
    digits = next(n for n in range(1, 17) if 2**n >= len(positions))
    assert len(set(map(tuple, Binary(digits).encode(positions).tolist()))) == len(positions)
    code = sinusoid_table(positions, 16)[0]
    return [
        Value("digits of the binary code of 16 positions", digits, form="{:,} bits"),
        Value(
            "storage of one sinusoidal code, d = 16, float32",
            code.numel() * code.element_size() * 8,
            16,
            form="{:,} bits",
        ),
    ]


_PAPER = 512  # features of the paper's base model


_TOKENS = "{:,.0f} tokens"


def _feature(position: int, feature: int, width: int) -> float:
    return float(sinusoid_table(torch.tensor(position), width)[feature])


def _radians(width: int) -> list[float]:
    return [float(radians) for radians in sinusoid_frequencies(width).radians]


def _longest_index() -> list[Value]:
    waves = wavelengths_of(_PAPER)
    return [
        Value("the last i, d = 512", len(waves) - 1, 9998),
        Value("its wave", waves[-1], form=_TOKENS),
    ]


def _exact_end() -> list[Value]:
    reached = {width: wavelengths_of(width)[-1] for width in (64, _PAPER)}
    authors = 2 * math.pi / float(sinusoid_frequencies(_PAPER, dialect="tensor2tensor").radians[-1])
    stated = 2 * math.pi * 10000
    return [
        *(Value(f"longest wave, d = {width}", wave, stated, _TOKENS) for width, wave in reached.items()),
        Value(
            "longest wave of the authors' own code, whose exponent is i/(d/2 &minus; 1), d = 512", authors, form=_TOKENS
        ),
    ]


def _index_of_pairs() -> list[Value]:
    width = 6
    waves = wavelengths_of(width)
    return [
        Value("different frequencies, d = 6", len(set(_radians(width))), width),
        Value("longest wave, d = 6", waves[-1], 2 * math.pi * 10000 ** (2 * (width - 1) / width), _TOKENS),
    ]


def _doubled() -> list[Value]:
    waves = wavelengths_of(_PAPER)
    doubled = [2 * math.pi * 10000 ** (4 * pair / _PAPER) for pair in range(_PAPER // 2)]
    return [
        Value("PE(1)[2], d = 6", _feature(1, 2, 6), math.sin(10000 ** (-2 * 2 / 6)), "{:.4f}"),
        Value("longest wave, d = 512", waves[-1], doubled[-1], _TOKENS),
        Value(
            "pairs that make a full turn within 512 tokens, d = 512",
            sum(wave <= 512 for wave in waves.tolist()),
            sum(wave <= 512 for wave in doubled),
        ),
    ]


def _own_exponent() -> list[Value]:
    table = sinusoid_table(torch.arange(200), 6).double()
    positions = torch.arange(200, dtype=torch.float64)
    stated = positions.sin() ** 2 + (positions * 10000 ** (-2 / 6)).cos() ** 2
    return [
        Value("PE(3)[1], d = 6", _feature(3, 1, 6), math.cos(3 * 10000 ** (-2 / 6)), "{:.4f}"),
        Value(
            "smallest sin² + cos² of the first pair, positions 0 to 199",
            float((table[:, :2] ** 2).sum(1).min()),
            float(stated.min()),
            "{:.2f}",
        ),
        Value("largest", float((table[:, :2] ** 2).sum(1).max()), float(stated.max()), "{:.2f}"),
    ]


def _halved() -> list[Value]:
    return [
        Value("divisor of the second pair, i = 1, d = 4", 1 / _radians(4)[1], 10.0, "{:,.0f}"),
        Value("sin(0.1)", math.sin(0.1), 0.00999983, "{:.8f}"),
        Value("PE(1)[2], d = 4", _feature(1, 2, 4), form="{:.8f}"),
    ]


def _off_by_one() -> list[Value]:
    return [
        Value("sin(1)", math.sin(1), 0.0, "{:.4f}"),
        Value("PE(0)[0] = sin(0)", _feature(0, 0, 4), form="{:.4f}"),
        Value("PE(1)[0] = sin(1)", _feature(1, 0, 4), math.sin(2), "{:.4f}"),
    ]


def _divisor_of_waves() -> list[Value]:
    frequency = _radians(_PAPER)[128]
    return [
        Value("10000<sup>2i/d</sup>, i = 128, d = 512", 1 / frequency, form="{:,.0f}"),
        Value("frequency of this pair, radians a token", frequency, 100.0, "{:,.2f}"),
        Value("its wave", wavelengths_of(_PAPER)[128], form=_TOKENS),
    ]


def _falling() -> list[Value]:
    radians = _radians(_PAPER)
    return [
        Value("frequency of the first pair, i = 0, radians a token, d = 512", radians[0], form="{:.4f}"),
        Value("frequency of the last pair, i = 255", radians[-1], form="{:.4f}"),
        Value(
            "pairs that are faster than the one before",
            sum(later > earlier for earlier, later in pairwise(radians)),
            len(radians) - 1,
        ),
    ]


def _parity() -> list[Value]:
    return [
        Value("PE(1)[0], the first feature of an odd position", _feature(1, 0, 4), math.cos(1), "{:.4f}"),
        Value("PE(1)[1], its second feature", _feature(1, 1, 4), form="{:.4f}"),
    ]


def _other_base() -> list[Value]:
    return [
        Value("longest wave, d = 512", wavelengths_of(_PAPER)[-1], wavelengths_of(_PAPER, base=1000.0)[-1], _TOKENS),
        Value(
            "PE(1)[2], d = 6", _feature(1, 2, 6), float(sinusoid_table(torch.tensor(1), 6, base=1000.0)[2]), "{:.4f}"
        ),
    ]


_QUOTED = "print(\N{LEFT SINGLE QUOTATION MARK}sin\N{RIGHT SINGLE QUOTATION MARK})"


def _quotes() -> list[Value]:
    try:
        compile(_QUOTED, "listing", "exec")
    except SyntaxError as error:
        stopped = ord(_QUOTED[(error.offset or 1) - 1])
    return [Value("the character at which Python stops", stopped, form="U+{:04X}")]


def _table(width: int, length: int) -> torch.Tensor:
    return sinusoid_table(torch.arange(length), width).double()


def _first_rise(width: int) -> float:
    rise = measure_geometry(_table(width, 200)).first_rise
    assert rise is not None
    return rise


def _ripples() -> list[Value]:
    return [
        *(
            Value(
                f"first offset at which two codes are more alike than at the offset before, d = {width}",
                _first_rise(width),
            )
            for width in (64, _PAPER)
        ),
        Value(
            "cosine of half a radian, if the cosine of one is given and it were inversely proportional",
            math.cos(0.5),
            2 * math.cos(1),
            "{:.4f}",
        ),
        Value("cosine between the fastest hand now and 3 tokens later", math.cos(3), form="{:.2f}"),
        Value("and 6 tokens later", math.cos(6), form="{:.2f}"),
    ]


def _decay() -> list[Value]:
    table = _table(_PAPER, 201)
    shares = table[0] @ table.T / (_PAPER / 2)
    return [
        Value("first offset at which the dot product rises, d = 512", _first_rise(_PAPER)),
        Value("of the offsets 1 to 200, at how many it rises", int((shares[1:] > shares[:-1]).sum()), 0),
        Value("dot product at offset 200, as a share of that at offset 0", float(shares[200]), form="{:.2f}"),
    ]


def _counter() -> list[Value]:
    waves = wavelengths_of(_PAPER).tolist()
    radians = sinusoid_frequencies(_PAPER).radians
    return [
        Value("hands that have moved after one token, d = 512", sum(float(each) > 0 for each in radians), 1),
        Value("turns of the second hand while the first goes round once", waves[0] / waves[1], 0.0, "{:.3f}"),
        Value("ratio of these two waves", waves[1] / waves[0], form="{:.3f}"),
    ]


def exact_match(scheme: str, part: str) -> float:
    """Return the mean share of exact answers of the record of copying letters, in percent.

    Args:
        scheme: Name of the positional scheme.
        part: ``seen`` or ``unseen`` lengths.
    """
    record = read_record("unseen_lengths")
    shares: Sequence[float] = record["exact"][scheme]
    seen = record["training"]["longest"]
    chosen = shares[:seen] if part == "seen" else shares[seen:]
    return sum(chosen) / len(chosen)


def _longer() -> list[Value]:
    code = sinusoid_table(torch.tensor(100_000), _PAPER)
    return [
        Value(
            "largest number in the code of position 100,000: it is defined, and bounded",
            float(code.abs().max()),
            form="{:.2f}",
        ),
        Value(
            "copying letters, trained on 1 to 20 of them: right answers at 1 to 20",
            exact_match("sinusoidal", "seen"),
            form="{:.1f} %",
        ),
        Value(
            "the same model at 21 to 40 letters",
            exact_match("sinusoidal", "unseen"),
            exact_match("sinusoidal", "seen"),
            "{:.1f} %",
        ),
    ]


def _turning() -> list[Value]:
    angles = torch.tensor([float(each) for each in sinusoid_frequencies(_PAPER).radians], dtype=torch.float64) * 49
    return [
        Value("pairs of 256 that turn by more than 0.1 radian over 50 tokens, d = 512", int((angles > 0.1).sum())),
        Value("pairs that turn by more than 1 radian", int((angles > 1).sum())),
        Value(
            "features of 512 whose values differ by more than 0.1 over 50 tokens",
            int(((table := _table(_PAPER, 50)).amax(0) - table.amin(0) > 0.1).sum()),
        ),
    ]


def _absolute() -> list[Value]:
    width, offset = 64, 5
    table = _table(width, 105)
    generator = torch.Generator().manual_seed(SEED)
    query, key = torch.randn(2, width, width, generator=generator, dtype=torch.float64) / width**0.5
    scores = ((table @ query.T) * (table @ key.T).roll(-offset, 0)).sum(1)[:100]
    residual = (table[:100] @ shift_matrix(width, offset).T - table[offset : 100 + offset]).abs().max()
    return [
        Value(
            "distance between the codes of positions 3 and 13, d = 64",
            float((table[3] - table[13]).norm()),
            0.0,
            "{:.2f}",
        ),
        Value(
            "what the matrix M<sub>5</sub> leaves between PE(p + 5) and M<sub>5</sub> PE(p), at most, p = 0 … 99",
            float(residual),
            form="{:.4f}",
        ),
        Value(
            "score between positions 0 and 5 after drawn W<sub>Q</sub> and W<sub>K</sub>",
            float(scores[0]),
            form="{:.2f}",
        ),
        Value("score between positions 50 and 55 after the same", float(scores[50]), float(scores[0]), "{:.2f}"),
    ]


VALUES: dict[str, Callable[[], Sequence[Value]]] = {
    "e1": _longest_index,
    "e2": _quotes,
    "e3": _order,
    "e4": _doubled,
    "e5": _ripples,
    "e6": _counter,
    "e7": _longer,
    "e8": _decay,
    "e9": _turning,
    "e10": _exact_end,
    "e11": _absolute,
    "e12": _index_of_pairs,
    "e13": _learned,
    "e18": _one_number,
    "e19": _halved,
    "e20": _labels,
    "e21": _off_by_one,
    "e22": _divisor_of_waves,
    "e23": _bits,
    "e24": _falling,
    "e32": _parity,
    "e33": _own_exponent,
    "e34": _other_base,
}
"""What computes the values of an erratum, by its key."""
