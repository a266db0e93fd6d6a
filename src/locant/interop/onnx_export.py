"""A Locant model as ONNX files, for onnxruntime and everything else that reads ONNX (https://onnx.ai).

Three graphs, whose files and tensors have the names of Hugging Face's Optimum: the encoder; the decoder for the first
tokens; the decoder for the following ones, which takes keys and values of the earlier tokens. Layers and positions are
the model's own, and the cache is what goes in and comes out. Batch and lengths are free. ``torch.onnx.export`` writes
the graphs by ``torch.export``, which needs ``onnxscript``.

Shapes: B sentences, S source tokens, T new target tokens, P target tokens in the cache, H heads, D features of a head,
E width, V vocabulary.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.files import replacing_folder, require_new_folder, write_json, write_text
from locant.interop.ctranslate2 import require_ended_source
from locant.languages import other_codes
from locant.lazy import require_package
from locant.models.architectures import require_transformer
from locant.models.attention import KeyValueCache, StackCache
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.models.transformer import Transformer
from locant.positions import Mask
from locant.text.tokenizer import BOS, EOS, PAD
from locant.version import __version__

_USE = """pip install onnxruntime sentencepiece numpy
python translate.py {options}"..."
```

`translate.py` shows how to use the graphs; from Python:

```python
from pathlib import Path

from translate import OnnxTranslator

OnnxTranslator(Path("FOLDER"){arguments}).translate("...")"""


def export_onnx(run: Path | str, folder: Path | str) -> list[str]:
    """Write a model folder as ONNX graphs, with its SentencePiece models and an example that translates.

    The logits are those of Locant but for rounding, and so are greedy translations.

    Args:
        run: A Locant model folder or finished run.
        folder: Where to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: A graph cannot compute the positions of the model, or PyTorch's exporter cannot write them.
        CheckpointError: The run cannot be read, or the folder is taken or cannot be written.
        MissingExtraError: A package is not installed.
    """
    for package in ("onnx", "onnxscript"):
        require_package(package, "Exporting to ONNX")
    run, folder = Path(run), Path(folder)
    require_new_folder(folder)
    found = load_model_folder(run, device="cpu")
    model = require_transformer(found.model, "Export to ONNX")
    require_ended_source(found.tokenizers, "ONNX")
    require_traceable(model)
    rows = found.decoding.longest_sequence(found.tokenizers.languages)
    rows = min(rows, model.max_positions or rows)
    graphs = _graphs(model)
    config = _config(found, rows)
    told = sorted({*config["source_prefix"], *config["target_prefix"]})
    options = "".join(f"--{side}-language CODE " for side in told)
    arguments = "".join(f', {side}_language="CODE"' for side in told)
    with replacing_folder(folder) as temporary:
        for name, graph in graphs.items():
            _write(temporary / f"{name}_model.onnx", *graph)
        found.tokenizers.save_sentencepiece(temporary)
        write_json(temporary / "config.json", config)
        example = resources.files("locant.interop").joinpath("onnx_example.py").read_bytes()
        (temporary / "translate.py").write_bytes(example)
        write_text(temporary / CARD, model_card(run, _USE.format(options=options, arguments=arguments)))
        large = any(temporary.glob("*.onnx.data"))
    notes = [
        f'Try it with onnxruntime alone: python {folder / "translate.py"} {options}"..."',
        "Padding and BOS have logits but are never to be written: config.json lists them as suppress_tokens.",
    ]
    if large:
        notes.append("An ONNX file holds 2 GB: larger weights are in files that end in .onnx.data. Keep them together.")
    return notes


def require_traceable(model: Transformer) -> None:
    """Raise ConfigError unless one graph computes the positions of a model in texts of all lengths, with two caches."""
    for scheme in (*model.encoder.schemes, *model.decoder.schemes):
        if not scheme.traceable or scheme.reads_state:
            what = "read the hidden state" if scheme.reads_state else "depend on the length of the text"
            raise ConfigError(
                f"Positions '{scheme.name}' {what} in a way that a graph of ONNX cannot follow. Train a model with "
                "model.position=rotary, sinusoidal or alibi, for instance."
            )


class EncoderGraph(nn.Module):
    """``input_ids [B, S]``, ``attention_mask [B, S]`` (1 for tokens, 0 for padding) to ``[B, S, E]``."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding, self.scale = model.source_embedding, math.sqrt(model.config.d_model)
        self.stack = model.encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode."""
        mask = Mask(keys=(attention_mask != 0)[:, None, None, :])
        return self.stack(self.embedding(input_ids) * self.scale, torch.arange(input_ids.shape[1]), mask)


class _Cache(KeyValueCache):
    """Keys and values that grow by one tensor behind the other."""

    def __init__(self, *past: Tensor) -> None:
        super().__init__()
        self.present = past

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        both = zip(self.present, new, strict=True)
        self.present = tuple(torch.cat(parts, dim=2) for parts in both) if self.present else new
        return self.present


class DecoderGraph(nn.Module):
    """The decoder from the first token on: ``input_ids [B, T]``, the encoder's output and its mask.

    Returns logits ``[B, T, V]`` and for each layer its keys and values ``[B, H, T, D]`` and those of the encoder's
    output ``[B, H, S, D]``, for :class:`CachedDecoderGraph`.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding, self.output, self.scale = model.target_embedding, model.output, math.sqrt(model.config.d_model)
        self.stack = model.decoder

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode."""
        cross = self.stack.start(encoder_hidden_states, encoder_attention_mask).cross
        logits, own = self.decode(input_ids, encoder_attention_mask, cross, [_Cache() for _ in cross], None)
        return logits, [part for pair in zip(own, cross, strict=True) for kv in pair for part in kv]

    def decode(
        self,
        input_ids: Tensor,
        encoder_attention_mask: Tensor,
        cross: list[tuple[Tensor, Tensor]],
        caches: list[_Cache],
        before: Tensor | None,
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return logits ``[B, T, V]`` and each layer's keys and values ``[B, H, P + T, D]``."""
        first = 0 if before is None else before.shape[0]
        positions = torch.arange(first, first + input_ids.shape[1])
        x, cache = self.embedding(input_ids) * self.scale, StackCache([*caches], length=first)
        if before is not None:
            cache.positions = [before] * len(caches)  # for every kind of layers
        x, plans = self.stack.begin(x, positions, Mask(causal=True), cache)
        mask = Mask(keys=(encoder_attention_mask != 0)[:, None, None, :])
        for layer, plan, memory, own in zip(self.stack.layers, plans, cross, caches, strict=True):
            x = layer(x, plan, memory, mask, own)
        return self.output(self.stack.norm(x)), [own.present for own in caches]


