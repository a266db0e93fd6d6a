"""The weights of an M2M-100 model in Hugging Face's format as a Locant model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from locant.interop.marian_files import MarianConfig, read_config, read_weights
from locant.interop.marian_import import build_model, require_expressible
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


def import_m2m100_weights(folder: Path | str) -> Transformer:
    """Return the model of an M2M-100 folder (M2M-100, NLLB), with the same logits.

    Source: Fan et al. 2020, "Beyond English-Centric Multilingual Machine Translation".

    The ids are those of the folder's own tokenizer. A source is its language's token, its pieces and the end mark; a
    target begins with the end mark and its language's token. Locant's tokenizers, model folders and searches have no
    such tokens, so the model is used through its methods ``encode``, ``start`` and ``step``, or called. Rows are
    padded on the right, with any id: the lengths of the sources say what is padding.

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
