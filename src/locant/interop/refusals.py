"""Which formats cannot have a model, known before it is trained."""

from __future__ import annotations

from collections.abc import Callable

import torch

from locant.errors import ConfigError
from locant.interop.marian import require_marian
from locant.interop.onnx_export import require_traceable
from locant.models.architectures import ModelConfig
from locant.models.config import TransformerConfig, require_served
from locant.models.transformer import Transformer
from locant.translation.ctranslate2 import require_positions


def export_refusals(config: ModelConfig, *, several_languages: bool = False) -> dict[str, str]:
    """Return why a model cannot be exported, by the format; a Transformer of few layers is asked in its place.

    Args:
        config: Of the model.
        several_languages: Whether it translates between several, of which Marian knows none.
    """
    if not isinstance(config, TransformerConfig):
        return {}
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), 8)
    layers = dict.fromkeys(("encoder_layers", "decoder_layers"), len(config.pattern or "1"))
    with torch.random.fork_rng(devices=[]):
        model = Transformer(TransformerConfig.parse({**config.to_dict(), **sizes, **layers}))
    checks: dict[str, Callable[[Transformer], object]] = {
        "ctranslate2 and argos": require_positions,
        "huggingface": require_marian,
        "onnx": require_traceable,
    }
    if several_languages:
        del checks["huggingface"]
    found = {}
    for name, check in checks.items():
        try:
            if name != "onnx":
                require_served(config, "Export", "")
            check(model)
        except ConfigError as error:
            found[name] = str(error).strip()
    return found
