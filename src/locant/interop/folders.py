"""What the folders that are written for other programs have in common."""

from __future__ import annotations

from pathlib import Path

from locant.errors import CheckpointError
from locant.files import write_text
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import CARD, model_card
from locant.text.languages import LanguageTokens
from locant.text.tokenizer import TokenizerPair


def require_new_folder(folder: Path) -> None:
    """Raise CheckpointError unless the folder does not exist or is empty; said before any work is done."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} already exists and is not empty. Name a new folder.")


def longest_sequence(decoding: DecodingSettings, languages: LanguageTokens | None = None) -> int:
    """Return the positions of the longest source or target: its tokens, its end mark or begin mark, its languages."""
    before, after = languages.places if languages else ((), ())
    longest_target = decoding.max_target_length(decoding.max_source_length)
    return 1 + max(len(before) + decoding.max_source_length, len(after) + longest_target)


def write_sentencepiece(folder: Path, tokenizers: TokenizerPair) -> None:
    """Write the SentencePiece models as ``source.spm`` and ``target.spm``."""
    (folder / "source.spm").write_bytes(tokenizers.source.model)
    (folder / "target.spm").write_bytes(tokenizers.target.model)


def write_card(folder: Path, run: Path, use: str) -> None:
    """Write the card of an exported model (see :func:`locant.models.model_card.model_card`)."""
    write_text(folder / CARD, model_card(run, use))
