"""Arguments for a small model of transformers that is watched: a text, and what its class wants beside one."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

_TOKEN = 7
_CHANNELS = ("num_channels", "num_codebooks")
_STATES = re.compile(r"_(states?|embeds|embeddings)$")
_COUNT = re.compile(r"^num_\w+$")
_IDS = re.compile(r"_ids$")
_SAMPLES = re.compile(r"^input_values$")
_MASK_OF_IMAGES = re.compile(r"^image_attention_mask$")
_WIDTH = re.compile(r"^(cross_)?(hidden|embed|input|d|n)_?(size|dim|model|embd)(_\w+)?$")
_GIVEN = re.compile(r"mask|position|past|cache|_ids$|hidden_states|residual|bias|router|lengths")
_TEXT = frozenset(["input_ids", "inputs_embeds", "position_ids", "decoder_input_ids", "decoder_position_ids"])
_MOST = 60  # calls that are tried
_SOUND = 4096  # samples, a quarter of a second: a few frames of an encoder of speech


def text_inputs(accepted: Mapping[str, Any], positions: Sequence[int], model: nn.Module | None) -> dict[str, Any]:
    """Return arguments for a text of one token again and again.

    Args:
        accepted: Parameters of the model's ``forward``.
        positions: Positions in tokens.
        model: With a model, its embeddings stand in the place of ids, if the class takes them; otherwise nothing does.
    """
    ids = torch.full((1, len(positions)), _TOKEN)
    tokens: dict[str, Any] = {"input_ids": ids, "decoder_input_ids": ids}
    if model is not None:
        width = getattr(getattr(model, "config", None), "hidden_size", None)
        if "inputs_embeds" not in accepted or not isinstance(width, int):
            return {}
        tokens = {"inputs_embeds": _random(1, 1, width).expand(1, len(positions), width).clone()}
    given = {
        **tokens,
        "position_ids": torch.tensor([list(positions)]),
        "decoder_position_ids": torch.tensor([list(positions)]),
        "use_cache": False,
    }
    return {name: value for name, value in given.items() if name in accepted}


def more_inputs(model: nn.Module, positions: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield arguments for classes that compute nothing from a text alone, the plainest first.

    Such classes want hidden states of another stack of layers, what images became, or an id for each of several
    channels of a token. What an argument is follows from its name; how wide it is, from the sizes in the configuration,
    which are tried one after the other.

    Args:
        model: The model.
        positions: Positions of its tokens.
    """
    accepted = inspect.signature(model.forward).parameters
    length = len(positions)
    asked = list(_of_the_model(accepted))
    states = [*(name for name in asked if _STATES.search(name)), *_of_its_layers(model, accepted)]
    beside: dict[str, Any] = {name: 1 for name in asked if _COUNT.search(name)}
    beside |= {name: torch.zeros(1, length, dtype=torch.long) for name in asked if _IDS.search(name)}
    beside |= {name: _random(1, _SOUND) for name in asked if _SAMPLES.search(name)}
    beside |= {name: torch.ones(1, length, 1) for name in asked if _MASK_OF_IMAGES.search(name)}
    texts = [text_inputs(accepted, positions, None), text_inputs(accepted, positions, model)]
    every = (
        {**_in_channels(text, accepted, channels), **beside, **dict.fromkeys(names, vectors)}
        for names in ((), *((name,) for name in states), tuple(states))
        for channels in _channels(model)
        for text in texts
        if text
        for vectors in (_vectors(model, length) if names else (None,))
    )
    plain = set(texts[0])
    yield from itertools.islice((each for each in every if set(each) != plain or _has_channels(each)), _MOST)


def _of_the_model(accepted: Mapping[str, Any]) -> Iterator[str]:
    for name in accepted:
        known = (_STATES, _COUNT, _IDS, _SAMPLES, _MASK_OF_IMAGES)
        if name not in _TEXT and any(each.search(name) for each in known):
            yield name


def _of_its_layers(model: nn.Module, accepted: Mapping[str, Any]) -> Iterator[str]:
    """Yield what layers take from the model's keyword arguments, and nothing else gives them."""
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values()):
        return
    found = {
        name
        for module in model.modules()
        if "Layer" in type(module).__name__
        for name, each in inspect.signature(module.forward).parameters.items()
        if each.default is None and "Tensor" in str(each.annotation) and not _GIVEN.search(name)
    }
    yield from sorted(found - set(accepted))


def _channels(model: nn.Module) -> list[int | None]:
    """Return how many ids a token may have: one, or one for each channel that the configuration counts."""
    counts = [getattr(config, name, None) for config in _configs(model) for name in _CHANNELS]
    return [None, *dict.fromkeys(each for each in counts if isinstance(each, int))]


def _in_channels(text: Mapping[str, Any], accepted: Mapping[str, Any], channels: int | None) -> dict[str, Any]:
    """Return a text whose last stack of layers reads so many ids a token."""
    name = "decoder_input_ids" if "decoder_input_ids" in accepted else "input_ids"
    if channels is None or name not in text:
        return dict(text)
    return {**text, name: text[name][..., None].expand(-1, -1, channels).clone()}


def _has_channels(given: Mapping[str, Any]) -> bool:
    return any(
        isinstance(each, torch.Tensor) and each.ndim == 3 and each.dtype == torch.long for each in given.values()
    )


def _vectors(model: nn.Module, length: int) -> Iterator[Tensor]:
    """Yield hidden states of another stack: of one token, of as many as the text has; and of one image."""
    widths = dict.fromkeys(
        value
        for config in _configs(model)
        for name, value in vars(config).items()
        if _WIDTH.search(name) and isinstance(value, int) and value
    )
    for count, width in itertools.product((1, length), widths):
        yield _random(1, count, width)
    for width in widths:
        yield _random(1, 1, 1, width)


def _configs(model: nn.Module) -> list[Any]:
    """Return the configurations of a model and of its parts."""
    config = getattr(model, "config", None)
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return [each for each in (config, *parts) if each is not None]


def _random(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))
