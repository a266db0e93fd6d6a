"""Hugging Face's encoder-decoder Transformers, Marian and M2M-100, whose weights and settings have the same names.

One table says which entry of ``config.json`` is which of Locant's settings, and one which tensors make which of
Locant's modules; import and export read them in the two directions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.files import replacing_folder, write_json, write_tensors, write_text
from locant.interop.assembling import Parts, sinusoid_of, stacked
from locant.interop.huggingface_files import Foreign, Row, read_rows, read_weights
from locant.models.architectures import require_transformer
from locant.models.config import TransformerConfig, unserved
from locant.models.decoding_settings import LONGEST_SOURCE, MOST_HYPOTHESES, DecodingSettings
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import ModelFolder
from locant.models.transformer import Transformer
from locant.translation.module_names import ModuleNames, module_names
from locant.version import __version__

_SETTINGS = {
    "d_model": "d_model",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_attention_heads": "heads",
    "decoder_attention_heads": "heads",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "d_ff",
    "activation_function": "feed_forward",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "feed_forward_dropout",
}
"""Entries of ``config.json``, and what Locant calls them; it has one number for both stacks."""
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_SHARED, _OUTPUT, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"


class MarianConfig(Foreign):
    """What matters of Marian's ``config.json``, with the defaults of ``transformers``, which leaves them out.

    Attributes:
        kind: What ``config.json`` calls this kind of model.
        title: Its name in messages.
        norm: Where its layer norms are, as in Locant's configuration.
        tables: The tensors that hold its sinusoid, where the weights do.
        several: Whether the first token that it writes is that of a language; its logits have no bias then.
    """

    kind: ClassVar[str] = "marian"
    title: ClassVar[str] = "Marian"
    norm: ClassVar[Literal["post", "pre"]] = "post"
    tables: ClassVar[tuple[str, ...]] = (
        "model.encoder.embed_positions.weight",
        "model.decoder.embed_positions.weight",
    )
    several: ClassVar[bool] = False

    tokenizer_class: str | None = None
    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    max_position_embeddings: int = 1024
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    decoder_attention_heads: int = 16
    activation_function: str = "gelu"
    d_model: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    decoder_start_token_id: Row = 58100
    scale_embedding: bool = False
    bos_token_id: Row | None = None
    pad_token_id: Row = 58100
    eos_token_id: Row = 0
    share_encoder_decoder_embeddings: bool = True
    locant: dict[str, Any] = Field(default_factory=dict)

    @property
    def target_size(self) -> int:
        """Rows of the target embedding; those of the source are ``vocab_size``."""
        own = None if self.share_encoder_decoder_embeddings else self.decoder_vocab_size
        return own or self.vocab_size

    @property
    def position_options(self) -> dict[str, Any]:
        """Options of Locant's sinusoidal scheme."""
        return {"dialect": "concatenated"}


class M2M100Config(MarianConfig):
    """What matters of the ``config.json`` of an M2M-100 model, with the defaults of ``transformers``.

    What differs from Marian: layers are pre-norm, each stack ends in a layer norm, positions are counted from
    ``pad_token_id + 1`` on in tensor2tensor's sinusoid, as in fairseq, and logits have no bias.
    """

    kind: ClassVar[str] = "m2m_100"
    title: ClassVar[str] = "M2M-100"
    norm: ClassVar[Literal["post", "pre"]] = "pre"
    tables: ClassVar[tuple[str, ...]] = (
        "model.encoder.embed_positions.weights",
        "model.decoder.embed_positions.weights",
    )
    several: ClassVar[bool] = True

    vocab_size: int = 128112
    activation_function: str = "relu"
    attention_dropout: float = 0.1
    decoder_start_token_id: Row = 2
    scale_embedding: bool = True
    bos_token_id: Row | None = 0
    pad_token_id: Row = 1
    eos_token_id: Row = 2

    @property
    def position_options(self) -> dict[str, Any]:
        """Options of Locant's sinusoidal scheme."""
        return {"dialect": "tensor2tensor", "start": self.pad_token_id + 1}


class AddedToken(Foreign):
    """A token that was added to a tokenizer."""

    content: str
    id: Row | None = None
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False


