"""The numbers that decide about errata, computed by Locant's own modules; ``errata.toml`` says what each of them is.

The function of an erratum returns a number for each of its values, or a pair: as computed, and as stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from locant.analysis import measure_geometry, shift_matrix
from locant.figures.masks import mask_weights
from locant.figures.numbers import SEED, seeded, wavelengths_of
from locant.figures.trained import read_record
from locant.models import LanguageModel, LanguageModelConfig, SelfAttention, Transformer, TransformerConfig, preset
from locant.models.config import BlockSettings
from locant.models.layer_norm import layer_norm
from locant.positions import (
    Binary,
    Explanation,
    Index,
    Learned,
    Mask,
    NTKAware,
    Rotary,
    YaRN,
    attend,
    explain_frequencies,
    sinusoid_frequencies,
    sinusoid_table,
)
from locant.positions.scaling import Unscaled
from locant.rotary_configs import read_huggingface

Numbers = Sequence[float | tuple[float, float]]

_PAPER = 512  # features of the paper's base model
_LONGEST_WAVE = wavelengths_of(_PAPER)[-1]
_HEAD, _TRAINED, _FACTOR = 128, 4096, 4  # features of a rotary head, trained tokens, extension


def numbers_of(key: str) -> Numbers:
    """Return the numbers of an erratum by its key."""
    found: Numbers = globals()[f"_{key}"]()
    return found


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)


# Order, and the first ideas


def _e3() -> Numbers:
    ids = torch.tensor([[2, 3, 4, 5, 6]])
    orders = (ids, ids[:, [1, 0, 2, 3, 4]])
    sizes = {"d_model": 32, "d_ff": 64, "heads": 4, "dropout": 0.0, "position": "none"}
    config = TransformerConfig(source_vocab_size=8, target_vocab_size=8, encoder_layers=2, decoder_layers=1, **sizes)
    with seeded():
        decoder = LanguageModel(LanguageModelConfig(vocab_size=8, layers=2, **sizes)).double().eval()
        encoder = Transformer(config).double().eval()
    with torch.no_grad():
        encoded = [encoder.encode(order, torch.tensor([5]))[0, -1] for order in orders]
        decoded = [decoder.hidden(order)[0, -1] for order in orders]
    first_of_ten = float(mask_weights(Mask(causal=True), 10, 10)[9, 0])
    return [_largest(encoded[1] - encoded[0]), (_largest(decoded[1] - decoded[0]), 0.0), first_of_ten]


def _e13() -> Numbers:
    positions = torch.arange(512)
    with seeded(), torch.no_grad():
        learned = Learned(512, max_positions=512).encode(positions)
    return [float(Index(512).encode(positions).max()), (_largest(learned), 511.0)]


def _e18() -> Numbers:
    index = Index(4, features=4).encode(torch.arange(4)).double()
    words = torch.linspace(-1, 1, 4, dtype=torch.float64).expand(4, 4)
    normed = layer_norm(words + index, nn.LayerNorm(4, dtype=torch.float64)).detach()
    return [(float(index[3, 0]), 0.0), float(index[3, -1]), (float(index[0, -1]), 3.0), _largest(normed[3] - normed[0])]


def _e20() -> Numbers:
    return [(3, 4), (_feature(3, 0, 4), _feature(4, 0, 4))]


def _e23() -> Numbers:
    positions = torch.arange(16)
    digits = next(n for n in range(1, 17) if len(set(map(tuple, Binary(n).encode(positions[: 2**n]).tolist()))) == 16)
    code = sinusoid_table(positions, 16)[0]
    return [digits, (code.numel() * code.element_size() * 8, 16)]


# The formula of the sinusoids


def _table(width: int, length: int) -> Tensor:
    return sinusoid_table(torch.arange(length), width).double()


def _feature(position: int, feature: int, width: int, base: float = 10000.0) -> float:
    return float(sinusoid_table(torch.tensor(position), width, base=base)[feature])


def _radians(width: int) -> list[float]:
    return [float(radians) for radians in sinusoid_frequencies(width).radians]


def _e1() -> Numbers:
    return [(_PAPER // 2 - 1, 9998), _LONGEST_WAVE]


def _e10() -> Numbers:
    stated = 2 * math.pi * 10000
    authors = 2 * math.pi / float(sinusoid_frequencies(_PAPER, dialect="tensor2tensor").radians[-1])
    return [(wavelengths_of(64)[-1], stated), (_LONGEST_WAVE, stated), authors]


def _e12() -> Numbers:
    return [(len(set(_radians(6))), 6), (wavelengths_of(6)[-1], 2 * math.pi * 10000 ** (10 / 6))]


def _e32() -> Numbers:
    return [(_feature(1, 0, 4), math.cos(1)), _feature(1, 1, 4)]


def _e4() -> Numbers:
    waves = wavelengths_of(_PAPER).tolist()
    doubled = [2 * math.pi * 10000 ** (4 * pair / _PAPER) for pair in range(_PAPER // 2)]
    inside, stated = (sum(wave <= 512 for wave in of) for of in (waves, doubled))
    return [(_feature(1, 2, 6), math.sin(10000 ** (-4 / 6))), (waves[-1], doubled[-1]), (inside, stated)]


def _e33() -> Numbers:
    radius = (_table(6, 200)[:, :2] ** 2).sum(1)
    positions = torch.arange(200, dtype=torch.float64)
    stated = positions.sin() ** 2 + (positions * 10000 ** (-2 / 6)).cos() ** 2
    ends = [(float(of(radius)), float(of(stated))) for of in (torch.min, torch.max)]
    return [(_feature(3, 1, 6), math.cos(3 * 10000 ** (-2 / 6))), *ends]


def _e19() -> Numbers:
    return [(1 / _radians(4)[1], 10.0), (math.sin(0.1), 0.00999983), _feature(1, 2, 4)]


def _e21() -> Numbers:
    return [(math.sin(1), 0.0), _feature(0, 0, 4), (_feature(1, 0, 4), math.sin(2))]


def _e22() -> Numbers:
    frequency = _radians(_PAPER)[128]
    return [1 / frequency, (frequency, 100.0), wavelengths_of(_PAPER)[128]]


def _e24() -> Numbers:
    radians = _radians(_PAPER)
    faster = sum(later > earlier for earlier, later in pairwise(radians))
    return [radians[0], radians[-1], (faster, len(radians) - 1)]


def _e34() -> Numbers:
    return [(_LONGEST_WAVE, wavelengths_of(_PAPER, base=1000.0)[-1]), (_feature(1, 2, 6), _feature(1, 2, 6, 1000.0))]


def _e2() -> Numbers:
    listing = "print(\N{LEFT SINGLE QUOTATION MARK}sin\N{RIGHT SINGLE QUOTATION MARK})"
    try:
        compile(listing, "listing", "exec")
    except SyntaxError as error:
        return [ord(listing[(error.offset or 1) - 1])]
    return []


# What sinusoids do


def _first_rise(width: int) -> float:
    return measure_geometry(_table(width, 200)).first_rise or math.nan


def _e5() -> Numbers:
    return [_first_rise(64), _first_rise(_PAPER), (math.cos(0.5), 2 * math.cos(1)), math.cos(3), math.cos(6)]


def _e8() -> Numbers:
    table = _table(_PAPER, 201)
    shares = table[0] @ table.T / (_PAPER / 2)
    return [_first_rise(_PAPER), (int((shares[1:] > shares[:-1]).sum()), 0), float(shares[200])]


def _e6() -> Numbers:
    waves = wavelengths_of(_PAPER).tolist()
    moved = sum(each > 0 for each in _radians(_PAPER))
    return [(moved, 1), (waves[0] / waves[1], 0.0), waves[1] / waves[0]]


def _exact_match(scheme: str) -> tuple[float, float]:
    """Return the mean shares of right copies of letters in the record, in percent: at seen lengths, and at unseen."""
    record = read_record("unseen_lengths")
    shares, longest = record["exact"][scheme], record["training"]["longest"]
    seen, unseen = (sum(part) / len(part) for part in (shares[:longest], shares[longest:]))
    return seen, unseen


def _e7() -> Numbers:
    seen, unseen = _exact_match("sinusoidal")
    return [_largest(sinusoid_table(torch.tensor(100_000), _PAPER)), seen, (unseen, seen)]


def _e9() -> Numbers:
    angles = [49 * radians for radians in _radians(_PAPER)]
    table = _table(_PAPER, 50)
    moving = int((table.amax(0) - table.amin(0) > 0.1).sum())
    return [*(sum(angle > least for angle in angles) for least in (0.1, 1)), moving]


def _e11() -> Numbers:
    table = _table(64, 105)
    query, key = _normal(2, 64, 64) / 8
    scores = ((table @ query.T) * (table @ key.T).roll(-5, 0)).sum(1)
    residual = _largest(table[:100] @ shift_matrix(64, 5).T - table[5:])
    apart = float((table[3] - table[13]).norm())
    return [(apart, 0.0), residual, float(scores[0]), (float(scores[50]), float(scores[0]))]


# Attention and the architecture


def _base_model() -> TransformerConfig:
    return preset("base", source_vocab_size=37_000, target_vocab_size=37_000)


def _small_model(layers: int) -> Transformer:
    sizes = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": layers, "decoder_layers": layers}
    with seeded():
        config = TransformerConfig(source_vocab_size=12, target_vocab_size=12, dropout=0.0, **sizes)
        return Transformer(config).double().eval()


def _e14() -> Numbers:
    with seeded():
        attention = SelfAttention(BlockSettings(d_model=6, d_ff=6, heads=3)).double()
    x = torch.ones(6, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(attention.query_key_value(x)[:2].sum(), x)
    base = _base_model()
    return [(int((gradient != 0).sum()), 2), (base.d_model, base.d_model // base.heads)]


def _e15() -> Numbers:
    base, tokens = _base_model(), 10
    with torch.device("meta"):
        weight = SelfAttention(base.blocks()).output.weight
    return [tokens * base.d_model, (weight.numel(), tokens * base.d_model)]


def _e39() -> Numbers:
    base = _base_model()
    head = base.d_model // base.heads
    return [(math.sqrt(head), math.sqrt(base.d_model)), (math.sqrt(base.d_model / head), 1.0)]


def _e16() -> Numbers:
    def skewness(x: Tensor) -> float:
        return float(((x - x.mean()) ** 3).mean() / x.var(unbiased=False) ** 1.5)

    # The features of each token are those of an exponential distribution, far from a normal one.
    spread = -torch.log((torch.arange(512, dtype=torch.float64) + 0.5) / 512)
    tokens = torch.stack([spread, 2 * spread + 1, 5 * spread - 3])
    normed = layer_norm(tokens, nn.LayerNorm(512, dtype=torch.float64)).detach()
    means: list[Any] = [
        float(normed[1].mean()),
        float(normed[1].var(unbiased=False)),
        (float(normed[:, 0].mean()), 0.0),
    ]
    return [*means, skewness(tokens[1]), (skewness(normed[1]), 0.0)]


def _e17() -> Numbers:
    q, k, v = _normal(3, 1, 1, 8, 8)
    padding, causal = Mask.from_lengths(torch.tensor([5]), 8), Mask(causal=True)
    parts = ((q, causal), (q[:, :, -1:], causal), (q[:, :, :5], padding))
    return [(_largest(attend(part, k, v, mask) - attend(part, k, v, Mask())), 0.0) for part, mask in parts]


def _e35() -> Numbers:
    model = _small_model(layers=3)
    source, lengths = torch.arange(2, 8)[None], torch.tensor([6])

    def keys() -> list[Tensor]:
        return [k for k, _ in model.decoder.start(model.encode(source, lengths), lengths).cross]

    with torch.no_grad():
        before = keys()
        # Only the last layer of the encoder is changed: whoever reads another layer would not notice.
        for parameter in model.encoder.layers[-1].parameters():
            parameter.mul_(1.5)
        after = keys()
    return [(sum(not torch.allclose(old, new) for old, new in zip(before, after, strict=True)), 1)]


def _e38() -> Numbers:
    model = _small_model(layers=2)
    source, target, lengths = torch.arange(2, 8)[None], torch.tensor([[1, 5, 3, 8, 4, 9, 7, 6]]), torch.tensor([6])
    with torch.no_grad():
        at_once = model(source, lengths, target)
        parts = [model(source, lengths, target[:, : n + 1])[:, -1] for n in range(target.shape[1])]
    return [(1, target.shape[1]), _largest(at_once - torch.stack(parts, dim=1))]


# Rotary positions and longer contexts


def _explained(scaling: NTKAware | YaRN | Unscaled) -> Explanation:
    return explain_frequencies(scaling, _HEAD, 10000.0, max_length=None if scaling.reach else _TRAINED)


def _e36() -> Numbers:
    places, rotary, drawn = torch.arange(100), Rotary(16), torch.Generator().manual_seed(SEED)
    word, other = torch.randn(2, 1, 1, 1, 16, generator=drawn, dtype=torch.float64)
    query, key = torch.randn(2, 16, 16, generator=drawn, dtype=torch.float64) / 4

    def turned(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return rotary.rotate(q.expand(1, 1, 100, 16), k.expand(1, 1, 100, 16), places + 3, places)

    q, k = turned(word @ query.T, other @ key.T)
    x, y = turned(word, other)
    return [(float((q * k).sum(-1).std()), float(((x @ query.T) * (y @ key.T)).sum(-1).std()))]


def _e25() -> Numbers:
    radians = [float(each) for each in Unscaled().frequencies(2048, 10000.0)]
    return [(radians[1], 0.99976), (len(radians) - 1, 2047), radians[-1]]


def _e26() -> Numbers:
    width, length = 4096, 8192  # of Llama 3 8B
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    sizes = {"hidden_size": width, "max_position_embeddings": length, "rope_theta": 500000.0}
    config = read_huggingface({"model_type": "llama", **sizes, **heads}).config
    return [(config.head_dim, width // length), len(config.frequencies())]


def _e27() -> Numbers:
    narrow, wide = wavelengths_of(64)[-1], wavelengths_of(1024)[-1]
    return [narrow, (wide, 16 * narrow), wavelengths_of(64, base=500000.0)[-1]]


def _e28() -> Numbers:
    pairs = _explained(NTKAware(original_length=_TRAINED, factor=_FACTOR)).pairs
    return [1 / pairs[number].ratio for number in (0, 32, 63)]


def _e29() -> Numbers:
    yarn, ntk = (_explained(scaling(original_length=_TRAINED, factor=_FACTOR)) for scaling in (YaRN, NTKAware))
    ramp = [pair.index for pair in yarn.pairs if 1e-9 < 1 - pair.ratio < 1 - 1 / _FACTOR - 1e-9]
    middle = ramp[len(ramp) // 2]
    slowed = (1 / yarn.pairs[middle].ratio, 1 / ntk.pairs[middle].ratio)
    return [ramp[0], len(ramp), len(yarn.pairs) - ramp[0] - len(ramp), slowed, (yarn.attention_temperature, 1.0)]


def _e30() -> Numbers:
    ids = torch.arange(2, 14)[None]
    found = []
    for scheme in ("rotary", "alibi"):
        sizes = {"layers": 2, "d_model": 32, "d_ff": 64, "heads": 4}
        with seeded():
            model = LanguageModel(LanguageModelConfig(vocab_size=16, position=scheme, **sizes)).double().eval()
        with torch.no_grad():
            at_once, cache = model(ids), model.start()
            steps = [model.step(ids[:, n : n + 1], cache) for n in range(ids.shape[1])]
        found.append(_largest(torch.cat(steps, dim=1) - at_once))
    return found


def _e31() -> Numbers:
    plain = _explained(Unscaled())
    slowest = plain.pairs[-1].frequency_before
    seen, unseen = _exact_match("rotary")
    angles = [(_TRAINED - 1) * slowest, (4 * _TRAINED - 1) * slowest]
    return [(len(plain.incomplete_pairs), 0), *angles, seen, (unseen, seen)]


def _e37() -> Numbers:
    rotary, zeros = Rotary(_HEAD), torch.zeros(512, dtype=torch.long)
    identity = torch.eye(_HEAD, dtype=torch.float64)[None, None]
    turned, _ = rotary.rotate(identity, identity, torch.full((_HEAD,), 1000), zeros[:_HEAD])
    query = _normal(1, 1, 1, _HEAD)
    # A query and a key that look for 200 tokens back: the key is the query turned by 200 tokens.
    key, _ = rotary.rotate(query, query, torch.tensor([200]), zeros[:1])
    q, k = rotary.rotate(query.expand(1, 1, 512, -1), key.expand(1, 1, 512, -1), torch.arange(512), zeros)
    return [float((turned**2).sum() / _HEAD), _first_rise(_HEAD), (int((q * k).sum(-1).argmax()), 0)]
