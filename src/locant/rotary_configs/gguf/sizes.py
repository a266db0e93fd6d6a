"""Sizes of heads and of their rotated part in GGUF files, as llama.cpp's loader takes them.

Source: ``load_hparams`` in ``llama-model.cpp``; ``llama_hparams::n_rot`` and ``n_embd_head_k``, which graphs of one
size ask for the first layer.
"""

from __future__ import annotations

from collections.abc import Sequence

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.base import number_of_layers
from locant.rotary_configs.gguf.architectures import (
    FULL_AS_FIRST,
    HALVES_FULL_ATTENTION,
    OWN_HEADS,
    OWN_SIZES,
    ROTATES_WHOLE_HEADS,
    SEPARATE_PART,
    SIZES_BY_LATENT,
    WHOLE_HEADS,
)
from locant.rotary_configs.gguf.windows import first_layer_slides, sliding_layers

_HEADS = "attention.head_count"
_SIZE = "rope.dimension_count"
_SWA = "_swa"
_SIZES_OF_FIRST_LAYER = frozenset(("modern-bert",))  # whose weights hold queries and keys of all layers in one shape


def sizes_of(keys: Fields, architecture: str, findings: list[Finding], *, has_own: bool = False) -> tuple[int, int]:
    """Return the features of a head and how many of them are rotated, in full attention or in all layers.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        findings: Where findings go.
        has_own: Whether sliding attention has sizes of its own.

    Raises:
        ConfigError: A size is missing, or llama.cpp loads no file with it.
    """
    if keys.get(_SIZE) == 0 and not {architecture} & (WHOLE_HEADS | SEPARATE_PART | ROTATES_WHOLE_HEADS):
        raise ConfigError(
            f"{_SIZE} in {keys.where} is 0: llama.cpp never comes to the end of the first layer then, on a processor. "
            "State the number of features of a head that the model was trained to rotate."
        )
    head_dim, rotary_dim = _stated(keys, architecture, findings)
    if architecture not in SEPARATE_PART:
        _check_heads(keys, architecture, head_dim, findings)
    if architecture in FULL_AS_FIRST or not has_own:
        rotary_dim = _of_first_layer(keys, architecture, rotary_dim, findings)
    if architecture in WHOLE_HEADS and rotary_dim != head_dim:
        raise ConfigError(
            f"{_SIZE} in {keys.where} is {rotary_dim}, but a head has {head_dim} features; llama.cpp "
            f"refuses a file of the architecture '{architecture}' where they differ, or ends."
        )
    if architecture in SEPARATE_PART:
        head_dim = rotary_dim
    if architecture in ROTATES_WHOLE_HEADS and rotary_dim != head_dim:
        findings.append(
            Finding(
                "warning",
                f"llama.cpp passes over {_SIZE} {rotary_dim} in the architecture '{architecture}': its graph rotates "
                f"all {head_dim} features of a head.",
                "Compare with the model's publication.",
            )
        )
        rotary_dim = head_dim
    if architecture in HALVES_FULL_ATTENTION:
        findings.append(_halved(keys, architecture, rotary_dim))
        rotary_dim //= 2
    return head_dim, rotary_dim


def _halved(keys: Fields, architecture: str, rotary_dim: int) -> Finding:
    """Return that full attention rotates half of the features that a file states."""
    is_stated = bool(keys.get(_SIZE))
    said = f"{_SIZE} {rotary_dim}" if is_stated else f"{_SIZE} is missing"
    return Finding(
        "note",
        f"{said}: in the architecture '{architecture}' llama.cpp rotates {rotary_dim // 2} features in layers of full "
        f"attention, half of {'them' if is_stated else 'those of a head'}, and "
        f"{sliding_sizes(keys, architecture)[1]} in those with a window.",
        "Nothing has to be done for models of Step 3.5, which are converted so.",
    )


def sliding_sizes(keys: Fields, architecture: str) -> tuple[int, int]:
    """Return the sizes of sliding attention where it has its own: those of the others, if the file does not say."""
    head_dim, rotary_dim = _stated(keys, architecture, [])
    head_dim = keys.whole(f"attention.key_length{_SWA}") or head_dim
    rotary_dim = keys.whole(f"{_SIZE}{_SWA}") or rotary_dim
    return (rotary_dim if architecture in SEPARATE_PART else head_dim), rotary_dim


