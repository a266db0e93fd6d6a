"""A Marian (OPUS-MT) model in Hugging Face's format as a Locant model folder: weights and tokenizer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json, replacing_folder, require_new_folder
from locant.interop.huggingface_files import MarianConfig, read_config, read_optional, read_weights
from locant.interop.marian_weights import fold_bias, from_marian, modules
from locant.models.config import TransformerConfig
from locant.models.decoding_settings import LONGEST_SOURCE, MOST_HYPOTHESES, DecodingSettings
from locant.models.model_folder import save_model_folder, skip_init
from locant.models.transformer import Transformer
from locant.positions.embeddings.sinusoidal import sinusoid_table
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from locant.text.tokenizer_pair import LanguageTokens, TokenizerPair

_SPECIAL = {PAD: ("pad", "<pad>"), UNK: ("unk", "<unk>"), BOS: ("bos", "<s>"), EOS: ("eos", "</s>")}
"""The name of each special id in a SentencePiece model's settings, and its token."""

# What stands before a source of OPUS-MT's models for several target languages.
_LANGUAGE = re.compile(">>(.+)<<")


@dataclass(frozen=True)
class Special:
    """Marian's ids of padding, decoder start and end of sentence."""

    pad: int
    start: int
    eos: int


@dataclass(frozen=True)
class Side:
    """One language's tokenizer.

    Attributes:
        tokenizer: With Locant's ids.
        rows: Marian's id of each of Locant's; a row that serves two of them is there twice.
    """

    tokenizer: Tokenizer
    rows: list[int]


def read_sides(
    folder: Path, special: Special, source_size: int, target_size: int
) -> tuple[Side, Side, LanguageTokens | None]:
    """Read the tokenizers of the source and the target language, and the tokens of several target languages.

    Args:
        folder: Holds ``source.spm``, ``target.spm``, ``vocab.json`` and, with separate vocabularies,
            ``target_vocab.json``.
        special: Marian's special ids.
        source_size: Rows of the source embedding.
        target_size: Rows of the target embedding.

    Raises:
        CheckpointError: A file is missing or damaged, or does not fit the model.
        ConfigError: Locant cannot express the tokenizer.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    missing = [name for name in ("source.spm", "target.spm", "vocab.json") if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} lacks {' and '.join(missing)}. A Marian folder holds source.spm, target.spm and vocab.json; "
            "its tokenizer cannot be imported from other files."
        )
    target_vocab = folder / "target_vocab.json"
    target_vocab = target_vocab if target_vocab.is_file() else folder / "vocab.json"
    vocab = _read_vocab(folder / "vocab.json", source_size)
    models = [(path.read_bytes(), str(path)) for path in (folder / "source.spm", folder / "target.spm")]
    source = build_side(*models[0], vocab, special, encodes=True)
    target = build_side(*models[1], _read_vocab(target_vocab, target_size), special, encodes=False)
    codes = {found[1]: row for piece, row in vocab.items() if (found := _LANGUAGE.fullmatch(piece))}
    ids = {code: source.rows.index(row) for code, row in sorted(codes.items())}
    return source, target, LanguageTokens(layout="marian", ids=ids) if ids else None


def _read_vocab(path: Path, size: int) -> dict[str, int]:
    vocab = read_json(path)
    if not isinstance(vocab, dict) or len(vocab) != size or set(vocab.values()) != set(range(size)):
        raise CheckpointError(f"{path} does not name each of the {size} rows of the embeddings once.")
    if "<unk>" not in vocab:
        raise CheckpointError(f"{path} has no token <unk>.")
    return vocab


def build_side(
    model: bytes, what: str, vocab: Mapping[str, int], special: Special, *, encodes: bool, text_alone: bool = False
) -> Side:
    """Build one side's tokenizer.

    Args:
        model: The SentencePiece model.
        what: Its name in messages.
        vocab: The row of every token.
        special: Rows of the special tokens; ``vocab`` has that of ``<unk>``.
        encodes: Whether to add the model's subwords without a row, which Marian takes for unknown.
        text_alone: Whether tokens that the SentencePiece model lacks are no text (language tokens, say), and so left
            out when ids are decoded.

    Raises:
        CheckpointError: The SentencePiece model is damaged.
        ConfigError: An ordinary token has a name that Locant has for its own use.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(model, f"The tokenizer model {what}")
    usual = {
        piece.piece: (piece.score, piece.type)
        for piece in proto.pieces
        if piece.type not in (piece.CONTROL, piece.UNKNOWN, piece.UNUSED)
    }
    unknown = vocab["<unk>"]
    rows = [special.pad, unknown, special.start, special.eos]
    names = [name for _, name in _SPECIAL.values()]
    ordinary = {name: row for name, row in vocab.items() if row not in rows or name in usual}
    taken = sorted(ordinary.keys() & set(names))
    if taken:
        raise ConfigError(
            f"The vocabulary of {what} has an ordinary token {taken[0]}, which Locant has for its own use."
        )
    rows += sorted(ordinary.values())
    names += sorted(ordinary, key=ordinary.__getitem__)
    if encodes:
        without_row = [name for name in usual if name not in vocab]
        rows += [unknown] * len(without_row)
        names += without_row

    kind = type(proto).SentencePiece
    other = kind.CONTROL if text_alone else kind.UNUSED
    pieces = []
    for index, name in enumerate(names):
        if index in _SPECIAL:
            pieces.append(kind(piece=name, score=0.0, type=kind.UNKNOWN if index == UNK else kind.CONTROL))
        else:
            score, use = usual.get(name, (0.0, kind.CONTROL if _LANGUAGE.fullmatch(name) else other))
            pieces.append(kind(piece=name, score=score, type=use))
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    proto.DiscardUnknownFields()  # Samples for a self-test, which show the old ids.
    for index, (key, name) in _SPECIAL.items():
        setattr(proto.trainer_spec, f"{key}_id", index)
        setattr(proto.trainer_spec, f"{key}_piece", name)
    proto.trainer_spec.vocab_size = len(names)
    return Side(Tokenizer(proto.SerializeToString()), rows)


