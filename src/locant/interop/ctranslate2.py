"""A Locant model as a CTranslate2 folder, for translation at the speed of C++ and with small weights.

CTranslate2 (https://github.com/OpenNMT/CTranslate2) describes a Transformer by a *spec*, a tree of modules that takes
post-norm and pre-norm layers, gated feed-forwards and any table of positions that is added to the embeddings, so no
other format stands between. Its tokens are the pieces of SentencePiece, whose models go into the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import ConfigError, MissingExtraError, nearest
from locant.files import replacing_folder
from locant.interop.folders import longest_sequence, require_new_folder, write_card, write_sentencepiece
from locant.models.architectures import require_transformer
from locant.models.blocks import Decoder, Encoder, FeedForward
from locant.models.model_folder import load_model_folder
from locant.models.transformer import Transformer
from locant.positions.embeddings.position_code import PositionCode
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
"""The types of weights that CTranslate2 stores."""

# The feed-forward kinds: CTranslate2's activation, and whether it gates.
_ACTIVATIONS = {
    "relu": ("RELU", False),
    "gelu": ("GELU", False),
    "silu": ("SWISH", False),
    "glu": ("Sigmoid", True),
    "reglu": ("RELU", True),
    "geglu": ("GELU", True),
    "swiglu": ("SWISH", True),
}

_USE = """import ctranslate2, sentencepiece, unicodedata

source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"FOLDER/{side}.spm") for side in ("source", "target")
)
pieces = source.encode_as_pieces(unicodedata.normalize("NFC", "..."))
found = ctranslate2.Translator("FOLDER").translate_batch([pieces], max_decoding_length=256)
print(target.decode_pieces(found[0].hypotheses[0]))"""


def export_ctranslate2(run: Path | str, folder: Path | str, *, quantization: str | None = None) -> list[str]:
    """Write a model folder as a CTranslate2 model, with its SentencePiece models beside it.

    In float32 the tokens of greedy search are those of Locant.

    Args:
        run: A Locant model folder or finished run.
        folder: Where to write; must not exist, or be empty.
        quantization: One of :data:`QUANTIZATIONS`; ``None`` keeps float32.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: CTranslate2 cannot express the model, or the quantization is unknown.
        CheckpointError: The run cannot be read, or the folder is taken or cannot be written.
        MissingExtraError: The package ``ctranslate2`` is not installed.
    """
    try:
        from ctranslate2 import specs
    except ImportError:
        raise MissingExtraError("Exporting to CTranslate2", "ctranslate2", "ctranslate2") from None
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ConfigError(
            f"Unknown quantization '{quantization}'.{nearest(quantization, QUANTIZATIONS)} "
            f"Known: {', '.join(QUANTIZATIONS)}."
        )
    run, folder = Path(run), Path(folder)
    require_new_folder(folder)
    found = load_model_folder(run, device="cpu")
    model = require_transformer(found.model, "Export to CTranslate2")
    languages = found.tokenizers.languages
    spec = transformer_spec(model, longest_sequence(found.decoding, languages), specs)
    spec.register_source_vocabulary(_pieces(found.tokenizers.source))
    spec.register_target_vocabulary(_pieces(found.tokenizers.target))
    names = {index: found.tokenizers.target.piece(index) for index in (UNK, BOS, EOS)}
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = names[UNK], names[BOS], names[EOS]
    spec.config.decoder_start_token = names[languages.decoder_start if languages else BOS]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    with replacing_folder(folder) as temporary:
        spec.save(str(temporary))
        write_sentencepiece(temporary, found.tokenizers)
        write_card(temporary, run, _USE)
    notes = [
        "Cut text with source.spm and join the output with target.spm; bring text to Unicode NFC before"
        + (" and to lower case." if found.tokenizers.source.lowercase else "."),
        "Beam search of CTranslate2 divides by length^length_penalty, Locant's by ((5 + length) / 6)^length_penalty, "
        "so it may choose another translation; greedy search gives the same in float32.",
    ]
    if languages:
        notes.append(
            "Put the token of a language before the pieces of a source"
            + (", and that of the target language into target_prefix." if languages.layout == "fairseq" else ".")
        )
    if quantization not in (None, "float32"):
        notes.append(f"Weights are {quantization}: translations may differ from those of float32.")
    return notes


def transformer_spec(model: Transformer, positions: int, specs: Any) -> Any:
    """Return the spec of a model, with tables of so many positions; ``specs`` is ``ctranslate2.specs``.

    Raises:
        ConfigError: CTranslate2 cannot express the model's positions.
    """
    config = model.config
    activation, gated = _ACTIVATIONS[config.feed_forward]
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=specs.Activation[activation],
        ffn_glu=gated,
    )
    _fill_stack(spec.encoder, model.encoder, positions)
    _fill_stack(spec.decoder, model.decoder, positions)
    spec.encoder.embeddings[0].weight = _array(model.source_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.target_embedding.weight)
    spec.decoder.projection.weight = _array(model.output.weight)
    # Locant never writes these two.
    bias = torch.zeros(config.target_vocab_size)
    bias[[PAD, BOS]] = -torch.inf
    spec.decoder.projection.bias = _array(bias)
    return spec


def _fill_stack(spec: Any, stack: Encoder | Decoder, positions: int) -> None:
    spec.scale_embeddings = True
    spec.position_encodings.encodings = _position_table(stack, positions)
    if isinstance(stack.norm, nn.LayerNorm):
        _fill_norm(spec.layer_norm, stack.norm)
    layers: Any = stack.layers
    for part, layer in zip(spec.layer, layers, strict=True):
        # A spec keeps each residual's norm in the sub-layer that it belongs to.
        sublayers = [part.self_attention, *([part.attention] if isinstance(stack, Decoder) else []), part.ffn]
        for sublayer, residual in zip(sublayers, layer.residuals, strict=True):
            _fill_norm(sublayer.layer_norm, residual.norm)
        own = layer.self_attention
        _fill_linears(part.self_attention.linear, own.query_key_value, own.output)
        if isinstance(stack, Decoder):
            cross = layer.cross_attention
            _fill_linears(part.attention.linear, cross.query, cross.key_value, cross.output)
        _fill_feed_forward(part.ffn, layer.feed_forward)


def _position_table(stack: Encoder | Decoder, positions: int) -> Any:
    scheme = stack.scheme(0)
    if not isinstance(scheme, PositionCode) or scheme.combine != "add" or scheme.features != scheme.dim:
        raise ConfigError(
            f"Export to CTranslate2 knows positions that are added to all features of the embeddings (sinusoidal, "
            f"learned), but this model's are {type(scheme).__name__}. Train a model with model.position=sinusoidal."
        )
    rows = min(positions, scheme.max_positions or positions)
    return _array(scheme.encode(torch.arange(rows)))


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _fill_feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    inner, outer = feed_forward.inner, feed_forward.outer
    blocks = 2 if feed_forward.gated else 1
    targets = [spec.linear_0, spec.linear_0_noact] if feed_forward.gated else [spec.linear_0]
    for target, weight, bias in zip(targets, inner.weight.chunk(blocks), inner.bias.chunk(blocks), strict=True):
        target.weight, target.bias = _array(weight), _array(bias)
    spec.linear_1.weight, spec.linear_1.bias = _array(outer.weight), _array(outer.bias)


def _fill_linears(targets: list[Any], *linears: nn.Linear) -> None:
    for target, linear in zip(targets, linears, strict=True):
        target.weight, target.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece(index) for index in range(tokenizer.vocab_size)]
