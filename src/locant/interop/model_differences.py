"""Everything in which a model differs from what another format can express, said at once.

A model is trained for hours before it is exported, so that a message which named one difference at a time would cost a
training for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from locant.errors import ConfigError
from locant.models.config import TransformerConfig


@dataclass(frozen=True)
class Difference:
    """Something that another format cannot express.

    Attributes:
        theirs: What the format has, after "has".
        ours: What this model is or has instead, after "this one".
        settings: Those with which a model could be exported, as on the command line.
    """

    theirs: str
    ours: str
    settings: str


def layer_differences(config: TransformerConfig, norm: Literal["pre", "post"]) -> list[Difference]:
    """Return how the layers of a model differ from plain ones.

    Args:
        config: Of the model.
        norm: Where the norms of the other format are.
    """
    found = []
    if config.norm != norm:
        found.append(Difference(f"{norm}-norm layers", f"is {config.norm}-norm", f"model.norm={norm}"))
    if config.feed_forward not in ("relu", "gelu", "silu"):
        ours = f"has the gated {config.feed_forward}"
        found.append(Difference("no gated feed-forward", ours, "model.feed_forward=relu (or gelu, silu)"))
    return found


def require_none(name: str, differences: list[Difference]) -> None:
    """Raise ConfigError that names all differences and the settings without them.

    Args:
        name: Of the format.
        differences: Those that were found.
    """
    if not differences:
        return
    said = "; ".join(f"has {each.theirs}, and this one {each.ours}" for each in differences)
    settings = " ".join(each.settings for each in differences)
    raise ConfigError(
        f"A model for {name} {said}. Train one with {settings}, or export this one to ctranslate2 or onnx."
    )
