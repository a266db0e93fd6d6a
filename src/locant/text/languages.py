"""The language tokens of a model that translates between more than two languages."""

from __future__ import annotations

from typing import Literal, NamedTuple

from locant.errors import ConfigError, nearest
from locant.settings import Settings
from locant.text.tokenizer import BOS, EOS


class Prefixes(NamedTuple):
    """Ids that stand before the pieces of a sentence.

    Attributes:
        source: What the encoder reads first.
        target: What the decoder reads before it writes; at least one id.
    """

    source: list[int]
    target: list[int]


PLAIN = Prefixes([], [BOS])
"""Of a model for one pair of languages."""


Side = Literal["source", "target"]

_PLACES: dict[str, tuple[tuple[Side, ...], tuple[Side, ...]]] = {
    "fairseq": (("source",), ("target",)),
    "marian": (("target",), ()),
}
"""Whose language's tokens stand before the source, and after what the decoder reads first, by layout."""


class LanguageTokens(Settings):
    """The id of each language's token, and where these tokens stand.

    Attributes:
        layout: ``fairseq`` (M2M-100, Fan et al. 2020; NLLB, Costa-jussà et al. 2022): the token of the source language
            before the source; the decoder reads the end mark and the token of the target language. ``marian``
            (OPUS-MT): the token of the target language before the source; the decoder reads the begin mark.
        ids: By language code, in the vocabulary where the token stands (with ``fairseq`` both have the same ids).
    """

    layout: Literal["fairseq", "marian"]
    ids: dict[str, int]

    @property
    def decoder_start(self) -> int:
        """The id that the decoder reads first."""
        return EOS if self.layout == "fairseq" else BOS

    @property
    def places(self) -> tuple[tuple[Side, ...], tuple[Side, ...]]:
        """Whose language's tokens stand before the source, and after the id that the decoder reads first."""
        return _PLACES[self.layout]

    def prefixes(self, source: str | None, target: str | None) -> Prefixes:
        """Return what tells the model its languages.

        Args:
            source: Language code, or ``None`` where the layout has no token for the source.
            target: Language code.

        Raises:
            ConfigError: A language is missing or unknown, or the model cannot be told its source language.
        """
        before, after = self.places
        if source is not None and "source" not in before + after:
            raise ConfigError("The model is told the target language alone. Leave the source language out.")
        named: dict[Side, str | None] = {"source": source, "target": target}
        return Prefixes(
            [self._id(side, named[side]) for side in before],
            [self.decoder_start, *(self._id(side, named[side]) for side in after)],
        )

    def _id(self, side: Side, language: str | None) -> int:
        known = f" Known: {', '.join(self.ids)}."
        if language is None:
            raise ConfigError(
                f"The model translates between several languages and must be told the {side} language "
                f"(--{side}-language, {side}_language).{known}"
            )
        if language not in self.ids:
            raise ConfigError(f"The model has no language '{language}'.{nearest(language, self.ids) or known}")
        return self.ids[language]
