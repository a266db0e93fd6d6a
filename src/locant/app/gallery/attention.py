"""The numbers behind the figures of schemes that act in attention."""

from __future__ import annotations

import torch

from locant.figures import HeadBiases
from locant.figures.drawing import Numbers
from locant.positions import AttentionShape, build_scheme, sinusoid_frequencies
from locant.positions.relative import RelativeBias

_SEED = 0


def rotary_bound(*, head_dim: int, reach: int, base: float) -> tuple[Numbers, Numbers]:
    """Return the upper bound of a rotary score at distances 0 to ``reach``, up to a factor of the contents.

    Source: Su et al. 2021, "RoFormer", section 3.4.3, which bounds a score by summation by parts::

        |score(m, n)| <= max_i |h_(i+1) - h_i| * sum_(j=1)^(d/2) |S_j|        S_j = sum_(i=0)^(j-1) e^(i (m-n) theta_i)

    and plots the mean of ``|S_j|``, which is returned.

    Args:
        head_dim: Even number of rotated features, ``d``.
        reach: Largest distance in tokens.
        base: Base of the frequencies.

    Returns:
        Distances and bounds, ``[reach + 1]`` each.

    Raises:
        ConfigError: ``head_dim`` or ``base`` is out of range.
    """
    distances = torch.arange(reach + 1)
    angles = sinusoid_frequencies(head_dim, base=base).angles(distances)
    sums = torch.hypot(angles.cos().cumsum(-1), angles.sin().cumsum(-1))
    return distances.double().numpy(), sums.mean(-1).numpy()


BIASES = {"alibi": "ALiBi", "t5": "T5", "kerple": "KERPLE", "fire": "FIRE", "sandwich": "Sandwich"}
"""Schemes that add a bias to the score, and how the figures call them."""


def head_biases(scheme: str, *, length: int, d_model: int, heads: int = 8) -> HeadBiases:
    """Return a scheme's score biases of each head at distances 0 to ``length - 1``, the key before the query.

    Trained schemes have their initial values, drawn from a fixed seed.

    Args:
        scheme: A key of :data:`BIASES`.
        length: Number of distances.
        d_model: Width of the model, which sets the scale of T5's initial values.
        heads: Number of heads.

    Returns:
        Values ``[heads, length]`` with what they are.

    Raises:
        ConfigError: A value is out of range.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        built = build_scheme(scheme, AttentionShape(d_model, heads, causal=True))
        assert isinstance(built, RelativeBias)
        values = built.bias(-torch.arange(length)).double().numpy()
    trained = any(True for _ in built.parameters())
    title = f"{BIASES[scheme]} (initial values)" if trained else f"{BIASES[scheme]} (fixed)"
    return HeadBiases(title, values, stepped=scheme == "t5")
