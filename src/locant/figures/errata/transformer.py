"""Errata on attention, norms, masks and the architecture of Vaswani et al. 2017."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from locant.figures.errata.entry import Erratum, Value
from locant.figures.numbers import SEED, seeded
from locant.models import SelfAttention, Transformer, TransformerConfig, preset
from locant.models.config import BlockSettings
from locant.models.layer_norm import layer_norm
from locant.positions import Mask, attend

_LENGTH = 8
_DIFFERENCE = "{:.3f}"


def _base() -> TransformerConfig:
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
    base = _base()
    return [
        Value("features that the queries of one head read, d = 6, 3 heads", int((x.grad != 0).sum()), width // heads),
        Value(
            "rows of one head's W<sub>Q</sub> in the base model (its columns: 64)",
            base.d_model,
            base.d_model // base.heads,
        ),
    ]


def _output_matrix() -> list[Value]:
    base, tokens = _base(), 10
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


def _divisor() -> list[Value]:
    base = _base()
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


ERRATA = (
    Erratum(
        key="e14",
        title="What a head receives",
        statement="The embedding is cut into slices, and every head gets one of them.",
        why="Every head reads the whole embedding and projects it to d<sub>k</sub> features of its own. What programs "
        "cut is the result of one large projection, in which the heads lie side by side.",
        formula="head<sub>j</sub> = Attention(X W<sub>Q,j</sub>, X W<sub>K,j</sub>, X W<sub>V,j</sub>), &nbsp; "
        "W<sub>Q,j</sub> ∈ &#8477;<sup>d &times; d<sub>k</sub></sup>",
        values=_heads,
        source="Vaswani et al. 2017, section 3.2.2",
        figures=("attention-steps", "architecture"),
    ),
    Erratum(
        key="e15",
        title="The size of W<sub>O</sub>",
        statement="W<sub>O</sub> is a matrix of the same size as the concatenated attention value.",
        why="The concatenated value has a row for each token, L &times; h d<sub>v</sub>. W<sub>O</sub> has h "
        "d<sub>v</sub> rows and d columns; it is a weight and cannot know the length of a sentence.",
        formula="MultiHead(Q, K, V) = Concat(head<sub>1</sub>, … head<sub>h</sub>) W<sub>O</sub>, &nbsp; "
        "W<sub>O</sub> ∈ &#8477;<sup>h d<sub>v</sub> &times; d</sup>",
        values=_output_matrix,
        source="Vaswani et al. 2017, section 3.2.2",
        figures=("attention-steps", "architecture"),
    ),
    Erratum(
        key="e39",
        title="The square root of what",
        statement="The scores are divided by the square root of the embedding's dimension: "
        "`scores / math.sqrt(d_model)`.",
        why="By that of a head's dimension, d<sub>k</sub> = d / h. The dot product of d<sub>k</sub> independent "
        "features has variance d<sub>k</sub>, and the division makes it 1. With √d and eight heads the scores are too "
        "small by √8, and the softmax starts too flat.",
        formula="softmax(Q K<sup>T</sup> / √d<sub>k</sub>) V",
        values=_divisor,
        source="Vaswani et al. 2017, section 3.2.1, equation 1 and footnote 4",
        figures=("dot-product-scaling", "attention-steps"),
    ),
    Erratum(
        key="e16",
        title="What layer norm does",
        statement="Layer norm normalises each dimension, so that its values follow a normal distribution.",
        why="It takes mean and variance over the features of one token; over the tokens, for one dimension, is what "
        "batch norm does. Either gives mean 0 and variance 1 and leaves the shape of the distribution as it was: "
        "standardised is not normal.",
        formula="y = (x &minus; mean<sub>e</sub>(x)) / √(var<sub>e</sub>(x) + ε) · g + b",
        values=_norm,
        source="Ba et al. 2016, “Layer Normalization”, section 3, equation 3",
        figures=("layer-norm",),
    ),
    Erratum(
        key="e17",
        title="Masks after training",
        statement="When testing no mask is needed, because there is no future to hide.",
        why="True while one token is decoded at a time and the keys of the earlier ones are cached. A pass over a "
        "whole text, as for its likelihood or a prompt, needs the causal mask as in training, or the model reads what "
        "it is asked to say; and sentences of unequal length in a batch need the padding mask always.",
        values=_masks,
        source="Vaswani et al. 2017, section 3.2.3, third bullet",
        figures=("masks", "teacher-forcing"),
    ),
    Erratum(
        key="e35",
        title="Which layer the decoder reads",
        statement="Each encoder layer hands its output to the decoder layer of the same number.",
        why="All decoder layers read the output of the last encoder layer. The layers' pictures stand side by side, "
        "and that may be where the sentence comes from.",
        values=_memory,
        source="Vaswani et al. 2017, section 3.2.3, first bullet, and Figure 1",
        figures=("architecture",),
    ),
    Erratum(
        key="e38",
        title="Word by word in training",
        statement="In training, too, the decoder writes its sentence one word after the other.",
        why="Only when it translates. In training it reads the whole right sentence, shifted by one, and the causal "
        "mask hides from every position what it must say: all words are predicted in one pass, which is why the "
        "Transformer trains so fast.",
        values=_teacher,
        source="Vaswani et al. 2017, sections 3.1 and 3.2.3",
        figures=("teacher-forcing", "masks", "recurrence"),
    ),
)
