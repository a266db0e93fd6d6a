"""Translates with the ONNX files beside it, greedily; needs onnxruntime, sentencepiece and numpy alone.

python translate.py "Two dogs play." "A man is riding a horse."
"""

from __future__ import annotations

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
    """The three graphs of a folder, and its tokenizers."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_proto=(folder / f"{side}.spm").read_bytes())
            for side in ("source", "target")
        )
        self.encoder, self.decoder, self.decoder_with_past = (
            onnxruntime.InferenceSession(folder / f"{name}_model.onnx", providers=["CPUExecutionProvider"])
            for name in ("encoder", "decoder", "decoder_with_past")
        )

    def translate(self, text: str) -> str:
        """Translate a sentence by taking the most probable token at every step."""
        config = self.config
        cased = text.lower() if config["lowercase"] else text
        plain = " ".join(unicodedata.normalize("NFC", cased).replace("\0", " ").split())
        ids = self.source.encode(plain)
        if not ids:
            return ""
        if len(ids) > config["max_source_length"]:
            raise ValueError(f"At most {config['max_source_length']} tokens can be translated; got {len(ids)}.")
        mask = np.ones((1, len(ids) + 1), dtype=np.int64)
        (memory,) = self.encoder.run(
            None, {"input_ids": np.array([[*ids, config["eos_token_id"]]]), "attention_mask": mask}
        )
        session, state = self.decoder, {"encoder_hidden_states": memory}
        written = [config["decoder_start_token_id"]]
        limit = math.ceil(config["max_length_ratio"] * len(ids)) + config["max_length_extra"]
        for _ in range(min(limit, config["max_positions"])):
            inputs = {"input_ids": np.array([written[-1:]]), "encoder_attention_mask": mask, **state}
            logits, *present = session.run(None, inputs)
            names = [output.name.replace("present", "past_key_values") for output in session.get_outputs()[1:]]
            # The first graph also gives keys and values of the encoder's output, which stay as they are.
            state = {**state, **dict(zip(names, present, strict=True))}
            state.pop("encoder_hidden_states", None)
            session = self.decoder_with_past
            scores = logits[0, -1]
            scores[config["suppress_tokens"]] = -np.inf
            written.append(int(scores.argmax()))
            if written[-1] == config["eos_token_id"]:
                break
        return str(self.target.decode([token for token in written[1:] if token != config["eos_token_id"]]))


if __name__ == "__main__":
    translator = OnnxTranslator(Path(__file__).parent)
    for sentence in sys.argv[1:]:
        print(translator.translate(sentence))  # noqa: T201 - what the example is for