class TokenizerConfig(Foreign):
    """What matters of ``tokenizer_config.json``."""

    tokenizer_class: str | None = None
    auto_map: dict[str, Any] = Field(default_factory=dict)
    language_codes: str = "m2m100"
    legacy_behaviour: bool = False
    source_lang: str | None = None
    target_lang: str | None = None
    added_tokens_decoder: dict[Annotated[int, Field(ge=0)], AddedToken] = Field(default_factory=dict)

    @classmethod
    def of_model(cls, folder: Path, config: MarianConfig, classes: Collection[str]) -> TokenizerConfig:
        """Read the file of a folder.

        Args:
            folder: May hold it.
            config: Of the model, which may name the tokenizer's class as well.
            classes: Those that prepare text as Locant does.

        Raises:
            ConfigError: The tokenizer is of another class, or is code of the folder's own.
        """
        found = cls.read(folder / "tokenizer_config.json", optional=True)
        named = found.tokenizer_class or config.tokenizer_class
        if found.auto_map or named not in (None, *classes):
            raise ConfigError(
                f"The tokenizer of {folder} is of the class {named!r}, which prepares text in a way of its own; models "
                f"with {' or '.join(classes)} can be imported."
            )
        return found

    def added(self, folder: Path, more: Sequence[AddedToken] = ()) -> dict[str, AddedToken]:
        """Return the tokens that were added, by name, of all files that list them.

        Args:
            folder: May hold ``added_tokens.json``.
            more: Those of ``tokenizer.json``, which count where the files differ.
        """
        path = folder / "added_tokens.json"
        listed = [AddedToken(content=name, id=row) for name, row in (read_rows(path) if path.is_file() else {}).items()]
        named = [one.model_copy(update={"id": row}) for row, one in self.added_tokens_decoder.items()]
        return {token.content: token for token in (*listed, *named, *more)}


def modules(config: MarianConfig | TransformerConfig) -> Iterator[ModuleNames]:
    """Yield every module with weight and bias; the embeddings and the output are not among them."""
    for stack, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        yield from module_names(stack, layers, norm=config.norm)


def read_config(folder: Path, kind: type[MarianConfig]) -> MarianConfig:
    """Read ``config.json`` as that of one kind of model.

    Raises:
        CheckpointError: The file is missing, or it is not JSON.
        ConfigError: It describes a model that Locant cannot express, or a value is wrong.
    """
    path = folder / "config.json"
    config = kind.read(path)
    special = (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id)
    size = min(config.vocab_size, config.target_size)
    why = ""
    if max(special) >= size:
        why = f"pad_token_id, decoder_start_token_id and eos_token_id are {special}, but there are {size} tokens"
    elif config.several and config.decoder_start_token_id != config.eos_token_id:
        why = f"decoder_start_token_id is not eos_token_id, as {config.title} has it"
    elif config.activation_function not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        why = f"activation_function is '{config.activation_function}'; Locant's feed-forward has {known}"
    for name in ("attention_heads", "ffn_dim"):
        if getattr(config, f"encoder_{name}") != getattr(config, f"decoder_{name}"):
            why = f"encoder_{name} is not decoder_{name}; Locant has one number for both"
    if why:
        raise ConfigError(f"{path}: {why}.")
    return config