_FEED_FORWARDS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SHARED, _OUTPUT, _BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"


def import_marian(folder: Path | str, run: Path | str) -> list[str]:
    """Write a Marian model as a Locant model folder with the same logits.

    Args:
        folder: Holds ``config.json``, ``model.safetensors`` or ``pytorch_model.bin``, ``source.spm``, ``target.spm``
            and ``vocab.json``; no code in it is run.
        run: The model folder to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: The folder holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, or the files do not fit each other, or ``run`` is taken.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    folder, run = Path(folder), Path(run)
    require_new_folder(run)
    marian = read_config(folder, MarianConfig)
    require_expressible(marian)
    special = Special(marian.pad_token_id, marian.decoder_start_token_id, marian.eos_token_id)
    source, target, languages = read_sides(folder, special, marian.vocab_size, marian.target_size)
    weights = read_weights(folder, marian)
    model = build_model(folder, weights, marian, source.rows, target.rows)
    decoding, notes = decoding_settings(folder, marian, special_tokens=2 if languages else 1)
    with replacing_folder(run) as temporary:
        save_model_folder(
            temporary,
            model,
            TokenizerPair(source.tokenizer, target.tokenizer, languages),
            decoding,
            # Of several languages these are the names of groups.
            source_language=None if languages else _language(folder, "source_lang"),
            target_language=None if languages else _language(folder, "target_lang"),
        )
    if languages:
        notes.append(
            f"The model translates into {len(languages.ids)} languages ({', '.join(list(languages.ids)[:8])}): "
            "name one with --target-language."
        )
    if special.pad == special.start:
        notes.append(
            "Padding and the decoder's start share a row in Marian and have one each in Locant: logits are the same, "
            "but log-probabilities count that row twice."
        )
    if bool((weights.get(_BIAS, torch.zeros(1)) != 0).any()):
        notes.append(
            "The bias of the logits was folded into the output matrix, which is now apart from the embeddings."
        )
    return notes


def build_model(
    folder: Path, weights: dict[str, Tensor], marian: MarianConfig, source_rows: list[int], target_rows: list[int]
) -> Transformer:
    """Return the Locant model of the weights of a Marian model, or of one whose modules have Marian's names.

    Args:
        folder: Where they came from, for messages.
        weights: Tensors by Marian's names, float32.
        marian: The configuration.
        source_rows: Marian's id of each of Locant's source ids.
        target_rows: Likewise of the target.

    Raises:
        ConfigError: A tensor is of no module that Locant knows, or Locant cannot express the model.
        CheckpointError: A tensor is missing, or has another shape than the configuration says.
    """
    try:
        return _build(weights, marian, source_rows, target_rows)
    except KeyError as error:
        raise CheckpointError(f"The weights in {folder} lack the tensor {error}.") from None


def require_expressible(marian: MarianConfig) -> None:
    """Raise ConfigError unless Locant can express the model."""
    if marian.activation_function not in _FEED_FORWARDS:
        raise ConfigError(
            f"The model's activation is '{marian.activation_function}', which Locant's feed-forward does not have. "
            f"Models with {', '.join(_FEED_FORWARDS)} can be imported."
        )
    for what, encoder, decoder in (
        ("attention_heads", marian.encoder_attention_heads, marian.decoder_attention_heads),
        ("ffn_dim", marian.encoder_ffn_dim, marian.decoder_ffn_dim),
    ):
        if encoder != decoder:
            raise ConfigError(
                f"The model has encoder_{what} {encoder} but decoder_{what} {decoder}; Locant has one number for both."
            )


def _build(
    weights: dict[str, Tensor], marian: MarianConfig, source_rows: list[int], target_rows: list[int]
) -> Transformer:
    source = _first(weights, _SOURCE, _SHARED, *((_TARGET, _OUTPUT) if marian.share_encoder_decoder_embeddings else ()))
    target = _first(weights, _TARGET, _SHARED, _OUTPUT)
    output = _first(weights, _OUTPUT, _TARGET, _SHARED)
    bias = weights.get(_BIAS, torch.zeros(marian.target_size)).flatten()
    for name, matrix, size in (
        ("source embedding", source, marian.vocab_size),
        ("target embedding", target, marian.target_size),
        ("output", output, marian.target_size),
    ):
        if matrix.shape != (size, marian.d_model):
            raise CheckpointError(
                f"The {name} is {' x '.join(map(str, matrix.shape))}, but config.json says {size} x {marian.d_model}."
            )
    if len(bias) != marian.target_size:
        raise CheckpointError(
            f"The bias of the logits ({_BIAS}) has {len(bias)} values, but config.json says a vocabulary of "
            f"{marian.target_size}."
        )
    # Locant multiplies embeddings by sqrt(E) whatever the model.
    scale = 1.0 if marian.scale_embedding else math.sqrt(marian.d_model)
    source, target, output = source[source_rows] / scale, target[target_rows] / scale, output[target_rows]
    bias = bias[target_rows]
    has_bias = bool((bias != 0).any())
    config = TransformerConfig.parse(
        {
            "source_vocab_size": len(source),
            "target_vocab_size": len(target),
            "encoder_layers": marian.encoder_layers,
            "decoder_layers": marian.decoder_layers,
            "d_model": marian.d_model,
            "d_ff": marian.encoder_ffn_dim,
            "heads": marian.encoder_attention_heads,
            "dropout": marian.dropout,
            "attention_dropout": marian.attention_dropout,
            "feed_forward_dropout": marian.activation_dropout,
            "feed_forward": _FEED_FORWARDS[marian.activation_function],
            "norm": marian.norm,
            "position_options": marian.position_options,
            "share_embeddings": torch.equal(source, target),
            "tie_output": not has_bias and torch.equal(target, output),
            "start_is_padding": target_rows[PAD] == target_rows[BOS],
        },
        "config.json",
    )
    _require_known(weights, marian, config)
    state = from_marian(weights, config)
    if has_bias:
        norm = f"decoder.layers.{config.decoder_layers - 1}.residuals.2.norm"
        gain, shift = state[f"{norm}.weight"], state[f"{norm}.bias"]
        output, state[f"{norm}.bias"] = fold_bias(output, bias, gain, shift)
    state |= {"source_embedding.weight": source, "target_embedding.weight": target, "output.weight": output}
    with skip_init():
        model = Transformer(config).eval()
    for name, own in model.state_dict().items():
        if own.shape != state[name].shape:
            raise CheckpointError(
                f"The weights of {name} are {' x '.join(map(str, state[name].shape))}, but config.json says "
                f"{' x '.join(map(str, own.shape))}."
            )
    model.load_state_dict(state)
    return model


def _require_known(weights: dict[str, Tensor], marian: MarianConfig, config: TransformerConfig) -> None:
    """Raise ConfigError where the weights hold more than the model's modules, or another table of positions."""
    known = {f"{name}.{part}" for module in modules(config) for name in module.marian for part in ("weight", "bias")}
    known |= {_SOURCE, _TARGET, _SHARED, _OUTPUT, *marian.tables}
    if marian.has_bias:
        known.add(_BIAS)
    unknown = sorted(weights.keys() - known)
    if unknown:
        raise ConfigError(f"The weights hold '{unknown[0]}', which no {marian.title} model in Hugging Face has.")
    options = marian.position_options
    start = options.get("start", 0)
    for name in marian.tables:
        table = weights.get(name)
        if table is not None:
            used = table[start:]
            expected = sinusoid_table(torch.arange(len(used)) + start, config.d_model, dialect=options["dialect"])
            if used.shape != expected.shape or not torch.allclose(used, expected, atol=2e-3):
                raise ConfigError(f"'{name}' is not {marian.title}'s sinusoid, so its positions cannot be imported.")


