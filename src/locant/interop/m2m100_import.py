"""An M2M-100 or NLLB model in Hugging Face's format as a Locant model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from locant.decoding.model_folder import save_model_folder
from locant.errors import ConfigError
from locant.files import replacing_folder
from locant.interop.folders import require_new_folder
from locant.interop.m2m100_tokenizer import read_multilingual
from locant.interop.marian_files import MarianConfig, read_config, read_weights
from locant.interop.marian_import import build_model, decoding_settings, require_expressible
from locant.text.tokenizer import TokenizerPair
from locant.transformer import Transformer


class M2M100Config(MarianConfig):
    """What matters of the ``config.json`` of an M2M-100 model, with the defaults of ``transformers``.

    The modules have Marian's names. What differs: layers are pre-norm, each stack ends in a layer norm, positions are
    counted from ``pad_token_id + 1`` on in tensor2tensor's sinusoid, as in fairseq, and logits have no bias.
    """

    model_type: ClassVar[str] = "m2m_100"
    title: ClassVar[str] = "M2M-100"
    norm: ClassVar[Literal["post", "pre"]] = "pre"
    tables: ClassVar[tuple[str, ...]] = (
        "model.encoder.embed_positions.weights",
        "model.decoder.embed_positions.weights",
    )
    has_bias: ClassVar[bool] = False

    vocab_size: int = 128112
    activation_function: str = "relu"
    attention_dropout: float = 0.1
    decoder_start_token_id: int = 2
    scale_embedding: bool = True
    pad_token_id: int = 1
    eos_token_id: int = 2

    @property
    def position_options(self) -> dict[str, Any]:
        """Options of Locant's sinusoidal scheme."""
        return {"dialect": "tensor2tensor", "start": self.pad_token_id + 1}


def import_m2m100(folder: Path | str, run: Path | str) -> list[str]:
    """Write an M2M-100 or NLLB model as a Locant model folder with the same logits.

    Source: Fan et al. 2020, "Beyond English-Centric Multilingual Machine Translation"; Costa-jussà et al. 2022, "No
    Language Left Behind".

    Args:
        folder: Holds ``config.json``, ``model.safetensors`` or ``pytorch_model.bin``, ``sentencepiece.bpe.model`` and
            ``vocab.json`` (M2M-100) or ``tokenizer.json`` (NLLB); no code in it is run.
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
    config = read_config(folder, M2M100Config)
    require_expressible(config)
    if config.decoder_start_token_id != config.eos_token_id:
        raise ConfigError(
            f"The decoder starts with id {config.decoder_start_token_id}; M2M-100 and NLLB start with the end mark "
            f"({config.eos_token_id})."
        )
    source, target, languages = read_multilingual(folder, config.pad_token_id, config.eos_token_id, config.vocab_size)
    model = build_model(folder, read_weights(folder), config, source.rows, target.rows)
    decoding, notes = decoding_settings(folder, config, marks=2)
    with replacing_folder(run) as temporary:
        save_model_folder(temporary, model, TokenizerPair(source.tokenizer, target.tokenizer, languages), decoding)
    shown = ", ".join(list(languages.ids)[:8])
    notes.append(
        f"The model knows {len(languages.ids)} languages ({shown} ...): name two of them with --source-language and "
        "--target-language."
    )
    return notes


def import_m2m100_weights(folder: Path | str) -> Transformer:
    """Return the model of an M2M-100 folder (M2M-100, NLLB) without its tokenizer, with the same logits.

    The ids are those of the folder's own tokenizer. A source is its language's token, its pieces and the end mark; a
    target begins with the end mark and its language's token. Rows are padded on the right, with any id: the lengths
    of the sources say what is padding.

    Args:
        folder: Holds ``config.json`` and ``model.safetensors`` or ``pytorch_model.bin``; no code in it is run.

    Returns:
        The model in evaluation mode, float32, on the CPU.

    Raises:
        ConfigError: The folder holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, or the files do not fit each other.
    """
    folder = Path(folder)
    config = read_config(folder, M2M100Config)
    require_expressible(config)
    rows = list(range(config.vocab_size))
    return build_model(folder, read_weights(folder), config, rows, rows)
