"""Score biases: what is added to an attention score at each distance, head by head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.errors import ConfigError
from locant.figures.drawing import Figure, Numbers, colour_scale, draw_image, label, panels, shared_legend
from locant.figures.numbers import example_scheme
from locant.figures.palette import FAINT, head_shades
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, read_record
from locant.positions import SCHEMES, AttentionShape, PositionScheme
from locant.positions.registry import build_scheme

_HEADS = 8
_FAR = 512  # tokens up to which it is asked whether distances share values


def distance_biases(scheme: PositionScheme, length: int) -> Numbers | None:
    """Return the bias ``[H, length]`` of keys 0, 1, 2 ... tokens before a query, where the distance alone sets it."""
    keys, query = torch.arange(length), torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        # A query at 0 and keys before it: a bias may depend on more than the distance far from the beginning.
        found = scheme.distance_bias(query, -keys)
    return None if found is None else found[0].flip(-1).double().numpy()


def numbers(*, length: int = 200, run: Path | None = None) -> dict[str, Any]:
    """Return the biases ``[H, length]`` of every such scheme by title, fixed or as a small model learned them.

    Args:
        length: Number of distances; the learned ones are recorded up to 200.
        run: A run folder, for what its model has learned instead.

    Raises:
        ConfigError: The model is no Transformer, or its scheme is not a bias of the distance.
    """
    found: dict[str, Any] = {}
    if run is not None:
        _, model = load_trained(run, "bias")
        name, stepped = model.config.position, set()
        for title, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            values, far = (distance_biases(stack.scheme(0), reach) for reach in (length, _FAR))
            if values is None or far is None:
                raise ConfigError(
                    f"The model of {run} tells positions by '{name}', which is no bias of the distance. Leave out "
                    "--run for the biases of other schemes."
                )
            found[f"{name}, {title} of {run.name}"] = values
            if (np.diff(far) == 0).mean() > 0.5:  # most distances have the value of their neighbour
                stepped.add(f"{name}, {title} of {run.name}")
        return {"stepped": stepped, **found}
    shape = AttentionShape(64 * _HEADS, _HEADS, causal=True)
    for name, scheme in SCHEMES.items():
        example = example_scheme(name)
        if example.acts_on == {"scores"} and not list(example.parameters()):
            values = distance_biases(build_scheme(name, shape), length)
            if values is not None:
                found[f"{scheme.title} (fixed)"] = values
    for name, recorded in read_record("biases")["schemes"].items():
        found[f"{SCHEMES[name].title} (learned)"] = np.array(recorded)[:, :length]
    return {"stepped": {f"{SCHEMES['t5'].title} (learned)"}, **found}


def draw(stepped: set[str], **schemes: Any) -> Figure:
    """Draw the biases of several schemes, one line a head; of those whose distances share values, one row a head."""
    figure, found = panels(len(schemes), min(3, len(schemes)), width=11 / 3 * min(3, len(schemes)), height=3.3)
    heads = len(next(iter(schemes.values())))
    for axes, (title, values) in zip(found, schemes.items(), strict=False):
        label(axes, title, "distance of the key, tokens", "head" if title in stepped else "added to the score")
        if title in stepped:
            place = (-0.5, values.shape[1] - 0.5, heads + 0.5, 0.5)
            colour_scale(axes, draw_image(axes, values, aspect="auto", extent=place))
            axes.set_yticks(range(1, heads + 1))
        else:
            for head, shade in enumerate(head_shades(heads)):
                axes.plot(values[head], color=shade, linewidth=1.5, label=f"head {head + 1}")
            axes.axhline(0, color=FAINT, linewidth=0.8)
            axes.set_xlim(0, values.shape[1] - 1)
    if len(stepped) < len(schemes):
        shared_legend(figure, found, heads)
    return figure


register_figure("bias", numbers, draw, limits={"length": (2, 200)})
