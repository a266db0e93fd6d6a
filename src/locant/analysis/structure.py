"""The structure of a Transformer: its modules in the order in which they run, with the shape of what each returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from locant import kernels
from locant.models.blocks import Decoder, Encoder, Residual
from locant.models.config import TransformerConfig
from locant.models.transformer import Transformer, count_parameters

Kind = Literal["embedding", "norm", "self-attention", "cross-attention", "feed-forward", "add", "output"]


@dataclass(frozen=True)
class TracedModule:
    """One module of a model as it ran.

    Attributes:
        kind: What it is.
        name: Its path in the model, as in ``encoder.layers.0.feed_forward``.
        shape: Of what it returns, without the batch.
        parameters: Number of its parameters.
    """

    kind: Kind
    name: str
    shape: tuple[int, ...]
    parameters: int


@dataclass(frozen=True)
class StackStructure:
    """A stack of layers.

    Attributes:
        name: ``encoder`` or ``decoder``.
        vocabulary: Number of tokens that its embedding knows.
        entry: The embedding.
        tokens: Length of the sequence that it reads.
        sublayers: The modules of one layer in the order in which they run, those of each residual connection together.
        layers: Number of such layers.
        closing: What follows the last layer.
        parameters: Of the whole stack, embeddings not counted.
    """

    name: str
    vocabulary: int
    entry: tuple[TracedModule, ...]
    tokens: int
    sublayers: tuple[tuple[TracedModule, ...], ...]
    layers: int
    closing: tuple[TracedModule, ...]
    parameters: int


def transformer_structure(
    config: TransformerConfig, *, source: int, target: int
) -> tuple[StackStructure, StackStructure]:
    """Return the encoder and the decoder of a model as their modules run.

    One layer of each reads sentences of the given lengths, with weights that nobody set; what is returned is what its
    modules then did. The positional scheme is left out: it returns what it is given in the same shape.

    Args:
        config: Of the model.
        source: Tokens of the source.
        target: Tokens of the target.

    Example:
        >>> from locant.models import preset
        >>> encoder, _ = transformer_structure(
        ...     preset("tiny", norm="pre", source_vocab_size=50, target_vocab_size=50), source=3, target=2
        ... )
        >>> [[module.kind for module in modules] for modules in encoder.sublayers]
        [['norm', 'self-attention', 'add'], ['norm', 'feed-forward', 'add']]
    """
    with torch.device("meta"):
        whole = Transformer(config)
        plain = config.with_positions(position="none")
        traced = Transformer(plain.model_copy(update={"encoder_layers": 1, "decoder_layers": 1}))
    seen = _run(traced.to_empty(device="cpu").eval(), source, target)
    return (
        _diagram(whole.encoder, "encoder", seen, source, config.source_vocab_size),
        _diagram(whole.decoder, "decoder", seen, target, config.target_vocab_size),
    )


def _run(model: Transformer, source: int, target: int) -> list[tuple[str, TracedModule]]:
    """Return the modules of a model that ran, in the order in which they finished.

    Each comes with the path of the residual connection around it; nothing where there is none.
    """
    found: list[tuple[str, TracedModule]] = []
    around = [""]

    def enters(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda module, arguments: around.append(name)

    def finished(name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def keep(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
            if name == around[-1]:
                around.pop()
                return
            kind = _KINDS.get(name.rsplit(".", 1)[-1])
            if name.endswith(".dropout") and sum(isinstance(argument, Tensor) for argument in arguments) == 2:
                kind = "add"  # with a second tensor it adds the residual
            if kind is not None and not name.endswith("attention.output"):
                found.append((around[-1], TracedModule(kind, name, tuple(output.shape[1:]), count_parameters(module))))

        return keep

    for name, module in model.named_modules():
        if isinstance(module, Residual):
            module.register_forward_pre_hook(enters(name))
        module.register_forward_hook(finished(name))
    ids = [torch.zeros(1, tokens, dtype=torch.long) for tokens in (source, target)]
    used = kernels.enabled()
    kernels.enabled(False)  # a kernel does the work of several modules at once
    try:
        with torch.no_grad():
            model(ids[0], torch.tensor([source]), ids[1])
    finally:
        kernels.enabled(used)
    return found


_KINDS: dict[str, Kind] = {
    "norm": "norm",
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "source_embedding": "embedding",
    "target_embedding": "embedding",
    "output": "output",
}


def _diagram(
    stack: Encoder | Decoder, name: str, seen: list[tuple[str, TracedModule]], tokens: int, vocabulary: int
) -> StackStructure:
    sublayers: dict[str, list[TracedModule]] = {}
    for around, module in seen:
        if around.startswith(f"{name}.layers.0."):
            sublayers.setdefault(around, []).append(module)
    embeddings = [module for _, module in seen if module.kind == "embedding"]  # the source's runs first
    closing = [module for _, module in seen if module.name == f"{name}.norm" and module.parameters]
    if name == "decoder":
        closing += [module for _, module in seen if module.kind == "output"]
    return StackStructure(
        name,
        vocabulary,
        (embeddings[0 if name == "encoder" else 1],),
        tokens,
        tuple(tuple(modules) for modules in sublayers.values()),
        len(stack.layers),
        tuple(closing),
        count_parameters(stack),
    )
