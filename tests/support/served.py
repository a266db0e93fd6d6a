"""Small servers for tests: random models, and requests to them without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient
from tiny_models import tiny_model, tiny_tokenizers

from locant.models import DecodingSettings
from locant.server import ModelPlace, Models, ServerSettings, build_app
from locant.translation import Translator


def tiny_translator(source: str | None = "de", target: str | None = "en", seed: int = 22) -> Translator:
    """A random model that writes a few tokens for each sentence."""
    tokenizers = tiny_tokenizers()
    model = tiny_model(tokenizers.source.vocab_size, seed=seed, sharpness=4.0)
    decoding = DecodingSettings(beam=2, max_length_extra=4)
    return Translator(model, tokenizers, decoding, source_language=source, target_language=target)


def tiny_models(*languages: tuple[str, str]) -> Models:
    """Models between languages, by default from German to English."""
    pairs = languages or (("de", "en"),)
    found = [(ModelPlace(f"runs/{source}-{target}"), tiny_translator(source, target)) for source, target in pairs]
    return Models(found)


@contextmanager
def serving(models: Models | None = None, *, address: str = "192.0.2.1", **settings: Any) -> Iterator[TestClient]:
    """A client of a server, from some address, until the block ends."""
    app = build_app(models or tiny_models(), ServerSettings.parse(settings, "test"))
    with TestClient(app, client=(address, 50_000)) as client:
        yield client
