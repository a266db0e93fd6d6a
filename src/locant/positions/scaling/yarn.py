"""YaRN: NTK-by-parts, and attention sharpened a little."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from locant.errors import ConfigError
from locant.positions.scaling.checks import check_positive
from locant.positions.scaling.contexts import GGUFContext, GGUFForm, LlamaCppContext, RopeContext, VllmContext
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.frequency import ExtensionMethod, FrequencyScaling, register_scaling
from locant.positions.scaling.ntk_by_parts import NTKByParts
from locant.positions.scaling.yarn_entries import (
    entries_of_vllm,
    mscale_of,
    stated_corners,
    stated_scales,
    stated_truncate,
)
from locant.positions.scaling.yarn_llamacpp import corners_of_file, corners_of_llamacpp, scales_of_file

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


@register_scaling("yarn")
@dataclass(frozen=True, kw_only=True)
class YaRN(NTKByParts):
    """YaRN: NTK-by-parts, and attention sharpened a little.

    Source: Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", section 3.4:
    cosine and sine of queries and keys are multiplied by::

        attention_scale = 0.1 * ln(factor) + 1

    so that scores are divided by the temperature ``attention_scale^-2``. ``attention_factor`` states another scale.
    DeepSeek's models state a pair instead, from which follows::

        attention_scale = (0.1 * mscale * ln(factor) + 1) / (0.1 * mscale_all_dim * ln(factor) + 1)

    They moreover multiply scores by the square of the denominator, in the attention itself: that is no part of this
    scaling. ``mscale`` without ``mscale_all_dim``, or one of them 0, means one thing to DeepSeek's code (0.1 * 0 + 1)
    and another to Hugging Face's (the pair is ignored), so it is refused here.

    Args:
        original_length: Length in tokens that the model was trained for before the extension.
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model shall read.
        beta_fast: Turns from which on a pair keeps its frequency.
        beta_slow: Turns up to which a pair is interpolated; at most ``beta_fast``.
        truncate: Whether the two indices are rounded outwards to whole pairs.
        attention_factor: The attention scale itself, instead of the formula.
        mscale: Weight of the logarithm in the numerator.
        mscale_all_dim: Weight of the logarithm in the denominator; given together with ``mscale``.

    Example:
        >>> YaRN(original_length=4096, factor=32).attention_scale()
        1.3465735902799727
    """

    title: ClassVar[str] = "YaRN"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071"
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "YaRN, Peng et al. 2023, arXiv:2309.00071",
        "Short texts are scaled as well, which costs a little quality there.",
    )

    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        """Check the fields, and fill in factor or target length."""
        super().__post_init__()
        self._check_attention_factor()
        for field in ("mscale", "mscale_all_dim"):
            if getattr(self, field) is not None:
                check_positive(self.name, field, getattr(self, field))
        if (self.mscale is None) != (self.mscale_all_dim is None):
            raise ConfigError(
                f"The scaling '{self.name}' has mscale {self.mscale} and mscale_all_dim {self.mscale_all_dim}. They "
                "are a pair, and implementations disagree on one alone; give both, or attention_factor instead."
            )
        if self.attention_factor is not None and self.mscale is not None:
            raise ConfigError(
                f"The scaling '{self.name}' has attention_factor {self.attention_factor:g} as well as mscale "
                f"{self.mscale:g}; both set the attention scale, so give one of them."
            )
        if self.mscale is not None and not 0 < self.attention_scale() < math.inf:
            raise ConfigError(
                f"mscale {self.mscale} and mscale_all_dim {self.mscale_all_dim} of the scaling '{self.name}' make an "
                "attention scale beyond any float."
            )

    def _check_attention_factor(self) -> None:
        if self.attention_factor is not None:
            check_positive(self.name, "attention_factor", self.attention_factor)

    def attention_scale(self, length: int | None = None) -> float:
        """Return what multiplies cosine and sine; the same for every length."""
        del length
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.mscale is None or self.mscale_all_dim is None:
            return self.paper_attention_scale()
        logarithm = math.log(self._factor)
        return (0.1 * self.mscale * logarithm + 1) / (0.1 * self.mscale_all_dim * logarithm + 1)

    def paper_attention_scale(self) -> float:
        """Return the attention scale that the paper's formula gives for the factor."""
        return 0.1 * math.log(self._factor) + 1

    def _with_target(self, target_length: int) -> NTKByParts:
        extended = replace(self, factor=None, target_length=target_length)
        follows_factor = (
            self.attention_factor is not None and abs(self.attention_factor / self.paper_attention_scale() - 1) < 1e-6
        )
        return replace(extended, attention_factor=None) if follows_factor else extended

    def _as_yarn(self) -> YaRN:
        return self

    def llamacpp_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield that llama.cpp always rounds the corners of the ramp."""
        if self.truncate:
            return
        rounded = replace(config, scaling=replace(self, truncate=True))
        pairs = zip(config.explain().pairs, rounded.explain().pairs, strict=True)
        exact, whole = max(pairs, key=lambda pair: abs(math.log(pair[0].ratio / pair[1].ratio)))
        if exact.ratio == whole.ratio:
            return
        yield Finding(
            "warning",
            f"transformers: pair {exact.index} is slowed by {1 / exact.ratio:.4g}. llama.cpp, which always rounds the "
            f"corners of YaRN's ramp: by {1 / whole.ratio:.4g}; no other pair differs more.",
            "Compare the scores of the two at long texts; neither the files nor the flags of llama.cpp can express it.",
        )

    rope_types: ClassVar[tuple[str, ...]] = ("yarn", "deepseek_yarn")
    rope_entries: ClassVar[tuple[str, ...]] = (
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    )
    ratio_is_factor: ClassVar[Literal["never", "where it is null", "where it is left out"]] = "where it is null"
    gguf_type: ClassVar[str | None] = "yarn"
    llamacpp_type: ClassVar[str | None] = "yarn"

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read lengths, corners of the ramp and attention scale."""
        original = context.original_length_of(rope)
        if original is None and context.max_length is not None:
            original = context.max_length
            context.warn(
                f"original_max_position_embeddings is missing in {rope.where}; transformers silently takes "
                f"max_position_embeddings, {original}, which is taken here as well.",
                "Write down the length that the model was trained for before the extension.",
            )
            lengths: dict[str, Any] = {"original_length": original, "factor": rope.needed_factor(cls.name)}
        else:
            lengths = context.lengths_of(rope, cls, original)
        if "factor" in lengths:
            factor = lengths["factor"]
        else:
            factor = lengths["target_length"] / (original or lengths["target_length"])
        (fast, slow), scales, kind = stated_corners(rope, context), stated_scales(rope, context, factor), cls
        scale, is_small = scales["attention_factor"], context.is_out_of_range(rope, factor, "slow pairs")
        if context.is_of_transformers and (is_small or slow > fast or (scale or 1) < 0):
            from locant.positions.scaling.out_of_range import YaRNOfAnyNumbers  # which is made of this class

            kind, lengths = YaRNOfAnyNumbers, {"original_length": original, "factor": factor}
        return kind(
            **lengths,
            beta_fast=fast,
            beta_slow=slow,
            truncate=stated_truncate(rope, context),
            **scales,
        )

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return lengths, corners of the ramp and attention scale."""
        del engine
        written: dict[str, Any] = {
            "rope_type": "yarn",
            "factor": self.factor,
            "original_max_position_embeddings": self.original_length,
            "beta_fast": self.beta_fast,
            "beta_slow": self.beta_slow,
        }
        if not self.truncate:
            written["truncate"] = False
        if self.attention_factor is not None:
            written["attention_factor"] = float(self.attention_factor)
        if self.mscale is not None:
            written |= {"mscale": self.mscale, "mscale_all_dim": self.mscale_all_dim}
        return written

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return the entries of which vLLM computes the attention scale."""
        return entries_of_vllm(rope, context)

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the entries with the attention scale under the names of all releases of vLLM.

        A pair of ``mscale`` and ``mscale_all_dim`` stays one: it is all that classes with latent attention take.
        """
        scale, usual = self.attention_scale(), self.paper_attention_scale()
        rope = self.rope_parameters(engine) or {}
        if self.mscale is not None or scale == usual:
            return rope
        return rope | {"attention_factor": scale, "attn_factor": scale / usual}

    @classmethod
    def from_gguf(cls, keys: Fields, context: GGUFContext) -> FrequencyScaling:
        """Read lengths, corners of the ramp and attention scale."""
        original = context.original_length
        if original is None:
            original = keys.whole("context_length")
            context.warn(
                f"rope.scaling.original_context_length is missing or 0; llama.cpp takes context_length, {original}.",
                "Write down the length that the model was trained for before the extension.",
            )
        if keys.number("rope.scaling.yarn_attn_factor") not in (None, 1, -1):
            context.warn(
                "rope.scaling.yarn_attn_factor has no effect since December 2025, and multiplies the attention scale "
                "before.",
                "Write rope.scaling.attn_factor, the attention scale divided by 0.1 * ln(factor) + 1.",
            )
        mscale, mscale_all_dim, attention = scales_of_file(keys, context)
        fast, slow = corners_of_file(keys, context)
        scaling = cls._for_factor(context.factor)(
            factor=context.factor,
            original_length=original,
            beta_fast=fast,
            beta_slow=slow,
            mscale=mscale,
            mscale_all_dim=mscale_all_dim,
            attention_factor=attention,
        )
        if context.factor < 1:
            context.warn_of_small_factor("slow pairs")
        usual = scaling.attention_scale()
        if context.attention_factor == 1:
            return scaling
        absolute = context.attention_factor * usual
        if math.isclose(context.attention_factor, usual, rel_tol=1e-4):
            context.warn(
                f"rope.scaling.attn_factor {context.attention_factor:g} is YaRN's own attention scale, which llama.cpp "
                f"multiplies by it: {absolute:.6g}, as is shown. In transformers attention_factor is the whole scale.",
                "Remove the key, unless the weights were trained with the product.",
            )
        # The file's float32 keeps 1 from coming back exactly.
        absolute = 1.0 if math.isclose(absolute, 1, rel_tol=1e-6) else absolute
        return replace(scaling, attention_factor=absolute, mscale=None, mscale_all_dim=None)

    @classmethod
    def _for_factor(cls, factor: float) -> type[YaRN]:
        """Return the class for a factor in llama.cpp, which computes with one below 1 as well."""
        if factor >= 1:
            return cls
        if factor < 0:
            raise ConfigError(f"YaRN's factor is {factor:g}: llama.cpp takes its logarithm, which is no number.")
        from locant.positions.scaling.out_of_range import YaRNOfAnyFactor  # which is made of this class

        return YaRNOfAnyFactor

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Return lengths, corners of the ramp and the attention scale relative to the paper's."""
        del dim, base
        self._check_llamacpp(engine)
        keys: dict[str, Any] = {
            "type": "yarn",
            "factor": self.factor,
            "original_context_length": self.original_length,
            "yarn_beta_fast": self.beta_fast,
            "yarn_beta_slow": self.beta_slow,
        }
        relative = self.attention_scale() / self.paper_attention_scale()
        if relative != 1:
            keys["attn_factor"] = relative
        pair = None if self.mscale is None or self.mscale_all_dim is None else (self.mscale, self.mscale_all_dim)
        return GGUFForm(keys, mscale=pair)

    def _check_llamacpp(self, engine: str) -> None:
        """Raise ConfigError for YaRN that llama.cpp computes otherwise."""
        if not self.truncate:
            raise ConfigError(
                f"{engine} cannot express truncate false of the scaling 'yarn': llama.cpp rounds the two corners of "
                "the ramp to whole pairs."
            )

    @classmethod
    def from_llamacpp(cls, context: LlamaCppContext) -> FrequencyScaling:
        """Read lengths and corners of the ramp; what the flags leave out is that of the file."""
        numbers, own = context.numbers, context.own
        if numbers.get("--yarn-attn-factor", -1) not in (-1, 1):
            context.warn(
                f"--yarn-attn-factor {numbers['--yarn-attn-factor']:g} has no effect since December 2025, and "
                "multiplied the attention scale before that.",
                "Leave it out.",
            )
        stated = numbers.get("--yarn-orig-ctx")
        if not stated and getattr(own, "original_length", None) is None:
            context.note(
                f"--yarn-orig-ctx is {'missing' if stated is None else 0}: llama.cpp takes the context length of the "
                f"file, {context.original_length}.",
                "State the length that the model was trained for before the extension.",
            )
        (of_fast, of_slow), is_own = context.corners, isinstance(own, YaRN)
        usual = own if isinstance(own, YaRN) else cls(factor=1, original_length=1)
        relative = usual.attention_scale() / usual.paper_attention_scale()
        fast, slow = numbers.get("--yarn-beta-fast", -1), numbers.get("--yarn-beta-slow", -1)
        fast = (usual.beta_fast if is_own else of_fast) if fast < 0 else fast
        slow = (usual.beta_slow if is_own else of_slow) if slow < 0 else slow
        fast, slow = corners_of_llamacpp(fast, slow, "--yarn-beta-", context)
        return cls._for_factor(context.scale)(
            factor=context.scale,
            original_length=int(stated) if stated else context.original_length,
            beta_fast=fast,
            beta_slow=slow,
            attention_factor=None if usual.attention_factor is None else relative * mscale_of(context.scale),
            mscale=usual.mscale,
            mscale_all_dim=usual.mscale_all_dim,
        )

    def llamacpp_flags(self, engine: str) -> dict[str, object] | None:
        """Return lengths and corners of the ramp."""
        self._check_llamacpp(engine)
        if abs(self.attention_scale() / self.paper_attention_scale() - 1) > 1e-6:
            raise ConfigError(
                f"{engine} cannot express attention scale {self.attention_scale():g} of the scaling 'yarn': YaRN has "
                f"{self.paper_attention_scale():g} there, and --yarn-attn-factor has no effect since December 2025. "
                "Write it into the GGUF file as rope.scaling.attn_factor."
            )
        return {
            "--rope-scaling": "yarn",
            "--rope-scale": self.factor,
            "--yarn-orig-ctx": self.original_length,
            "--yarn-ext-factor": 1.0,
            "--yarn-beta-fast": self.beta_fast,
            "--yarn-beta-slow": self.beta_slow,
        }
