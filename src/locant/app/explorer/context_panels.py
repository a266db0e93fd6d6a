"""Panels about longer contexts: what each scaling does to every pair of a rotary model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from locant.app.explorer.knobs import Number
from locant.app.explorer.limits import text, whole
from locant.app.explorer.panels import Curves, Panel, Picture
from locant.app.explorer.scheme_panels import LARGEST_BASE
from locant.errors import UsageError
from locant.extension import Inspection, inspect_model
from locant.figures.spectrum import Scaled, compare_scalings

PICTURES = ("slowed", "wavelengths")

WIDEST_HEAD = 512
LONGEST_CONTEXT = 10**9
LONGEST_CONFIG = 1_000_000

# Llama 3's formula needs room between its two borders, and NTK-by-parts likewise; two tokens have none.
_SHORTEST_CONTEXT = 16

HEAD = Number(
    name="head",
    label="Head size",
    lowest=2,
    highest=WIDEST_HEAD,
    hint=f"2 to {WIDEST_HEAD}, even",
    step=2,
    scale="ratio",
)
BASE = Number(
    name="base",
    label="Base",
    lowest=1.1,
    highest=LARGEST_BASE,
    hint="above 1; often called theta",
    fraction=True,
    scale="ratio",
)
TRAINED, WANTED = (
    Number(
        name=name,
        label=f"{name.capitalize()} length",
        lowest=_SHORTEST_CONTEXT,
        highest=LONGEST_CONTEXT,
        hint="tokens",
        scale="doubling",
    )
    for name in ("trained", "wanted")
)
NUMBERS = (HEAD, BASE, TRAINED, WANTED)

# That of Llama 3.1 8B, as it is published.
EXAMPLE_CONFIG = """{
  "model_type": "llama",
  "hidden_size": 4096,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192
  }
}"""


def scaled_models(head: Any, base: Any, trained: Any, wanted: Any) -> list[Scaled]:
    """Return what every scaling makes of a rotary model, as :func:`~locant.figures.spectrum.compare_scalings`.

    Args:
        head: Features of a head, all rotated.
        base: Base of the frequencies.
        trained: Length trained, in tokens.
        wanted: Length to be read, in tokens.

    Raises:
        UsageError: A value is no number or out of range.
        ConfigError: The values contradict each other.
    """
    head = int(HEAD.check(head))
    if head % 2:
        raise UsageError(f"Head size must be even, because features are turned in pairs; got {head}.")
    base, trained = BASE.check(base), int(TRAINED.check(trained))
    wanted = whole(WANTED.label, wanted, trained, LONGEST_CONTEXT)
    return _models(head, base, trained, wanted)


_models = lru_cache(maxsize=4)(compare_scalings)  # for the pictures and for the table


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
        np.arange(len(models[0].explanation.pairs)),
        "pair, the fastest first",
        {model.name: np.array([1 / pair.ratio for pair in model.explanation.pairs]) for model in models},
        "slowed by",
        references={f"{wanted / trained:.4g} times": wanted / trained},
        logarithmic=True,
    )


def _wavelengths(*values: float) -> Curves:
    models = scaled_models(*values)
    trained, wanted = _lengths(models)
    return Curves(
        "Tokens of a full turn",
        "A pair below the trained length has shown every angle in training; one above it meets new ones in longer "
        "texts, unless it is slowed down.",
        np.arange(len(models[0].explanation.pairs)),
        "pair, the fastest first",
        {model.name: np.array([pair.scaled_wavelength for pair in model.explanation.pairs]) for model in models},
        "tokens a turn",
        references={"trained length": trained, "wanted length": wanted},
        logarithmic=True,
    )


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
            return inspect_model(path, ask_class=False)  # anybody's text: nothing is built from it
        except UsageError as error:
            raise UsageError(str(error).replace(str(path), "The pasted text")) from None


def layer_pictures(inspection: Inspection) -> Mapping[str, Panel]:
    """Return for each kind of layers the wavelengths of its pairs, before and after its scaling."""
    parsed = inspection.parsed
    found: dict[str, Panel] = {}
    for layer, config in ({} if parsed is None else parsed.configs).items():
        explanation = config.explain()
        lengths = {"trained": explanation.trained_length, "effective": explanation.effective_length}
        found[layer] = Curves(
            f"{layer} layers: tokens of a full turn",
            "Every pair before and after the scaling.",
            np.arange(len(explanation.pairs)),
            "pair, the fastest first",
            {
                "before": np.array([pair.wavelength for pair in explanation.pairs]),
                "after": np.array([pair.scaled_wavelength for pair in explanation.pairs]),
            },
            "tokens a turn",
            references={f"{name} length": float(length) for name, length in lengths.items() if length},
            logarithmic=True,
        )
    return found
