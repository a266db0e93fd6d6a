"""The figures of attention without a trained model, against NumPy, autograd and the formulas of the paper."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from locant.errors import ConfigError, DataError, UsageError
from locant.figures import draw_figure


def panels(figure: Any) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}


def visible(kind: str, query: int, key: int) -> bool:
    """The rules in words; the source has 4 real tokens, and the first packed text 3."""
    return {
        "Padding": key < 4,
        "Causal": key <= query,
        "Causal, one new token": True,
        "Packed": (query < 3) == (key < 3),
        "Packed and causal": (query < 3) == (key < 3) and key <= query,
        "Cross": key < 4,
    }[kind]


def test_masks() -> None:
    drawn = draw_figure("masks")
    shown = panels(drawn.figure)
    assert list(shown) == ["Padding", "Causal", "Causal, one new token", "Packed", "Packed and causal", "Cross"]
    for kind, axes in shown.items():
        queries, keys = drawn.data[kind].shape
        allowed = np.array([[visible(kind, query, key) for key in range(keys)] for query in range(queries)])
        np.testing.assert_allclose(drawn.data[kind], allowed / allowed.sum(1, keepdims=True))
        cells = {tuple(map(int, text.get_position()[::-1])): text.get_text() for text in axes.texts[: allowed.size]}
        for (query, key), seen in np.ndenumerate(allowed):
            count = allowed[query].sum()
            assert cells[query, key] == (("1" if count == 1 else f"1/{count}") if seen else "0")
        assert np.ma.getmaskarray(axes.images[0].get_array()).tolist() == (~allowed).tolist()
        assert len(axes.get_xticklabels()) == keys
        assert len(axes.get_yticklabels()) == queries


def test_scores_grow_with_the_width_unless_they_are_divided() -> None:
    drawn = draw_figure("dot-product-scaling")
    widths = drawn.data["widths"]
    assert widths.tolist() == [2**power for power in range(11)]
    # Var(q . k) = d_k (Vaswani et al. 2017, footnote 4), with the sampling error of 256 queries and 64 keys.
    deviations = np.abs(drawn.data["variance: q · k"] / widths - 1)
    assert (deviations < 3 * np.sqrt((2 / 256 + 2 / 64) / widths)).all()
    np.testing.assert_allclose(drawn.data["variance: q · k / √d_k"], drawn.data["variance: q · k"] / widths)
    for label, divided in (("q · k", False), ("q · k / √d_k", True)):
        for index in (0, 6, 10):
            width = int(widths[index])
            source = torch.Generator().manual_seed(width)
            q = torch.randn(1, 1, 256, width, generator=source, dtype=torch.float64)[0, 0].numpy()
            k = torch.randn(1, 1, 64, width, generator=source, dtype=torch.float64)[0, 0].numpy()
            scores = q @ k.T / (math.sqrt(width) if divided else 1)
            exponents = np.exp(scores - scores.max(1, keepdims=True))
            weights = exponents / exponents.sum(1, keepdims=True)
            logarithms = np.log(np.maximum(weights, 1e-300))
            assert drawn.data[f"entropy: {label}"][index] == pytest.approx(-(weights * logarithms).sum(1).mean())
            jacobians = torch.func.vmap(torch.func.jacrev(lambda s: s.softmax(0)))(torch.from_numpy(scores))
            quartiles = np.quantile(jacobians.flatten(1).norm(dim=1).numpy(), [0.25, 0.5, 0.75])
            np.testing.assert_allclose(drawn.data[f"gradient: {label}"][index], quartiles, atol=1e-8)
            if width == 64:
                np.testing.assert_allclose(drawn.data[f"weights: {label}"], np.sort(weights[0])[::-1], atol=1e-12)
    gradients = drawn.data["gradient: q · k"][:, 1], drawn.data["gradient: q · k / √d_k"][:, 1]
    assert gradients[0][-1] < 0.05 * gradients[1][-1]
    drawn_variance = panels(drawn.figure)["Variance of the scores"]
    np.testing.assert_allclose(drawn_variance.lines[0].get_ydata(), drawn.data["variance: q · k"])


def test_steps_of_attention_follow_from_each_other() -> None:
    drawn = draw_figure("attention-steps")
    data = {re.sub(r"[\\$,{}]|text", "", title): values for title, values in drawn.data.items()}
    embeddings, added, x = data["embeddings cdotsqrtd"], data["+ position"], data["= X"]
    np.testing.assert_allclose(embeddings + added, x, atol=1e-6)
    # Section 3.5 of Vaswani et al. 2017 for 5 positions and 6 features.
    angles = np.arange(5)[:, None] / 10000 ** (np.array([0, 0, 2, 2, 4, 4]) / 6)
    expected = np.where(np.arange(6) % 2, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(added, expected, atol=1e-6)
    q, k, v = data["Q = XW_Q"], data["K = XW_K"], data["V = XW_V"]
    contexts = []
    for head in range(3):
        own = slice(2 * head, 2 * head + 2)
        name = f" head {head + 1}"
        products = q[:, own] @ k[:, own].T
        np.testing.assert_allclose(data["Q_h K_h^T" + name], products, atol=1e-5)
        scores = products / math.sqrt(2)
        np.testing.assert_allclose(data["/sqrtd_k" + name], scores, atol=1e-5)
        scores[np.triu_indices(5, 1)] = -np.inf
        np.testing.assert_allclose(data["mask" + name], scores, atol=1e-5)
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        np.testing.assert_allclose(data["softmax" + name], weights, atol=1e-5)
        np.testing.assert_array_equal(data["V_h" + name], v[:, own])
        contexts.append(weights @ v[:, own])
        np.testing.assert_allclose(data["softmax cdotV_h" + name], contexts[-1], atol=1e-5)
    np.testing.assert_allclose(data["heads concatenated"], np.hstack(contexts), atol=1e-5)
    np.testing.assert_allclose(np.hstack(contexts) @ data["W_O"], data["output =  heads cdotW_O"], atol=1e-5)


def test_numbers_in_the_cells_are_those_of_the_steps() -> None:
    drawn = draw_figure("attention-steps", text="to be or not to be", stack="encoder")
    axes = drawn.figure.axes[0]
    values = drawn.data[r"embeddings $\cdot\,\sqrt{d}$"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["to", "be", "or", "not", "to", "be"]
    written = [float(text.get_text().replace("\N{MINUS SIGN}", "-")) for text in axes.texts[:36]]
    np.testing.assert_allclose(written, values.ravel(), atol=0.0051)
    np.testing.assert_array_equal(values[0], values[4])  # the same word
    assert not any(np.isinf(matrix).any() for matrix in drawn.data.values())  # nothing to hide in an encoder
    shapes = [
        text.get_text()
        for one in drawn.figure.axes
        for text in one.texts
        if "\N{MULTIPLICATION SIGN}" in text.get_text()
    ]
    assert shapes == ["6 × 6"] * 10 + ["6 × 2"] * 2 + ["6 × 6"] * 3


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"stack": "middle"}, UsageError, "--stack is encoder or decoder; got 'middle'"),
        ({"text": " "}, DataError, "--text must have 1 to 8 words"),
        ({"text": "a " * 9}, DataError, "got 9"),
        ({"layer": 0}, UsageError, "--layer of the figure 'attention-steps' must be 1 to 64; got 0"),
    ],
)
def test_mistakes_about_steps(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        draw_figure("attention-steps", **options)


def layer_parameters(width: int, inner: int, attentions: int) -> int:
    """Attention with four matrices and biases, a feed-forward, and a norm after each (the paper, section 3)."""
    return attentions * (4 * width**2 + 4 * width) + 2 * width * inner + inner + width + (attentions + 1) * 2 * width


def words_of(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_architecture_of_the_paper() -> None:
    drawn = draw_figure("architecture")
    assert drawn.data["parameters"].tolist() == [6 * layer_parameters(512, 2048, 1), 6 * layer_parameters(512, 2048, 2)]
    for name, shape in drawn.data.items():
        if name.startswith("shape"):
            side = 10 if "encoder" in name else 8
            assert shape.tolist()[1] == (37000 if name == "shape output" else 512)
            assert shape.tolist()[0] == (side if "encoder" in name or "decoder" in name else shape[0])
    words = words_of(drawn.figure)
    # From below, as in the paper's Figure 1: each sub-layer, its sum, its norm.
    order = [
        w
        for w in words
        if w in ("Self-attention", "Masked self-attention", "Cross-attention", "Feed-forward", "+", "Layer norm")
    ]
    first = ["Self-attention", "+", "Layer norm", "Feed-forward", "+", "Layer norm"]
    second = [
        "Masked self-attention",
        "+",
        "Layer norm",
        "Cross-attention",
        "+",
        "Layer norm",
        "Feed-forward",
        "+",
        "Layer norm",
    ]
    assert order == first + second
    assert words.count("positions: Sinusoidal") == words.count("\N{MULTIPLICATION SIGN} 6") == 2
    assert "8 heads: Q 8 × 64, K, V 10 × 64" in words
    assert "weights 8 × 10" in words
    assert words.index("positions: Sinusoidal") < words.index("Self-attention")


def test_architecture_follows_the_model() -> None:
    model = {"norm": "pre", "position": "rotary", "encoder_layers": 2, "heads": 1, "d_model": 64, "preset": "tiny"}
    drawn = draw_figure("architecture", model=model)
    words = words_of(drawn.figure)
    order = [w for w in words if w in ("Self-attention", "Feed-forward", "+", "Layer norm")]
    assert order[:7] == ["Layer norm", "Self-attention", "+", "Layer norm", "Feed-forward", "+", "Layer norm"]
    assert words.count("positions: RoPE turns Q and K") == 2  # in self-attention alone
    assert "1 head: Q, K, V 10 × 64" in words
    assert {"\N{MULTIPLICATION SIGN} 2", "\N{MULTIPLICATION SIGN} 4"} <= set(words)
    assert drawn.data["parameters"][0] == 2 * layer_parameters(64, 256, 1) + 2 * 64
    assert any(
        "adds to the scores" in word for word in words_of(draw_figure("architecture", model={"position": "t5"}).figure)
    )
    assert not any(
        "positions" in word for word in words_of(draw_figure("architecture", model={"position": "none"}).figure)
    )
    with pytest.raises(ConfigError, match="Did you mean 'heads'"):
        draw_figure("architecture", model={"head": 2})
    with pytest.raises(ConfigError, match="draws a Transformer, not the architecture rnn"):
        draw_figure("architecture", model={"architecture": "rnn"})


def test_teacher_forcing() -> None:
    drawn = draw_figure("teacher-forcing")
    first, second = (drawn.data[f"{what} Training, target 1 of the batch"].tolist() for what in ("reads", "says"))
    assert first == ["(begin)", "ein", "Hund", "rennt", "(pad)", "(pad)"]
    assert second == ["ein", "Hund", "rennt", "(end)", "", ""]
    reads, says = (drawn.data[f"{what} Translating: its own words"].tolist() for what in ("reads", "says"))
    assert reads[1:] == says[:-1]  # it reads what it said
    words = [text.get_text() for axes in drawn.figure.axes for text in (*axes.texts, *axes.get_yticklabels())]
    assert words.count("not\ncounted") == words.count("(pad)") == words.count("must say") == 2
