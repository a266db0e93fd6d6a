"""The compiled engine: a Transformer run by the C++ kernel ``translation`` on the CPU."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import ConfigError, nearest
from locant.kernels.translation import KERNEL, PRECISIONS, supports
from locant.models.architectures import require_transformer
from locant.models.blocks import Decoder, Encoder
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.transformer import Transformer
from locant.positions import PositionScheme
from locant.text.tokenizer import BOS, PAD
from locant.translation.search import Hypothesis, search

# The instructions that a precision needs; translation.cpp numbers precisions as above.
_INSTRUCTIONS = {"bfloat16": "AVX-512 BF16", "int8": "AVX-512 VNNI"}

# The number that translation.cpp gives an activation, and whether it gates.
_ACTIVATIONS = {
    "relu": (0, False),
    "gelu": (1, False),
    "silu": (2, False),
    "glu": (3, True),
    "reglu": (0, True),
    "geglu": (1, True),
    "swiglu": (2, True),
}


class CompiledEngine:
    """The engine of Locant's C++ kernels, several times faster than PyTorch on a CPU.

    Args:
        model: The model, on the CPU.
        precision: ``float32`` gives the same translations as PyTorch; ``bfloat16`` and ``int8`` are faster and may
            give others, ``int8`` more often.

    Raises:
        ConfigError: The kernels cannot express the model or the precision, there is no C++ compiler, or the model is
            not on the CPU.
    """

    def __init__(self, model: EncoderDecoder[Any], precision: str = "float32") -> None:
        device = model.target_embedding.weight.device
        if device.type != "cpu":
            raise ConfigError(f"Compiled translation is for the CPU, but the model is on {device}.")
        self.model = CompiledTransformer(require_transformer(model, "Compiled translation"), precision)

    @property
    def name(self) -> str:
        """What computes, and in which type of numbers."""
        return f"compiled kernels, {self.model.precision}"

    def translate(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search for translations; see :meth:`locant.translation.Engine.translate`."""
        return search(self.model, sources, max_lengths, settings, prefix=prefix)


class CompiledTransformer:
    """A trained Transformer for the search, run by C++ kernels on the CPU.

    Sentences are packed without padding, a step of the decoder is one call, beams share the keys and values of their
    sentence, and a beam that changes its place moves an index instead of its cache. In float32 the results are the
    model's up to rounding; bfloat16 rounds weights and the inputs of every product to 8 significant bits, in half the
    memory; int8 quantises weights (a scale for each output) and inputs (a scale for each row), in a quarter.

    Args:
        model: The model; its embeddings and norms stay shared with this object, its matrices are copied.
        precision: One of :data:`PRECISIONS`.

    Attributes:
        precision: Likewise.
        vocabulary: Number of target tokens.

    Raises:
        ConfigError: The model's positions do not act by being added to the embeddings; the processor has no
            instructions for the precision; kernels are switched off; there is no C++ compiler, or it fails.
    """

    def __init__(self, model: Transformer, precision: str = "float32") -> None:
        if precision not in PRECISIONS:
            raise ConfigError(
                f"Unknown precision '{precision}'.{nearest(precision, PRECISIONS)} Known: {', '.join(PRECISIONS)}."
            )
        self.precision = precision
        config = model.config
        self.vocabulary = config.target_vocab_size
        self._schemes = [_addable(stack) for stack in (model.encoder, model.decoder)]
        self._library = KERNEL.require()
        if not supports(precision):
            raise ConfigError(
                f"This processor has no fast {precision} arithmetic ({_INSTRUCTIONS[precision]}). Use float32."
            )
        activation, gated = _ACTIVATIONS[config.feed_forward]
        shape = (ctypes.c_int64 * 13)(
            config.encoder_layers,
            config.decoder_layers,
            config.d_model,
            config.d_ff,
            config.heads,
            config.source_vocab_size,
            config.target_vocab_size,
            config.norm == "pre",
            activation,
            gated,
            PRECISIONS.index(precision),
            PAD,
            BOS,
        )
        linears = [*_linears(model.encoder), *_linears(model.decoder)]
        weights = [_plain(linear.weight) for linear in linears] + [_plain(model.output.weight)]
        biases = [_plain(linear.bias) for linear in linears]
        norms = [_plain(part) for norm in _norms(model) for part in (norm.weight, norm.bias)]
        embeddings = [_plain(model.source_embedding.weight), _plain(model.target_embedding.weight)]
        # Norms and embeddings are read where they lie.
        self._kept = [*norms, *embeddings]
        self._engine = self._library.locant_engine(
            shape, _addresses(weights), _addresses([*biases, None]), _addresses(norms), *map(_address, embeddings)
        )
        if not self._engine:
            raise MemoryError("The compiled model does not fit into memory.")
        weakref.finalize(self, self._library.locant_engine_free, self._engine)
        self._tables = [torch.empty(0), torch.empty(0)]

    def start_search(self, source: Tensor, source_lengths: Tensor) -> CompiledSearchState:
        """Encode source ids ``[B, S]`` with ``[B]`` real tokens each and return the state of their translations."""
        return CompiledSearchState(self, source, source_lengths)

    def _positions(self, stack: int, count: int) -> Tensor | None:
        """Return the codes of at least ``count`` positions ``[>= count, E]``, float32."""
        scheme = self._schemes[stack]
        if scheme is None:
            return None
        if len(self._tables[stack]) < count:
            room = max(64, 2 * count)
            rows = min(room, scheme.max_positions or room)
            self._tables[stack] = _plain(_codes(scheme, max(rows, count)))
        return self._tables[stack]


