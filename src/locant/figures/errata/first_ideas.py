"""Errata on order, on numbering words, and on what is drawn of either."""

from __future__ import annotations

import torch
from torch import nn

from locant.figures.errata.entry import Erratum, Value
from locant.figures.masks import mask_weights
from locant.figures.numbers import seeded
from locant.models import LanguageModel, LanguageModelConfig, Transformer, TransformerConfig
from locant.models.layer_norm import layer_norm
from locant.positions import Binary, Index, Learned, Mask, sinusoid_table


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


ERRATA = (
    Erratum(
        key="e3",
        title="No order at all without positions",
        statement="Without positional encodings a Transformer has no notion of order: shuffle the words and nothing "
        "changes.",
        why="True of an encoder, where every word sees every other: shuffled words give the same vectors, shuffled. A "
        "causal decoder is told something by its mask: the first word sees one word, the tenth sees ten, and from the "
        "second layer on that shows in what the words before have become. Such models infer positions to some degree, "
        "if less well than with a code.",
        values=_order,
        source="Haviv et al. 2022, “Transformer Language Models without Positional Encodings Still Learn Positional "
        "Information”; Kazemnejad et al. 2023, “The Impact of Positional Encoding on Length Generalization in "
        "Transformers”, theorems 1 and 2",
        figures=("masks", "criteria"),
    ),
    Erratum(
        key="e13",
        title="Why not learned codes",
        statement="Learned position embeddings were rejected because their values would grow with the position.",
        why="What grows is the integer index. A learned table has one free vector for each position, and nothing makes "
        "the five hundredth larger than the first. The paper tried learned codes, found the two nearly identical "
        "(Table 3, row E: BLEU 25.7 against 25.8, perplexity 4.92 both) and kept the sinusoids in the hope of longer "
        "sentences than those of training.",
        values=_learned,
        source="Vaswani et al. 2017, section 3.5 and Table 3, row (E); Gehring et al. 2017, section 3.1",
        figures=("heatmaps", "criteria"),
    ),
    Erratum(
        key="e18",
        title="Adding the index",
        statement="To mark the positions, 0, 1, 2, 3 are added to the features of the embedding.",
        why="That adds the same vector to every word and says nothing of where it stands. With the index, position p "
        "adds one number, p: to all features alike, or better to one, because a layer norm takes away whatever all "
        "features share.",
        formula="x<sub>p</sub> ← x<sub>p</sub> + p&thinsp;(1, 1, … 1)",
        values=_one_number,
        source="Gehring et al. 2017, section 3.1 (which replaces the index by learned vectors); Ba et al. 2016, "
        "section 3 (layer norm)",
        figures=("heatmaps", "clocks"),
    ),
    Erratum(
        key="e20",
        title="Labels of the rows",
        statement="A table of codes whose rows are labelled 0, 1, 2, 4.",
        why="Rows are positions, counted from 0 without a gap; the fourth is position 3. It is a slip of the pen, but "
        "whoever checks the row against the formula takes the formula for wrong.",
        values=_labels,
        source="Vaswani et al. 2017, section 3.5",
        figures=("heatmap", "waves"),
        example="0: [ 0.     1.     0.     1.    ]\n1: [ 0.8415 0.5403 0.01   1.    ]\n"
        "2: [ 0.9093 -0.4161 0.02  0.9998]\n4: [ 0.1411 -0.99  0.03   0.9996]\n",
    ),
    Erratum(
        key="e23",
        title="Four bits against sixteen",
        statement="To tell 16 tokens apart the binary code needs 4 bits instead of the 16 bits of the sine code.",
        why="The sine code has no bits: it has d floating-point numbers, whatever the number of tokens. It does not "
        "save space; it is smooth, so that near positions are near, and a shift is a rotation.",
        values=_bits,
        source="Vaswani et al. 2017, section 3.5",
        figures=("clocks", "heatmaps"),
    ),
)
