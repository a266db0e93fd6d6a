"""Greedy translation with the ONNX files beside this one; needs onnxruntime, sentencepiece and numpy alone.

python translate.py "Two dogs play." "A man is riding a horse."

A model for several languages is told which, by codes in any form (config.json lists them):

python translate.py --source-language en --target-language fr "Two dogs play."
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import sentencepiece


class OnnxTranslator:
    """The three graphs of a folder, and its tokenizers.

    Args:
        folder: The folder.
        source_language: What a model for several languages translates from; by default that of ``config.json``.
        target_language: What it translates into; likewise.

    Raises:
        ValueError: As for :meth:`choose_languages`.
    """

    def __init__(self, folder: Path, source_language: str | None = None, target_language: str | None = None) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        # Before the graphs, which take long to load.
        self.choose_languages(source_language, target_language)
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_proto=(folder / f"{side}.spm").read_bytes())
            for side in ("source", "target")
        )
        self.encoder, self.decoder, self.decoder_with_past = (
            onnxruntime.InferenceSession(folder / f"{name}_model.onnx", providers=["CPUExecutionProvider"])
            for name in ("encoder", "decoder", "decoder_with_past")
        )

    def choose_languages(self, source: str | None, target: str | None) -> None:
        """Tell a model for several languages between which ones it translates from now on.

        Args:
            source: Code of the source language; ``None`` for that of ``config.json``.
            target: Code of the target language; likewise.

        Raises:
            ValueError: A language is missing or unknown, or the model cannot be told it.
        """
        before, after = self.config["source_prefix"], self.config["target_prefix"]
        given = {"source": source, "target": target}
        for side, language in given.items():
            if language and side not in before + after:
                raise ValueError(f"The model cannot be told its {side} language. Leave the {side} language out.")
        # What the encoder reads before the tokens of a source, and the decoder before it writes.
        self.before_source = [self._language_id(side, given[side]) for side in before]
        language_ids = [self._language_id(side, given[side]) for side in after]
        self.before_target = [self.config["decoder_start_token_id"], *language_ids]

    def _language_id(self, side: str, language: str | None) -> int:
        """Return the id of a language, of which any form of its code may be given."""
        ids: dict[str, int] = self.config["language_ids"]
        name = str(language or self.config[f"{side}_language"])
        code = self.config["language_codes"].get(name.lower().replace("_", "-"), name)
        if code not in ids:
            raise ValueError(
                f"The model translates between several languages, and '{name}' is none of them. Name the {side} "
                f"language (--{side}-language, {side}_language). Known: {', '.join(ids)}."
            )
        return ids[code]

    def translate(self, text: str) -> str:
        """Translate a sentence by taking the most probable token at every step.

        Raises:
            ValueError: The sentence is too long.
        """
        cased = text.lower() if self.config["lowercase"] else text
        plain = " ".join(unicodedata.normalize("NFC", cased).replace("\0", " ").split())
        ids = self.source.encode(plain)
        return str(self.target.decode(self.search(ids))) if ids else ""

    def search(self, ids: list[int]) -> list[int]:
        """Return the ids of the translation of a sentence's ids, both without BOS, EOS and languages.

        Raises:
            ValueError: The sentence is too long.
        """
        config = self.config
        if len(ids) > config["max_source_length"]:
            raise ValueError(f"At most {config['max_source_length']} tokens can be translated; got {len(ids)}.")
        source = np.array([[*self.before_source, *ids, config["eos_token_id"]]], dtype=np.int64)
        mask = np.ones_like(source)
        (memory,) = self.encoder.run(None, {"input_ids": source, "attention_mask": mask})
        session, state = self.decoder, {"encoder_hidden_states": memory}
        new = self.before_target
        written: list[int] = []
        limit = math.ceil(config["max_length_ratio"] * len(ids)) + config["max_length_extra"]
        # The last token is written and not read.
        for _ in range(min(limit, config["max_positions"] - len(new) + 1)):
            inputs = {"input_ids": np.array([new], dtype=np.int64), "encoder_attention_mask": mask, **state}
            logits, *present = session.run(None, inputs)
            names = [output.name.replace("present", "past_key_values") for output in session.get_outputs()[1:]]
            # The first graph also gives keys and values of the encoder's output, which stay as they are.
            state = {**state, **dict(zip(names, present, strict=True))}
            state.pop("encoder_hidden_states", None)
            session = self.decoder_with_past
            scores = logits[0, -1]
            scores[config["suppress_tokens"]] = -np.inf
            new = [int(scores.argmax())]
            if new == [config["eos_token_id"]]:
                break
            written += new
        return written


def main() -> None:
    """Translate the sentences of the command line."""
    parser = argparse.ArgumentParser(description="Translate with the ONNX files beside this program.")
    parser.add_argument("text", nargs="+", metavar="TEXT", help="sentences")
    for side in ("source", "target"):
        text = f"{side} language of a model for several"
        parser.add_argument(f"--{side}-language", metavar="CODE", help=text)
    options = parser.parse_args()
    try:
        translator = OnnxTranslator(Path(__file__).parent, options.source_language, options.target_language)
    except ValueError as error:
        parser.error(str(error))
    for sentence in options.text:
        try:
            print(translator.translate(sentence))  # noqa: T201 - what the example is for
        except ValueError as error:
            sys.exit(f"{parser.prog}: error: {error}")


if __name__ == "__main__":
    main()
