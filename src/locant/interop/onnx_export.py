"""A Locant model as ONNX files, for onnxruntime and everything else that reads ONNX (https://onnx.ai).

Three graphs, whose files and tensors have the names of Hugging Face's Optimum: the encoder; the decoder for the first
tokens; the decoder for the following ones, which takes keys and values of the earlier tokens. Batch and lengths are
free. ``torch.onnx.export`` writes them by ``torch.export``, which needs ``onnxscript``.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import nn

from locant.errors import ConfigError
from locant.files import replacing_folder, require_new_folder, write_json, write_text
from locant.interop.ctranslate2 import require_ended_source
from locant.interop.onnx_graph import CachedDecoderGraph, DecoderGraph, EncoderGraph, require_traceable
from locant.languages import other_codes
from locant.lazy import require_package
from locant.models.architectures import require_transformer
from locant.models.config import TransformerConfig
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.models.transformer import Transformer
from locant.text.tokenizer import BOS, EOS, PAD
from locant.version import __version__

_LARGEST = 2_000_000_000
"""Bytes of a graph that holds its own weights: protocol buffers end at 2 GiB. Larger weights are in a second file."""

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
    config = _config(found, model.config, rows)
    told = sorted({*config["source_prefix"], *config["target_prefix"]})
    options = "".join(f"--{side}-language CODE " for side in told)
    arguments = "".join(f', {side}_language="CODE"' for side in told)
    with replacing_folder(folder) as temporary:
        for name, (graph, inputs, axes, input_names, output_names) in graphs.items():
            path = temporary / f"{name}_model.onnx"
            _write(path, graph, inputs, axes, input_names, output_names)
        found.tokenizers.save_sentencepiece(temporary)
        write_json(temporary / "config.json", config)
        example = resources.files("locant.interop").joinpath("onnx_example.py").read_bytes()
        (temporary / "translate.py").write_bytes(example)
        write_text(temporary / CARD, model_card(run, _USE.format(options=options, arguments=arguments)))
    notes = [
        f'Try it with onnxruntime alone: python {folder / "translate.py"} {options}"..."',
        "Padding and BOS have logits but are never to be written: config.json lists them as suppress_tokens.",
    ]
    if any(_size(graph) > _LARGEST for graph, *_ in graphs.values()):
        notes.append("An ONNX file holds 2 GB: larger weights are in files that end in .onnx.data. Keep them together.")
    return notes


_Graph = tuple[nn.Module, tuple[Any, ...], tuple[Any, ...], list[str], list[str]]
"""A graph with example inputs, their free axes, and the names of inputs and outputs."""


def _graphs(model: Transformer) -> dict[str, _Graph]:
    """Return the graphs by the beginning of their file names."""
    config = model.config
    batch, source, target, past = (torch.export.Dim(name) for name in ("batch", "source", "target", "past"))
    # Sizes of 0 and 1 would be taken for constants.
    b, s, t, p = 2, 5, 3, 4
    layers, heads, features = range(config.decoder_layers), config.heads, config.d_model // config.heads
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
        program.save(str(path), external_data=_size(graph) > _LARGEST)


def _size(graph: nn.Module) -> int:
    """Return the bytes of a graph's weights and tables."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*graph.parameters(), *graph.buffers()))


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


def _config(found: ModelFolder, config: TransformerConfig, rows: int) -> dict[str, Any]:
    decoding, languages = found.decoding, found.tokenizers.languages
    before, after = languages.places if languages else ((), ())
    own = found.source_language, found.target_language
    return {
        "model_type": "locant",
        "locant_version": __version__,
        "source_language": found.source_language,
        "target_language": found.target_language,
        # Whose language's id stands before the tokens of a source, and after the id that the decoder reads first.
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
        "source_vocab_size": config.source_vocab_size,
        "target_vocab_size": config.target_vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "heads": config.heads,
        "position": config.position,
        "norm": config.norm,
    }