class CompiledSearchState:
    """Sentences that are being translated; made by :meth:`CompiledTransformer.start_search`."""

    def __init__(self, model: CompiledTransformer, source: Tensor, source_lengths: Tensor) -> None:
        self._model, self._library = model, model._library
        lengths = source_lengths.contiguous()
        tokens = source[torch.arange(source.shape[1]) < lengths.unsqueeze(1)]
        positions = model._positions(0, source.shape[1])
        self._batch = self._library.locant_batch(
            model._engine,
            torch.get_num_threads(),
            len(source),
            lengths.data_ptr(),
            tokens.data_ptr(),
            _address(positions),
        )
        if not self._batch:
            raise MemoryError("The batch does not fit into memory. Lower decoding.batch_tokens.")
        weakref.finalize(self, self._library.locant_batch_free, self._batch)
        self._length = 0

    def best(self, last: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Decode ``last [R, 1]`` and return the ``k`` best next tokens of each row.

        Padding and BOS are never among them.

        Returns:
            Log-probabilities (natural) ``[R, k]``, largest first, and token ids ``[R, k]``; where fewer than ``k``
            tokens exist the rest have log-probability ``-inf``.
        """
        values, columns = torch.empty(len(last), k), torch.empty(len(last), k, dtype=torch.long)
        self._step(last, values, columns)
        return values, columns

    def log_probabilities(self, last: Tensor) -> Tensor:
        """Decode ``last [R, 1]`` and return the log-probabilities of every next token ``[R, V]``.

        Padding and BOS have the log-probability ``-inf``.
        """
        values = torch.empty(len(last), self._model.vocabulary)
        self._step(last, values, None)
        return values

    def _step(self, last: Tensor, values: Tensor, columns: Tensor | None) -> None:
        """Decode ``last [R, 1]``; write the best log-probabilities and tokens, or all of them without ``columns``."""
        last = last.contiguous()
        self._length += 1
        positions = self._model._positions(1, self._length)
        done = self._library.locant_batch_step(
            self._batch,
            last.data_ptr(),
            _address(positions),
            values.shape[1],
            values.data_ptr(),
            _address(columns),
        )
        if not done:
            raise MemoryError("The batch does not fit into memory. Lower decoding.batch_tokens.")

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows ``[N]``, in that order; a row may be taken several times."""
        rows = rows.contiguous()
        self._library.locant_batch_select(self._batch, len(rows), rows.data_ptr())


def _addable(stack: Encoder | Decoder) -> PositionScheme | None:
    """Return the scheme whose codes are added to the embeddings, or ``None`` where there are no positions."""
    scheme = stack.scheme(0)
    if not scheme.acts_on:
        return None
    if scheme.acts_on == {"embedding"} and scheme.code(torch.arange(1)) is not None:
        return scheme
    raise ConfigError(
        f"Compiled translation knows positions that are added to all features of the embeddings (sinusoidal, "
        f"learned), but this model's are {type(scheme).__name__}. Use the engine pytorch."
    )


def _codes(scheme: PositionScheme, count: int) -> Tensor:
    codes = scheme.code(torch.arange(count))
    assert codes is not None
    return codes


def _linears(stack: Encoder | Decoder) -> Iterable[nn.Linear]:
    layers: Any = stack.layers
    for layer in layers:
        own = layer.self_attention
        yield from (own.query_key_value, own.output)
        if isinstance(stack, Decoder):
            cross = layer.cross_attention
            yield from (cross.query, cross.key_value, cross.output)
        yield from (layer.feed_forward.inner, layer.feed_forward.outer)


def _norms(model: Transformer) -> Iterable[nn.LayerNorm]:
    for stack in (model.encoder, model.decoder):
        layers: Any = stack.layers
        for layer in layers:
            yield from (residual.norm for residual in layer.residuals)
        if isinstance(stack.norm, nn.LayerNorm):
            yield stack.norm


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().float().contiguous()


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _addresses(tensors: list[Any]) -> Any:
    return (ctypes.c_void_p * len(tensors))(*map(_address, tensors))
