"""What an evaluation by length measures."""

from __future__ import annotations

from dataclasses import dataclass, field

from locant.errors import UsageError, nearest
from locant.extension.needle import Needle
from locant.extension.perplexity import PerplexitySettings

TESTS = ("perplexity", "passkey", "needle", "ruler")
"""The tests by name."""

AS_IS = "none"
"""Name of the model as it is, among methods that extend it."""

_SHORTEST = 64


@dataclass(frozen=True)
class EvaluationSettings:
    """What to measure.

    Attributes:
        lengths: In tokens, each at least 64.
        tests: Some of :data:`TESTS`.
        perplexity: Metrics and their settings.
        documents: Documents that perplexity is measured on, at most.
        depths: Number of depths of passkey and needle, at even distances from 0 (beginning) to 1 (end).
        tries: Pass keys for every length and depth, and examples of each RULER task at every length.
        needle: What the needle test hides.
        methods: ``none`` for the model as it is, and names of extension methods.
        target_length: Length in tokens that the methods extend to.
        chunk: Tokens read at once.
    """

    lengths: tuple[int, ...]
    tests: tuple[str, ...] = ("perplexity",)
    perplexity: PerplexitySettings = field(default_factory=PerplexitySettings)
    documents: int = 4
    depths: int = 6
    tries: int = 10
    needle: Needle = field(default_factory=Needle)
    methods: tuple[str, ...] = (AS_IS,)
    target_length: int | None = None
    chunk: int = 512

    def __post_init__(self) -> None:
        """Check what can be checked without the model.

        Raises:
            UsageError: Something is unknown or out of range.
        """
        if not self.lengths or min(self.lengths) < _SHORTEST:
            raise UsageError(f"Every length must be at least {_SHORTEST} tokens; got {list(self.lengths)}.")
        for test in self.tests:
            if test not in TESTS:
                raise UsageError(f"Unknown test '{test}'.{nearest(test, TESTS)} Known: {', '.join(TESTS)}.")
        if "perplexity" in self.tests:
            self.perplexity.check(self.lengths)
        for name in ("documents", "depths", "tries", "chunk"):
            if getattr(self, name) < 1:
                raise UsageError(f"The number of {name} must be at least 1; got {getattr(self, name)}.")
        if self.target_length is None and set(self.methods) != {AS_IS}:
            raise UsageError("Say how far the method extends the model: --to LENGTH.")
        if self.target_length is not None and set(self.methods) == {AS_IS}:
            raise UsageError("Say by which method the model is extended: --method NAME.")