def _stated(keys: Fields, architecture: str, findings: list[Finding]) -> tuple[int, int]:
    is_unread = architecture in ROTATES_WHOLE_HEADS and keys.get(_SIZE) == 0
    rotary_dim, head_dim = None if is_unread else keys.whole(_SIZE), keys.whole("attention.key_length")
    if architecture in SIZES_BY_LATENT:  # key_length is that of the latent, which is not rotated
        rotary_dim = int(keys.need(rotary_dim, _SIZE, "the rotated part of the head has no other size"))
        return rotary_dim, rotary_dim
    heads = _heads(keys, architecture, findings)
    if head_dim is None:
        width = keys.whole("embedding_length")
        if width is None or not heads or width < heads:
            stated = [keys.values.get(name) for name in ("embedding_length", _HEADS)]
            wide, counted = ("missing" if each is None else f"{in_json(each):.40}" for each in stated)
            raise ConfigError(
                f"{keys.where} has neither attention.key_length nor an embedding_length ({wide}) that {_HEADS} "
                f"({counted}) divides."
            )
        head_dim = width // heads
        if width % heads:
            findings.append(
                Finding(
                    "warning",
                    f"attention.key_length is missing, and embedding_length {width} is no multiple of {_HEADS} "
                    f"{heads}: llama.cpp rounds the features of a head down to {head_dim}.",
                    "State attention.key_length, which the weights of queries and keys tell.",
                )
            )
    return head_dim, rotary_dim or head_dim


def _heads(keys: Fields, architecture: str, findings: list[Finding]) -> int | None:
    """Return the number of heads by which llama.cpp divides: that of the first layer, where the file lists them."""
    name = _HEADS
    listed = keys.get(name)
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return keys.whole(name)
    heads = [each for each in listed if isinstance(each, int) and each > 0]
    if heads and not listed[0]:
        # The loader of PLaMo 2 reads them once more, but not rope.dimension_count.
        is_read_again = architecture == "plamo2" and keys.get("attention.key_length")
        ends = "never comes to the end of the first one with attention, on a processor" if is_read_again else "ends"
        findings.append(
            Finding(
                "error",
                f"{name} of the first layer is 0 in {keys.where}: llama.cpp takes the sizes of heads by it, and "
                f"{ends}.",
                f"State {name} {heads[0]} for all layers; attention.head_count_kv tells which have attention.",
            )
        )
    return heads[0] if heads else None


def _of_first_layer(keys: Fields, architecture: str, rotary_dim: int, findings: list[Finding]) -> int:
    """Return the rotated features of the first layer, which a graph of one size has in all of them.

    Some graphs have them in full attention alone.
    """
    name = _SIZE
    own = keys.whole(f"{name}{_SWA}")
    if own in (None, rotary_dim):
        return rotary_dim
    assert own is not None
    slides = first_layer_slides(keys, architecture)
    if architecture in FULL_AS_FIRST:
        if not slides:
            return rotary_dim
        findings.append(
            Finding(
                "warning",
                f"llama.cpp passes over {name} {rotary_dim} in the architecture '{architecture}': layers of full "
                f"attention rotate as many features as the first layer, which slides: {own}, by {name}{_SWA}.",
                "Compare with the model's publication; llama.cpp rotates other features in full attention only where "
                "the first layer has it.",
            )
        )
        return own
    taken, passed_over = (own, f"{name} {rotary_dim}") if slides else (rotary_dim, f"{name}{_SWA} {own}")
    findings.append(
        Finding(
            "warning",
            f"llama.cpp passes over {passed_over} in the architecture '{architecture}': all layers rotate as many "
            f"features as the first, which {'slides' if slides else 'does not slide'}: {taken}.",
            f"Compare with the model's publication; {', '.join(sorted(OWN_SIZES))} have two sizes.",
        )
    )
    return taken


def _check_heads(keys: Fields, architecture: str, head_dim: int, findings: list[Finding]) -> None:
    """Raise ConfigError for heads of two sizes where the graph has one; warn where none of them is taken."""
    name = f"attention.key_length{_SWA}"
    own = keys.whole(name)
    if own in (None, head_dim) or architecture in OWN_HEADS:
        return
    slides = any(sliding_layers(keys, architecture, number_of_layers(keys, "block_count") or 1) or ())
    if slides and architecture not in _SIZES_OF_FIRST_LAYER:
        raise ConfigError(
            f"{name} in {keys.where} is {own}, but the graph of '{architecture}' has one size for all layers, that of "
            f"the first, and llama.cpp ends. Only {', '.join(sorted(OWN_HEADS))} have heads of their own in sliding "
            "attention."
        )
    findings.append(
        Finding(
            "warning",
            f"llama.cpp passes over {name} {own} in the architecture '{architecture}': "
            f"{'heads are as long as those of the first layer' if slides else 'no layer slides'}.",
            "Remove the key, or compare with the model's publication.",
        )
    )
