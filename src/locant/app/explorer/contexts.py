"""The numbers of the page about longer contexts: what each scaling does to every pair of a rotary model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from locant.app.explorer.encodings import LARGEST_BASE
from locant.app.explorer.limits import number, text, whole
from locant.app.explorer.panels import Curves, Panel, Picture
from locant.app.gallery.attention import LONG_FACTORS, first_unseen_position
from locant.errors import UsageError
from locant.extension import Inspection, inspect_model
from locant.positions import RotaryConfig
from locant.positions.scaling import (
    Explanation,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Unscaled,
    YaRN,
)

PICTURES = ("slowed", "wavelengths")

WIDEST_HEAD = 512
LONGEST_CONTEXT = 10**9
LONGEST_CONFIG = 1_000_000

# Llama 3's formula needs room between its two borders, and NTK-by-parts likewise; two tokens have none.
_SHORTEST_CONTEXT = 16


@dataclass(frozen=True)
class Scaled:
    """What one scaling makes of a model.

    Attributes:
        name: What the field calls it.
        explanation: What becomes of every pair.
        first_unseen: First position that turns a pair to an angle that training never showed, in tokens; ``None``
            where there is none up to the wanted length.
    """

    name: str
    explanation: Explanation
    first_unseen: int | None


def scaled_models(head: Any, base: Any, trained: Any, wanted: Any) -> list[Scaled]:
    """Return what every scaling makes of a rotary model.

    LongRoPE's factors are searched for each model. Those of Phi-3-mini stand for them, spread over the pairs that
    there are.

    Args:
        head: Features of a head, all rotated.
        base: Base of the frequencies.
        trained: Length trained, in tokens.
        wanted: Length to be read, in tokens.

    Raises:
        UsageError: A value is no number or out of range.
        ConfigError: The values contradict each other.
    """
    head = whole("Head size", head, 2, WIDEST_HEAD)
    if head % 2:
        raise UsageError(f"Head size must be even, because features are turned in pairs; got {head}.")
    base = number("Base", base, 1.1, LARGEST_BASE)
    trained = whole("Trained length", trained, _SHORTEST_CONTEXT, LONGEST_CONTEXT)
    wanted = whole("Wanted length", wanted, trained, LONGEST_CONTEXT)
    return _models(head, base, trained, wanted)


@lru_cache(maxsize=4)  # for the pictures and for the table
def _models(head: int, base: float, trained: int, wanted: int) -> list[Scaled]:
    places = np.linspace(0, len(LONG_FACTORS) - 1, head // 2)
    factors = tuple(np.interp(places, range(len(LONG_FACTORS)), LONG_FACTORS).tolist())
    lengths: dict[str, Any] = {"original_length": trained, "target_length": wanted}
    scalings: dict[str, FrequencyScaling] = {
        "none": Unscaled(),
        "PI": Linear(**lengths),
        "NTK": NTKAware(**lengths),
        "NTK-by-parts": NTKByParts(**lengths),
        "YaRN": YaRN(**lengths),
        "LongRoPE": LongRoPE(**lengths, short_factors=(1.0,) * len(factors), long_factors=factors),
        "Llama 3": Llama3(**lengths),
    }
    return [_scaled(name, scaling, head, base, trained, wanted) for name, scaling in scalings.items()]


def _scaled(name: str, scaling: FrequencyScaling, head: int, base: float, trained: int, wanted: int) -> Scaled:
    declared = trained if isinstance(scaling, Unscaled) else None
    config = RotaryConfig(head_dim=head, base=base, scaling=scaling, max_length=declared)
    explanation = config.explain(length=wanted)
    return Scaled(name, explanation, first_unseen_position(explanation))


def pictures(head: Any, base: Any, trained: Any, wanted: Any) -> dict[str, Picture]:
    """Return how much each scaling slows every pair down, and how long its turns are then.

    Arguments and errors as for :func:`scaled_models`.
    """
    scaled_models(head, base, trained, wanted)  # says what cannot be before any picture is wanted
    values = (head, base, trained, wanted)
    return {"slowed": Picture(_slowed, values), "wavelengths": Picture(_wavelengths, values)}


def _slowed(*values: float) -> Curves:
    models = scaled_models(*values)
    trained, wanted = _lengths(models)
    return Curves(
        "How much each pair is slowed down",
        "1 leaves a pair as it was trained; the dashed line slows it as much as the text becomes longer.",
        np.arange(len(models[0].explanation.pairs)), "pair, the fastest first",
        {model.name: np.array([1 / pair.ratio for pair in model.explanation.pairs]) for model in models},
        "slowed by", references={f"{wanted / trained:.4g} times": wanted / trained},
        logarithmic=True,
    )  # fmt: skip


def _wavelengths(*values: float) -> Curves:
    models = scaled_models(*values)
    trained, wanted = _lengths(models)
    return Curves(
        "Tokens of a full turn",
        "A pair below the trained length has shown every angle in training; one above it meets new ones in longer "
        "texts, unless it is slowed down.",
        np.arange(len(models[0].explanation.pairs)), "pair, the fastest first",
        {model.name: np.array([pair.scaled_wavelength for pair in model.explanation.pairs]) for model in models},
        "tokens a turn", references={"trained length": trained, "wanted length": wanted},
        logarithmic=True,
    )  # fmt: skip


def _lengths(models: list[Scaled]) -> tuple[int, int]:
    explanation = models[0].explanation
    assert explanation.trained_length is not None
    assert explanation.effective_length is not None
    return explanation.trained_length, explanation.effective_length


def summary(models: list[Scaled]) -> list[tuple[str, ...]]:
    """Return a table, names of columns first: what becomes of how many pairs, and where angles are new."""
    rows: list[tuple[str, ...]] = [("method", "pairs", "scores multiplied by", "new angles")]
    for model in models:
        fates = ", ".join(f"{count} {fate}" for fate, count in model.explanation.counts.items())
        unseen = "none" if model.first_unseen is None else f"from token {model.first_unseen:,}"
        rows.append((model.name, fates, f"{model.explanation.attention_scale**2:.4g}", unseen))
    return rows


def inspect_text(content: Any) -> Inspection:
    """Return what a pasted ``config.json`` means, and what is wrong with it.

    Args:
        content: Its text.

    Raises:
        UsageError: It is empty, too long or no JSON object.
    """
    content = text("The configuration", content, LONGEST_CONFIG)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        # Whatever cannot be said in UTF-8 is no configuration; the reader says so.
        path.write_text(content, encoding="utf-8", errors="surrogatepass")
        try:
            return inspect_model(path)
        except UsageError as error:
            raise UsageError(str(error).replace(str(path), "The pasted text")) from None


def layer_pictures(inspection: Inspection) -> Mapping[str, Panel]:
    """Return for each kind of layers the wavelengths of its pairs, before and after its scaling."""
    reading = inspection.reading
    found: dict[str, Panel] = {}
    for layer, config in ({} if reading is None else reading.configs).items():
        explanation = config.explain()
        lengths = {"trained": explanation.trained_length, "effective": explanation.effective_length}
        found[layer] = Curves(
            f"{layer} layers: tokens of a full turn",
            "Every pair before and after the scaling.",
            np.arange(len(explanation.pairs)), "pair, the fastest first",
            {
                "before": np.array([pair.wavelength for pair in explanation.pairs]),
                "after": np.array([pair.scaled_wavelength for pair in explanation.pairs]),
            },
            "tokens a turn",
            references={f"{name} length": float(length) for name, length in lengths.items() if length},
            logarithmic=True,
        )  # fmt: skip
    return found