def _first(weights: dict[str, Tensor], *names: str) -> Tensor:
    """Return the tensor of the first name that is there; tied matrices are stored under one of several."""
    return weights[next((name for name in names if name in weights), names[0])]


def decoding_settings(
    folder: Path, marian: MarianConfig, special_tokens: int = 1
) -> tuple[DecodingSettings, list[str]]:
    """Return how to translate by default, and what was not taken over.

    Args:
        folder: May hold ``generation_config.json``.
        marian: The model's configuration.
        special_tokens: Tokens of every source beside those of its text.
    """
    found = read_optional(folder / "generation_config.json", "num_beams") or read_optional(
        folder / "config.json", "num_beams"
    )
    beam = min(found, MOST_HYPOTHESES) if isinstance(found, int) and found > 0 else DecodingSettings().beam
    longest = min(marian.max_position_embeddings - special_tokens, LONGEST_SOURCE)
    ours = read_optional(folder / "config.json", "locant")
    limits = {
        "max_source_length": longest,
        "usual_source_length": ours.get("usual_source_length") if isinstance(ours, dict) else None,
    }
    settings = DecodingSettings.parse({"beam": beam, **limits}, str(folder / "config.json"))
    return settings, [
        f"Translations are searched with beam {beam} and Locant's length penalty ({settings.length_penalty:g}); that "
        "of transformers is another formula."
    ]


def _language(folder: Path, key: str) -> str | None:
    value = read_optional(folder / "tokenizer_config.json", key)
    return value if isinstance(value, str) else None