class CachedDecoderGraph(DecoderGraph):
    """The decoder after the first tokens: new ``input_ids [B, T]``, the encoder's mask, and the cache.

    ``past`` holds for each layer keys and values of its earlier tokens ``[B, H, P, D]`` and those of the encoder's
    output ``[B, H, S, D]``. Returns logits and each layer's keys and values ``[B, H, P + T, D]``.
    """

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode."""
        caches = [_Cache(*own) for own in zip(past[0::4], past[1::4], strict=True)]
        cross = list(zip(past[2::4], past[3::4], strict=True))
        logits, present = self.decode(input_ids, encoder_attention_mask, cross, caches, torch.arange(past[0].shape[2]))
        return logits, [part for pair in present for part in pair]


_Graph = tuple[nn.Module, tuple[Any, ...], tuple[Any, ...], list[str], list[str]]
"""A graph with example inputs, their free axes, and the names of inputs and outputs."""


def _graphs(model: Transformer) -> dict[str, _Graph]:
    """Return the graphs by the beginning of their file names."""
    config = model.config
    batch, source, target, past = (torch.export.Dim(name) for name in ("batch", "source", "target", "past"))
    # Sizes of 0 and 1 would be taken for constants.
    b, s, t, p = 2, 5, 3, 4
    layers, settings = range(config.decoder_layers), config.blocks()
    heads, features = settings.key_heads, settings.head_features
    ids, mask = torch.ones(b, t, dtype=torch.int64), torch.ones(b, s, dtype=torch.int64)
    own, cross = (torch.zeros(b, heads, length, features) for length in (p, s))
    cache, cache_axes = [own, own, cross, cross], [{0: batch, 2: past}] * 2 + [{0: batch, 2: source}] * 2
    rows_of_source, rows_of_target = {0: batch, 1: source}, {0: batch, 1: target}

    def names(prefix: str, *sides: str) -> list[str]:
        return [f"{prefix}.{layer}.{side}.{part}" for layer in layers for side in sides for part in ("key", "value")]

    return {
        "encoder": (
            EncoderGraph(model),
            (torch.ones(b, s, dtype=torch.int64), mask),
            (rows_of_source, rows_of_source),
            ["input_ids", "attention_mask"],
            ["last_hidden_state"],
        ),
        "decoder": (
            DecoderGraph(model),
            (ids, torch.zeros(b, s, config.d_model), mask),
            (rows_of_target, rows_of_source, rows_of_source),
            ["input_ids", "encoder_hidden_states", "encoder_attention_mask"],
            ["logits", *names("present", "decoder", "encoder")],
        ),
        "decoder_with_past": (
            CachedDecoderGraph(model),
            (ids, mask, [tensor.clone() for _ in layers for tensor in cache]),
            (rows_of_target, rows_of_source, cache_axes * config.decoder_layers),
            ["input_ids", "encoder_attention_mask", *names("past_key_values", "decoder", "encoder")],
            ["logits", *names("present", "decoder")],
        ),
    }


def _write(
    path: Path,
    graph: nn.Module,
    inputs: tuple[Any, ...],
    axes: tuple[Any, ...],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> None:
    with _quiet():
        try:
            program = torch.onnx.export(
                graph.eval().requires_grad_(False),  # or the exporter traces what gradients take, a quarter of its time
                inputs,
                dynamo=True,
                dynamic_shapes=axes,
                input_names=input_names,
                output_names=output_names,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise ConfigError(
                f"The exporter of PyTorch {torch.__version__} has no ONNX for an operation of this model, probably of "
                "its positions. Train one with model.position=rotary, sinusoidal or alibi, for instance."
            ) from error
        assert program is not None
        program.save(str(path))  # and large weights beside it


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter says about itself: deprecations, packages it could use, names of axes."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _config(found: ModelFolder, rows: int) -> dict[str, Any]:
    decoding, languages = found.decoding, found.tokenizers.languages
    before, after = languages.places if languages else ((), ())
    own = found.source_language, found.target_language
    return {
        "model_type": "locant",
        "locant_version": __version__,
        "source_language": found.source_language,
        "target_language": found.target_language,
        # Whose language's id is before the tokens of a source, and after the id that the decoder reads first.
        "source_prefix": list(before),
        "target_prefix": list(after),
        "language_ids": languages.ids if languages else {},
        # Other codes of the languages, in lower case and with hyphens.
        "language_codes": other_codes([*(languages.ids if languages else ()), *filter(None, own)]),
        "lowercase": found.tokenizers.source.lowercase,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": languages.decoder_start if languages else BOS,
        "suppress_tokens": [PAD, BOS],
        "max_positions": rows,
        "max_source_length": min(decoding.max_source_length, rows - len(before) - 1),
        "max_length_ratio": decoding.max_length_ratio,
        "max_length_extra": decoding.max_length_extra,
    }