def read_parts(folder: Path, config: MarianConfig) -> Parts:
    """Return a model, whose weights are checked against its configuration before anything of its sizes is made.

    Args:
        folder: Holds the weights.
        config: The configuration.

    Raises:
        ConfigError: A tensor is of no module that such a model has, or positions are another table.
        CheckpointError: The weights are missing or damaged, or have other layers or sizes.
    """
    path, weights = folder / "config.json", read_weights(folder)
    if config.encoder_layers + config.decoder_layers > len(weights):
        raise CheckpointError(f"{path} says more encoder_layers and decoder_layers than the weights have.")
    theirs = {module.locant: module.huggingface for module in modules(config)}
    known = {f"{name}.{part}" for names in theirs.values() for name in names for part in ("weight", "bias")}
    known |= {_SOURCE, _TARGET, _SHARED, _OUTPUT, *config.tables, *([] if config.several else [BIAS])}
    if unknown := sorted(weights.keys() - known):
        raise ConfigError(
            f"The weights in {folder} hold '{unknown[0]}', which a {config.title} model of these layers does not have."
        )

    def stored(name: str, *shape: int) -> Tensor:
        if name not in weights:
            raise CheckpointError(f"The weights in {folder} lack the tensor '{name}'.")
        if shape and weights[name].shape != shape:
            said, found = (" x ".join(map(str, sizes)) for sizes in (shape, weights[name].shape))
            raise CheckpointError(f"{path} makes {name} {said}, but the weights have {found}.")
        return weights[name]

    def weight(name: str) -> Tensor:
        module, _, part = name.rpartition(".")
        names = [f"{one}.{part}" for one in theirs[module]]
        found = stacked([stored(name) for name in names], name)
        for name in names:
            del weights[name]  # the model has it now
        return found

    for stack in ("encoder", "decoder"):
        stored(f"model.{stack}.layers.0.fc1.weight", config.encoder_ffn_dim, config.d_model)
    # Tied matrices are stored under one of several names, and are one tensor here too.
    tied = (_TARGET, _OUTPUT) if config.share_encoder_decoder_embeddings else ()
    matrices: dict[str, Tensor] = {}
    chosen = []
    for rows, names in (
        (config.vocab_size, (_SOURCE, _SHARED, *tied)),
        (config.target_size, (_TARGET, _SHARED, _OUTPUT)),
        (config.target_size, (_OUTPUT, _TARGET, _SHARED)),
    ):
        name = next((name for name in names if name in weights), names[0])
        matrix = stored(name, rows, config.d_model)
        matrices.setdefault(name, matrix.float())
        chosen.append(name)
    bias = stored(BIAS, 1, config.target_size)[0].float() if BIAS in weights else torch.zeros(config.target_size)
    options = config.position_options
    for table in [weights[name].float() for name in config.tables if name in weights]:
        if sinusoid_of(table[options.get("start", 0) :], [options]) is None:
            raise ConfigError(f"The positions in {folder} are not {config.title}'s sinusoid, so it is not imported.")
    # Locant multiplies embeddings by sqrt(E) whatever the model.
    scale = 1.0 if config.scale_embedding else math.sqrt(config.d_model)
    scaled = {name: matrix if scale == 1 else matrix / scale for name, matrix in matrices.items()}
    settings: dict[str, Any] = {ours: getattr(config, theirs) for theirs, ours in _SETTINGS.items()}
    settings |= {"norm": config.norm, "position_options": options}
    settings["feed_forward"] = _ACTIVATIONS[config.activation_function]
    source, target, output = chosen
    return Parts(settings, scaled[source], scaled[target], matrices[output], bias, weight)


class _Search(Foreign):
    num_beams: Annotated[int, Field(ge=1)] | None = None


def read_search(folder: Path, config: MarianConfig, special_tokens: int) -> tuple[DecodingSettings, list[str]]:
    """Return how to translate by default, and what was not taken over.

    Args:
        folder: May hold ``generation_config.json``.
        config: The model's configuration.
        special_tokens: Tokens of every source beside those of its text.
    """
    files = [folder / "generation_config.json", folder / "config.json"]
    named = [_Search.read(path, optional=True).num_beams for path in files]
    beam = min(next(filter(None, named), DecodingSettings().beam), MOST_HYPOTHESES)
    limits = {
        "max_source_length": min(config.max_position_embeddings - special_tokens, LONGEST_SOURCE),
        "usual_source_length": config.locant.get("usual_source_length"),
    }
    settings = DecodingSettings.parse({"beam": beam, **limits}, str(folder / "config.json"))
    return settings, [
        f"Translations are searched with beam {beam} and Locant's length penalty ({settings.length_penalty:g}); that "
        "of transformers is another formula. Other entries of generation_config.json count for nothing."
    ]


@contextmanager
def writing_model(
    folder: Path,
    run: Path,
    found: ModelFolder,
    kind: type[MarianConfig],
    weights: Mapping[str, Tensor],
    special: Mapping[str, int],
    about: Mapping[str, Any],
    *,
    never: Sequence[int] = (),
    use: str,
) -> Iterator[Path]:
    """Write a folder with all but the tokenizer, which is written within the block.

    Args:
        folder: Where to write.
        run: What is exported, for its card.
        found: What was read from it.
        kind: As what.
        weights: Tensors by their names.
        special: The rows of ``pad``, ``bos``, ``eos`` and ``decoder_start``.
        about: Further entries of ``config.json``.
        never: Rows that are not written, beside padding and the beginning of a sentence.
        use: How the folder is used, for its card.

    Yields:
        The folder, under a temporary name.
    """
    model, decoding = require_transformer(found.model, "Export to Hugging Face"), found.decoding
    longest = decoding.longest_sequence(found.tokenizers.languages)
    rows = {f"{name}_token_id": row for name, row in special.items()}
    config = {
        "model_type": kind.kind,
        **{theirs: getattr(model.config, ours) for theirs, ours in _SETTINGS.items()},
        "scale_embedding": True,
        "max_position_embeddings": longest,
        **rows,
        "is_encoder_decoder": True,
        "dtype": "float32",
        **about,
        "locant": {"version": __version__, "usual_source_length": decoding.usual_source_length},
    }
    search = {
        **rows,
        "suppress_tokens": [special["pad"], special["bos"], *never],
        "max_length": longest,
        "num_beams": decoding.beam,
        **({"length_penalty": decoding.length_penalty} if decoding.beam > 1 else {}),
    }
    with replacing_folder(folder) as temporary:
        write_json(temporary / "config.json", config)
        write_json(temporary / "generation_config.json", search)
        write_tensors(temporary / "model.safetensors", weights)
        yield temporary
        write_text(temporary / CARD, model_card(run, use))


