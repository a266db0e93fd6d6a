"""Errata on rotary positions, key-value caches and longer contexts."""

from __future__ import annotations

import torch

from locant.analysis import measure_geometry
from locant.figures.errata.entry import Erratum, Value
from locant.figures.errata.geometry import exact_match
from locant.figures.numbers import SEED, seeded, wavelengths_of
from locant.models import LanguageModel, LanguageModelConfig
from locant.positions import (
    Explanation,
    NTKAware,
    Rotary,
    YaRN,
    explain_frequencies,
    sinusoid_table,
)
from locant.positions.scaling import Unscaled
from locant.rotary_configs import read_huggingface

_HEAD, _TRAINED, _FACTOR = 128, 4096, 4
_ROFORMER = "Su et al. 2021, “RoFormer”"
_YARN = "Peng et al. 2023, “YaRN”"

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


ERRATA = (
    Erratum(
        key="e36",
        title="What is rotated",
        statement="Rotary embedding rotates the word embeddings before they enter the first layer.",
        why="Queries and keys are rotated, after their projections, in every layer; embeddings and values are not. "
        "Only so does a score depend on the offset alone: rotations of q and k meet in the product as one of n &minus; "
        "m.",
        formula="(R<sub>m</sub> q)<sup>T</sup> (R<sub>n</sub> k) = q<sup>T</sup> R<sub>n&minus;m</sub> k",
        values=_rotated,
        source=f"{_ROFORMER}, section 3.2.2, equations 14 to 16",
        figures=("architecture", "distance"),
    ),
    Erratum(
        key="e25",
        title="The list of theta",
        statement="For d = 2048 the list of theta begins 1, 0.99976 and ends at i = 2047.",
        why="θ<sub>1</sub> is 10000<sup>&minus;2/2048</sup>. There is one θ for each pair of features, so that i ends "
        "at d/2 &minus; 1.",
        formula="θ<sub>i</sub> = 10000<sup>&minus;2i/d</sup>, &nbsp; i = 0 … d/2 &minus; 1",
        values=_thetas,
        source=f"{_ROFORMER}, section 3.2.2 (there i counts from 1, with 2(i &minus; 1)/d)",
        figures=("spectrum", "tutorial-errors"),
        example="d = 2048\ntheta = [1, 0.99976, ...]\n",
    ),
    Erratum(
        key="e26",
        title="The d of RoPE",
        statement="d is the embedding size divided by the context length, `d = embedding_size // context_length`.",
        why="d is the number of features of one head, or of the part of them that is rotated. The length of the "
        "context has no place in the formula.",
        formula="d = width / heads",
        values=_head_dim,
        source=f"{_ROFORMER}, section 3.2.2",
        figures=("spectrum", "architecture"),
    ),
    Erratum(
        key="e27",
        title="A larger d for a longer context",
        statement="A larger d gives longer waves and so extends the context.",
        why="More features put more waves between the same two ends; the longest stays below 2π times the base. What "
        "moves the ends is the base, or a scaling of the frequencies; and what a model can read depends on the lengths "
        "it was trained on.",
        formula="λ<sub>d/2&minus;1</sub> = 2π · b<sup>1&minus;2/d</sup> &lt; 2π b",
        values=_width,
        source=f"{_ROFORMER}, section 3.2.2; {_YARN}, section 3",
        figures=("tutorial-errors", "spectrum"),
    ),
    Erratum(
        key="e28",
        title="What NTK slows",
        statement="NTK-aware scaling slows the low dimensions most.",
        why="The other way round. A larger base changes the pair i by a power of i: the fastest pair not at all, the "
        "slowest by the full factor. That was its point, to spare the high frequencies.",
        formula="b&prime; = b · s<sup>d/(d&minus;2)</sup>, &nbsp; θ&prime;<sub>i</sub> / θ<sub>i</sub> = "
        "s<sup>&minus;2i/(d&minus;2)</sup>",
        values=_slowed,
        source=f"{_YARN}, section 3.1",
        figures=("spectrum",),
    ),
    Erratum(
        key="e29",
        title="YaRN's middle band",
        statement="YaRN leaves the fast pairs, interpolates the slow ones and uses NTK for those in the middle.",
        why="Between the two is a linear ramp, a mixture of the frequency as it is and the interpolated one; there is "
        "no changed base in it. YaRN moreover divides the scores by a temperature.",
        formula="θ&prime;<sub>i</sub> = (1 &minus; &gamma;<sub>i</sub>) θ<sub>i</sub> / s + &gamma;<sub>i</sub> "
        "θ<sub>i</sub>, &nbsp; 1/√t = 0.1 ln s + 1",
        values=_ramp,
        source=f"{_YARN}, sections 3.2 (the ramp) and 3.4 (the temperature)",
        figures=("spectrum",),
    ),
    Erratum(
        key="e30",
        title="Relative positions and the cache",
        statement="Relative positions make a key-value cache hard, because all distances change with every new token.",
        why="The distances between keys and the new query do, the keys do not. A bias is added to the scores of the "
        "new query, and the keys are kept as they are; with RoPE each key is kept rotated by its own position, once, "
        "since the product makes the difference of the two.",
        formula="(R<sub>m</sub> q)<sup>T</sup> (R<sub>n</sub> k) = q<sup>T</sup> R<sub>n&minus;m</sub> k",
        values=_cache,
        source=f"{_ROFORMER}, section 3.2.2, equation 16; Press et al. 2022, section 3",
        figures=("bias", "masks"),
    ),
    Erratum(
        key="e31",
        title="RoPE beyond the trained length",
        statement="RoPE is relative and so handles positions that training never showed.",
        why="Relative positions beyond the trained length are as new as absolute ones. The slow pairs, which made no "
        "full turn in training, come to angles that the model never met, and quality breaks down soon after the "
        "trained length. That is why PI, NTK and YaRN exist.",
        values=_unseen,
        source=f"{_YARN}, section 2; Chen et al. 2023, “Extending Context Window of Large Language Models via "
        "Positional Interpolation”, section 2",
        figures=("spectrum", "criteria"),
    ),
    Erratum(
        key="e37",
        title="Long-term decay",
        statement="With RoPE the attention between two tokens decays with their distance.",
        why="What decays, in ripples, is a bound on the score. The scores themselves need not: for queries and "
        "keys that know nothing of each other they are as large at any distance, and a head can make any distance its "
        "favourite, by the rotation between query and key.",
        formula="|score| ≤ max<sub>i</sub> |h<sub>i+1</sub> &minus; h<sub>i</sub>| · Σ<sub>j</sub> |S<sub>j</sub>|",
        values=_bound,
        source=f"{_ROFORMER}, section 3.4.3; Barbero et al. 2024, “Round and Round We Go! What Makes Rotary Positional "
        "Encodings Useful?”",
        figures=("distance",),
    ),
)
