"""The values that decide about errata on attention, the architecture and rotary positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from locant.analysis import measure_geometry
from locant.figures.errata.entry import Value
from locant.figures.errata.values import exact_match
from locant.figures.numbers import SEED, seeded, wavelengths_of
from locant.models import LanguageModel, LanguageModelConfig, SelfAttention, Transformer, TransformerConfig, preset
from locant.models.config import BlockSettings
from locant.models.layer_norm import layer_norm
from locant.positions import (
    Explanation,
    Mask,
    NTKAware,
    Rotary,
    YaRN,
    attend,
    explain_frequencies,
    sinusoid_table,
)
from locant.positions.scaling import Unscaled
from locant.rotary_configs import read_huggingface

_LENGTH = 8


_DIFFERENCE = "{:.3f}"


def _base_model() -> TransformerConfig:
    """Return the base model of the paper."""
    return preset("base", source_vocab_size=37_000, target_vocab_size=37_000)


def _small_model(layers: int = 2) -> Transformer:
    config = TransformerConfig(
        source_vocab_size=12,
        target_vocab_size=12,
        d_model=16,
        d_ff=32,
        heads=2,
        dropout=0.0,
        encoder_layers=layers,
        decoder_layers=layers,
    )
    with seeded():
        return Transformer(config).double().eval()


def _drawn(length: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    q, k, v = torch.randn(3, 1, 1, length, 8, generator=generator, dtype=torch.float64)
    return q, k, v


def _heads() -> list[Value]:
    width, heads = 6, 3
    with seeded():
        attention = SelfAttention(BlockSettings(d_model=width, d_ff=width, heads=heads)).double()

    x = torch.ones(width, dtype=torch.float64, requires_grad=True)
    attention.query_key_value(x)[: width // heads].sum().backward()
    assert x.grad is not None
    base = _base_model()
    return [
        Value("features that the queries of one head read, d = 6, 3 heads", int((x.grad != 0).sum()), width // heads),
        Value(
            "rows of one head's W<sub>Q</sub> in the base model (its columns: 64)",
            base.d_model,
            base.d_model // base.heads,
        ),
    ]


def _output_matrix() -> list[Value]:
    base, tokens = _base_model(), 10
    with torch.device("meta"):
        attention = SelfAttention(base.blocks())
    rows, columns = attention.output.weight.T.shape
    return [
        Value("numbers in the concatenated values of 10 tokens, 10 &times; 512", tokens * base.d_model),
        Value(
            "numbers in W<sub>O</sub>, 512 &times; 512, whatever the number of tokens",
            rows * columns,
            tokens * base.d_model,
        ),
    ]


def _skewness(x: Tensor) -> float:
    centred = x - x.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _norm() -> list[Value]:
    width = 512
    # The features of each token are those of an exponential distribution, far from a normal one.
    spread = -torch.log((torch.arange(width, dtype=torch.float64) + 0.5) / width)
    tokens = torch.stack([spread, 2 * spread + 1, 5 * spread - 3])
    normed = layer_norm(tokens, nn.LayerNorm(width, dtype=torch.float64)).detach()
    return [
        Value("mean of one token's features after the norm", float(normed[1].mean()), form="{:.2f}"),
        Value("variance of one token's features after the norm", float(normed[1].var(unbiased=False)), form="{:.2f}"),
        Value("mean of one feature over the tokens after the norm", float(normed[:, 0].mean()), 0.0, form="{:.2f}"),
        Value(
            "skewness of one token's features before the norm (of a normal distribution 0)",
            _skewness(tokens[1]),
            form="{:.2f}",
        ),
        Value("after the norm", _skewness(normed[1]), 0.0, form="{:.2f}"),
    ]


def _masks() -> list[Value]:
    q, k, v = _drawn(_LENGTH)
    whole = attend(q, k, v, Mask(causal=True)) - attend(q, k, v, Mask())
    newest = attend(q[:, :, -1:], k, v, Mask(causal=True)) - attend(q[:, :, -1:], k, v, Mask())
    padding = Mask.from_lengths(torch.tensor([5]), _LENGTH)
    padded = attend(q[:, :, :5], k, v, padding) - attend(q[:, :, :5], k, v, Mask())
    return [
        Value(
            "a whole text of 8 tokens in one pass: largest change when the causal mask is left out",
            float(whole.abs().max()),
            0.0,
            _DIFFERENCE,
        ),
        Value("one new token against 8 cached keys: the same", float(newest.abs().max()), 0.0, _DIFFERENCE),
        Value(
            "5 tokens beside 3 of padding: largest change when the padding mask is left out",
            float(padded.abs().max()),
            0.0,
            _DIFFERENCE,
        ),
    ]


def _memory() -> list[Value]:
    layers = 3
    model = _small_model(layers)
    source = torch.arange(2, 8)[None]

    def keys(source: Tensor) -> list[Tensor]:
        memory = model.encode(source, torch.tensor([source.shape[1]]))
        return [k for k, _ in model.decoder.start(memory, torch.tensor([source.shape[1]])).cross]

    with torch.no_grad():
        before = keys(source)
        # Only the last layer of the encoder is changed: whoever reads another layer would not notice.
        for parameter in model.encoder.layers[-1].parameters():
            parameter.mul_(1.5)
        after = keys(source)
    changed = sum(not torch.allclose(old, new) for old, new in zip(before, after, strict=True))
    return [Value("decoder layers, of 3, whose keys change with the last layer of the encoder", changed, 1)]


def _teacher() -> list[Value]:
    model = _small_model()
    source, target = torch.arange(2, 8)[None], torch.tensor([[1, 5, 3, 8, 4, 9, 7, 6]])
    lengths = torch.tensor([source.shape[1]])
    with torch.no_grad():
        at_once = model(source, lengths, target)
        one_by_one = torch.stack(
            [model(source, lengths, target[:, : n + 1])[:, -1] for n in range(target.shape[1])], dim=1
        )
    return [
        Value("passes through the decoder for a training sentence of 8 tokens", 1, target.shape[1]),
        Value(
            "largest difference between that pass and eight of growing length",
            float((at_once - one_by_one).abs().max()),
            form=_DIFFERENCE,
        ),
    ]


def _divisor_of_scores() -> list[Value]:
    base = _base_model()
    head = base.d_model // base.heads
    return [
        Value(
            "divisor of the scores in the base model, √d<sub>k</sub>",
            math.sqrt(head),
            math.sqrt(base.d_model),
            "{:.1f}",
        ),
        Value("by how much scores divided by √d are too small", math.sqrt(base.d_model / head), 1.0, "{:.2f} times"),
    ]


_HEAD, _TRAINED, _FACTOR = 128, 4096, 4


# The sizes of Llama 3 8B.
_LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}


def _explained(scaling: NTKAware | YaRN | Unscaled) -> Explanation:
    return explain_frequencies(scaling, _HEAD, 10000.0, max_length=None if scaling.reach else _TRAINED)


def _ntk() -> Explanation:
    return _explained(NTKAware(original_length=_TRAINED, factor=_FACTOR))


def _yarn() -> Explanation:
    return _explained(YaRN(original_length=_TRAINED, factor=_FACTOR))


def _thetas() -> list[Value]:
    radians = [float(each) for each in Unscaled().frequencies(2048, 10000.0)]
    return [
        Value("θ<sub>1</sub>, d = 2048", radians[1], 0.99976, "{:.5f}"),
        Value("the last i", len(radians) - 1, 2047),
        Value("the last θ", radians[-1], form="{:.7f}"),
    ]


def _head_dim() -> list[Value]:
    config = read_huggingface(_LLAMA).config
    width, length = int(str(_LLAMA["hidden_size"])), int(str(_LLAMA["max_position_embeddings"]))
    return [
        Value(
            "d of the rotary embedding of a model with width 4096, 32 heads and 8,192 positions",
            config.head_dim,
            width // length,
        ),
        Value("its rotated pairs", len(config.frequencies())),
    ]


def _width() -> list[Value]:
    narrow, wide = wavelengths_of(64)[-1], wavelengths_of(1024)[-1]
    return [
        Value("longest wave, d = 64", narrow, form="{:,.0f} tokens"),
        Value("longest wave, d = 1024 (16 times as wide)", wide, 16 * narrow, "{:,.0f} tokens"),
        Value("longest wave, d = 64 and base 500,000", wavelengths_of(64, base=500000.0)[-1], form="{:,.0f} tokens"),
    ]


def _slowed() -> list[Value]:
    pairs = _ntk().pairs
    return [
        Value(
            "NTK-aware, factor 4, D = 128: how much the fastest pair is slowed (i = 0)",
            1 / pairs[0].ratio,
            form="{:.2f} times",
        ),
        Value("the middle one (i = 32)", 1 / pairs[32].ratio, form="{:.2f} times"),
        Value("the slowest one (i = 63)", 1 / pairs[63].ratio, form="{:.2f} times"),
    ]


def _ramp() -> list[Value]:
    yarn, ntk = _yarn(), _ntk()
    ramp = [pair.index for pair in yarn.pairs if 1e-9 < 1 - pair.ratio < 1 - 1 / _FACTOR - 1e-9]
    middle = ramp[len(ramp) // 2]
    kept = sum(pair.index < ramp[0] for pair in yarn.pairs)
    return [
        Value("YaRN, factor 4 from 4,096 tokens, D = 128: pairs kept as they are", kept),
        Value("pairs on the ramp between", len(ramp)),
        Value("pairs fully interpolated", len(yarn.pairs) - kept - len(ramp)),
        Value(
            f"how much pair {middle}, in the middle of the ramp, is slowed",
            1 / yarn.pairs[middle].ratio,
            1 / ntk.pairs[middle].ratio,
            "{:.2f} times",
        ),
        Value("temperature that scores are divided by", yarn.attention_temperature, 1.0, "{:.3f}"),
    ]


def _cache() -> list[Value]:
    ids = torch.arange(2, 14)[None]
    found = []
    for scheme, kept in (("rotary", "keys kept rotated by their own position"), ("alibi", "keys kept as they are")):
        sizes = {"layers": 2, "d_model": 32, "d_ff": 64, "heads": 4}
        with seeded():
            model = LanguageModel(LanguageModelConfig(vocab_size=16, position=scheme, **sizes)).double().eval()
        with torch.no_grad():
            at_once, cache = model(ids), model.start()
            steps = torch.cat([model.step(ids[:, n : n + 1], cache) for n in range(ids.shape[1])], dim=1)
        found.append(
            Value(
                f"{scheme}, {kept}: largest difference between a cache and one pass over the text, 12 tokens",
                float((steps - at_once).abs().max()),
                form="{:.4f}",
            )
        )
    return found


def _unseen() -> list[Value]:
    plain = _explained(Unscaled())
    slowest = plain.pairs[-1]
    return [
        Value("pairs, of 64, without a full turn within 4,096 trained tokens, D = 128", len(plain.incomplete_pairs), 0),
        Value(
            "angle of the slowest pair at position 4,095, the largest of training",
            (_TRAINED - 1) * slowest.frequency_before,
            form="{:.2f} rad",
        ),
        Value("at position 16,383", (4 * _TRAINED - 1) * slowest.frequency_before, form="{:.2f} rad"),
        Value(
            "copying letters, trained on 1 to 20 of them: right answers at 1 to 20",
            exact_match("rotary", "seen"),
            form="{:.1f} %",
        ),
        Value(
            "the same model at 21 to 40 letters",
            exact_match("rotary", "unseen"),
            exact_match("rotary", "seen"),
            "{:.1f} %",
        ),
    ]


def _rotated() -> list[Value]:
    width, offset, places = 16, 3, 100
    rotary = Rotary(width)
    generator = torch.Generator().manual_seed(SEED)
    word, other = torch.randn(2, 1, 1, 1, width, generator=generator, dtype=torch.float64)
    query, key = torch.randn(2, width, width, generator=generator, dtype=torch.float64) / width**0.5
    positions = torch.arange(places)

    def turned(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = (1, 1, places, width)
        return rotary.rotate(q.expand(size), k.expand(size), positions + offset, positions)

    q, k = turned(word @ query.T, other @ key.T)
    right = (q * k).sum(-1)
    x, y = turned(word, other)
    wrong = ((x @ query.T) * (y @ key.T)).sum(-1)
    return [
        Value(
            "the same two words 3 tokens apart, at 100 places: standard deviation of their score, queries and keys "
            "rotated",
            float(right.std()),
            float(wrong.std()),
            "{:.3f}",
        ),
    ]


def _bound() -> list[Value]:
    rotary, far = Rotary(_HEAD), 1000
    identity = torch.eye(_HEAD, dtype=torch.float64)[None, None]
    turned, _ = rotary.rotate(identity, identity, torch.full((_HEAD,), far), torch.zeros(_HEAD, dtype=torch.long))
    generator = torch.Generator().manual_seed(SEED)
    query = torch.randn(1, 1, 1, _HEAD, generator=generator, dtype=torch.float64)
    # A query and a key that look for 200 tokens back: the key is the query turned by 200 tokens.
    key, _ = rotary.rotate(query, query, torch.tensor([200]), torch.tensor([0]))
    distances = torch.arange(512)
    q, k = rotary.rotate(query.expand(1, 1, 512, -1), key.expand(1, 1, 512, -1), distances, torch.zeros_like(distances))
    rise = measure_geometry(sinusoid_table(torch.arange(200), _HEAD)).first_rise
    assert rise is not None
    return [
        Value(
            "mean square of the scores of independent queries and keys at distance 1,000, by that at distance 0",
            float((turned**2).sum() / _HEAD),
            form="{:.2f}",
        ),
        Value("equal queries and keys of ones: first distance at which the score rises, D = 128", rise),
        Value(
            "distance with the largest score, of a query and a key made for 200 tokens",
            int((q * k).sum(-1).argmax()),
            0,
        ),
    ]


TRANSFORMER_VALUES: dict[str, Callable[[], Sequence[Value]]] = {
    "e14": _heads,
    "e15": _output_matrix,
    "e16": _norm,
    "e17": _masks,
    "e25": _thetas,
    "e26": _head_dim,
    "e27": _width,
    "e28": _slowed,
    "e29": _ramp,
    "e30": _cache,
    "e31": _unseen,
    "e35": _memory,
    "e36": _rotated,
    "e37": _bound,
    "e38": _teacher,
    "e39": _divisor_of_scores,
}
"""What computes the values of an erratum, by its key."""