def write_weights(
    model: Transformer, *, order: Tensor | None = None, rows: list[int | None] | None = None
) -> dict[str, Tensor]:
    """Return the weights of a Locant model by their names in Hugging Face; matrices that are tied are there once.

    Args:
        model: The model.
        order: The features' new order ``[E]``, or ``None`` to leave them as they are.
        rows: Locant's id of each row that the matrices of tokens are to have, ``None`` for one of zeros. A model of
            such rows ties all its matrices or none, as M2M-100 does. Without it they stay as they are.
    """
    state, config = model.state_dict(), model.config
    features = torch.arange(config.d_model) if order is None else order
    found: dict[str, Tensor] = {}
    for module in modules(config):
        weight, bias = state[f"{module.locant}.weight"], state[f"{module.locant}.bias"]
        weight, bias = (weight[features], bias[features]) if module.writes else (weight[:, features], bias)
        parts = len(module.huggingface)
        for name, part, values in zip(module.huggingface, weight.chunk(parts), bias.chunk(parts), strict=True):
            found[f"{name}.weight"], found[f"{name}.bias"] = part, values
    source, target, output = (
        state[f"{name}.weight"][:, features] for name in ("source_embedding", "target_embedding", "output")
    )
    if config.share_embeddings:
        found[_SHARED] = target
    if not (config.share_embeddings and config.tie_output):
        # Where Marian does not tie all three, it ties nothing to the shared matrix and wants copies.
        found[_SOURCE], found[_TARGET] = source.clone(), target.clone()
    if not config.tie_output:
        found[_OUTPUT] = output
    if rows is not None:
        if _TARGET in found:
            found = {_SHARED: found[_TARGET], _OUTPUT: found[_TARGET]} | found
        chosen, zero = torch.tensor([row or 0 for row in rows]), torch.tensor([row is None for row in rows])
        for name in found.keys() & {_SOURCE, _TARGET, _SHARED, _OUTPUT}:
            found[name] = found[name][chosen].masked_fill(zero[:, None], 0)
    return found


SEARCH_DIFFERS = (
    "Greedy search gives Locant's translations. Beam search may give others: transformers divides by length^alpha, "
    "Locant by ((5 + length) / 6)^alpha, and they end a search by different rules."
)


def require_same(
    kind: type[MarianConfig], model: Transformer, sinusoids: list[dict[str, Any]], settings: str
) -> dict[str, Any]:
    """Return the options of a model's sinusoid, and check that its layers are plain ones.

    A model is trained for hours before it is exported, so that a message which named one difference at a time would
    cost a training for each.

    Args:
        kind: As what it is exported.
        model: The model.
        sinusoids: Options of those that can be exported.
        settings: With which a model has one of them.

    Raises:
        ConfigError: It differs; the message names the settings without any difference.
    """
    config, scheme = model.config, model.encoder.scheme(0)
    codes = scheme.code(torch.arange(64)) if scheme.acts_on == {"embedding"} else None
    found = None if codes is None else sinusoid_of(codes, sinusoids, atol=1e-6)
    others = {name: known for name, known in unserved(config).items() if name not in ("norm", "feed_forward", "kinds")}
    wanted = [f"model.{name}={known}" for name, known in others.items()]
    if config.norm != kind.norm:
        wanted.append(f"model.norm={kind.norm}")
    if config.feed_forward not in _ACTIVATIONS:
        wanted.append("model.feed_forward=relu (or gelu, silu)")
    if found is None:
        wanted.append(settings if config.position == "sinusoidal" else f"model.position=sinusoidal {settings}")
    if wanted or found is None:
        raise ConfigError(
            f"{kind.title} in Hugging Face has other layers or positions than this model. Train one with "
            f"{' '.join(wanted)}, or export this one to ctranslate2 or onnx."
        )
    return found
