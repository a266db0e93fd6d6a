"""LongRoPE: a factor of its own for every pair, found by search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from locant.errors import ConfigError
from locant.positions.exact import EXACT, geometric_frequencies
from locant.positions.scaling.checks import require_longer
from locant.positions.scaling.contexts import (
    LONG_FACTORS,
    SHORT_FACTORS,
    CTranslate2Context,
    GGUFContext,
    GGUFForm,
    RopeContext,
    VllmContext,
    VllmLengths,
)
from locant.positions.scaling.factor_lists import FactorLists
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.frequency import ExtensionMethod, FrequencyScaling, register_scaling
from locant.positions.scaling.longrope_scales import (
    ctranslate2_attention_scale,
    scales_in_words,
    stated_scales,
    usual_scale,
)
from locant.positions.scaling.ntk_by_parts import slow_by_parts

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


@register_scaling("longrope")
@dataclass(frozen=True, kw_only=True)
class LongRoPE(FactorLists):
    """LongRoPE: every pair is slowed by a factor of its own, from one list for short texts and one for long ones.

    Source: Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", section 3,
    with the rescale factors as the published models (Phi-3 and later) list them, and the attention scale
    of their code::

        f_i             = base^(-2i/d) / factors_i
        attention_scale = sqrt(1 + ln(factor) / ln(original_length))      (for short and long texts alike)

    ``short_factors`` hold up to ``original_length`` tokens, ``long_factors`` beyond. A query at position ``i`` takes
    the list of a text of ``i + 1`` tokens for itself and all keys it sees, so a cache of unrotated keys gives the same
    answers as one full pass; ``final_length`` decides once and for all texts instead, as engines do that choose by
    the longest text they will be asked for. Hugging Face decides by the longest position of each forward pass, and
    keys that it cached before the switch stay turned by the short list.

    Args:
        short_factors: ``d/2`` numbers above 0.
        long_factors: ``d/2`` numbers above 0.
        original_length: Length in tokens that the model was trained for before the extension.
        factor: ``target_length / original_length``, at least 1; only the attention scale depends on it.
        target_length: Length in tokens that the model shall read.
        attention_factor: The attention scale itself, instead of the formula.
        short_attention_factor: The attention scale of texts up to ``original_length``, where they have another one:
            ``short_mscale`` beside ``long_mscale`` in the code of Phi-3-small and Phi-3.5-MoE.
        final_length: Length in tokens by which the list is chosen for all texts; ``None`` to follow the text.

    Example:
        >>> scaling = LongRoPE(short_factors=[1, 1], long_factors=[1, 8], original_length=4096, factor=8)
        >>> [[float(f) for f in scaling.frequencies(4, 10000.0, length=length)] for length in (4096, 4097)]
        [[1.0, 0.01], [1.0, 0.00125]]
        >>> round(scaling.attention_scale(), 6)
        1.118034
    """

    title: ClassVar[str] = "LongRoPE"
    paper: ClassVar[str] = "Ding et al. 2024, arXiv:2402.13753"
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "two lists of factors, Ding et al. 2024, arXiv:2402.13753, with those of NTK-by-parts for long texts",
        "Texts up to the original length are read exactly as before. transformers changes the list when a text exceeds "
        "it, and keys cached before keep the other one; vLLM and llama.cpp take one list for all texts, the long one "
        "where --max-model-len, or the context, exceeds that length, at which vLLM stops by default.",
    )
    original_length_use: ClassVar[str | None] = "to choose between its two lists of factors"

    @classmethod
    def extending(cls, config: RotaryConfig, target_length: int) -> FrequencyScaling:
        """Return two lists: the present frequencies, and NTK-by-parts on top of those of the longest texts."""
        assert config.rotary_dim is not None
        scaling, length = config.scaling, config.present_length()
        require_longer(length, target_length, "reads")
        plain = geometric_frequencies(config.rotary_dim // 2, Decimal(config.base))
        present = config.frequencies(length)
        if not all(present):
            raise ConfigError("Some pairs of this model stand still, which the lists of LongRoPE cannot express.")
        has_lists = isinstance(scaling, LongRoPE) and scaling.original_length != length
        switch = scaling.trained_length if isinstance(scaling, LongRoPE) and has_lists else length
        with localcontext(EXACT):
            slowed = [slow_by_parts(frequency, length, Decimal(target_length) / length) for frequency in present]
            short = [float(p / f) for p, f in zip(plain, config.frequencies(switch), strict=True)]
            long = [float(p / f) for p, f in zip(plain, slowed, strict=True)]
        return cls(
            original_length=switch,
            target_length=target_length,
            short_factors=short,
            long_factors=long,
            attention_factor=config.attention_scale(length),
            short_attention_factor=scaling.short_attention_factor if isinstance(scaling, LongRoPE) else None,
        )

    def engine_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield that cached keys keep the short factors in transformers."""
        del config
        if self.final_length is None and not self.has_one_list:
            yield Finding(
                "warning",
                f"transformers changes from the short to the long factors when a text exceeds {self.original_length} "
                "tokens, and cached keys keep the short ones: generating across that border gives other scores than "
                "reading the same text.",
                "Decide before the first token: for longer texts, state the long factors as both lists.",
            )

    rope_types: ClassVar[tuple[str, ...]] = ("longrope", "su")
    rope_entries: ClassVar[tuple[str, ...]] = (
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "short_factor",
        "long_factor",
        "short_mscale",
        "long_mscale",
    )
    ratio_is_factor: ClassVar[Literal["never", "where it is null", "where it is left out"]] = "where it is left out"
    gguf_type: ClassVar[str | None] = "longrope"
    ctranslate2_type: ClassVar[tuple[int, str] | None] = (1, "Su")

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read lengths, the two lists and the attention scale."""
        effect = "long factors count in texts beyond that length alone"
        if rope.values.get("factor") is None and rope.values.get("attention_factor") is None:
            effect += ", and scores are not scaled, as the ratio is 1"
        original = context.needed_original_length(rope, cls, effect)
        short, attention = stated_scales(rope, context)
        lengths = context.lengths_of(rope, cls, original)
        if (factor := lengths.get("factor", 1)) < 1 and context.is_of_transformers:
            context.wrong(
                f"factor in {rope.where} is {factor:g}, below 1, though it tells how far the scaling extends the "
                "model: transformers takes the attention scale 1 then, unless another is stated, as is shown.",
                "State the extension, or leave the factor out.",
            )
            lengths = {"original_length": original, "target_length": max(original, context.max_length or 0)}
            short, attention = (1.0 if each is None else each for each in (short, attention))
        if context.max_length is not None and "factor" in lengths and attention is None:
            ratio = context.max_length / original
            by_ratio, by_factor = (usual_scale(each, original) for each in (ratio, lengths["factor"]))
            if abs(ratio - lengths["factor"]) > 0.5 / original and by_ratio != by_factor:
                context.findings.append(
                    Finding(
                        "error",
                        f"factor in {rope.where} is {lengths['factor']:g}, but max_position_embeddings "
                        f"{context.max_length} is {ratio:g} times original_max_position_embeddings {original}. "
                        f"transformers 5 takes the factor for the attention scale, {by_factor:.6g}, as is shown here; "
                        f"transformers 4 the ratio: {by_ratio:.6g}.",
                        "Make them agree, or state attention_factor.",
                    )
                )
        lists = {name: rope.numbers(name) for name in ("short_factor", "long_factor")}
        if missing := [f"'{name}'" for name, factors in lists.items() if factors is None]:
            refuses = " transformers refuses the file." if context.is_of_transformers and not context.is_in_vllm else ""
            raise ConfigError(
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing in {rope.where}: the scaling "
                f"'{cls.name}' has a number there for every pair of rotated features.{refuses}"
            )
        return cls(
            **lengths,
            short_factors=lists["short_factor"] or (),
            long_factors=lists["long_factor"] or (),
            attention_factor=attention,
            short_attention_factor=short if short != attention else None,
        )

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return lengths, the two lists and the attention scale."""
        self._refuse_final_length(engine)
        short, long = self.short_attention_factor, self.attention_scale()
        scales = {"attention_factor": long} if short is None else {"short_mscale": short, "long_mscale": long}
        return {
            "rope_type": "longrope",
            "factor": self.factor,
            "original_max_position_embeddings": self.original_length,
            "short_factor": list(self.short_factors),
            "long_factor": list(self.long_factors),
            **scales,
        }

    def huggingface_entries(self, max_length: int | None) -> dict[str, Any]:
        """Return the original length as well: releases up to 4.4x look only there, and Phi-3's class has its own."""
        return super().huggingface_entries(max_length) | {"original_max_position_embeddings": self.original_length}

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return the entries with the attention scale that vLLM computes, which passes over some of them.

        It is ``sqrt(1 + ln(N / L) / ln(L))`` of the lengths ``N``, ``max_position_embeddings``, and ``L``, the original
        one, or ``short_mscale`` with the short list and ``long_mscale`` with the long one.
        """
        entries = Fields(rope, context.engine)
        length, original = context.max_length, entries.whole("original_max_position_embeddings")
        if length is None or original is None or original < 2:
            return dict(rope)
        short, long = entries.number("short_mscale"), entries.number("long_mscale")
        ratio = length / original
        served = tuple(each or usual_scale(ratio, original) for each in (short, long))
        factor, attention = entries.number("factor"), entries.number("attention_factor")
        stated = (attention or usual_scale(factor or ratio, original),) * 2
        if context.heeds_mscale and (short or long):
            stated = (short or long or 1.0, long or short or 1.0)
        if not all(math.isclose(ours, theirs, rel_tol=1e-6) for ours, theirs in zip(stated, served, strict=True)):
            context.warn(
                f"transformers: attention scale {scales_in_words(*stated)}. vLLM, which passes over attention_factor "
                f"and factor of 'longrope' but takes short_mscale and long_mscale: {scales_in_words(*served)}.",
                f"State short_mscale {stated[0]:.6g} and long_mscale {stated[1]:.6g} as well in --hf-overrides.",
            )
        dropped = ("short_mscale", "long_mscale", "factor", "attention_factor")
        kept = {key: value for key, value in rope.items() if key not in dropped}
        extent = ratio if ratio >= 1 else factor
        if extent is None:
            return kept
        return kept | {"factor": extent, "short_mscale": served[0], "long_mscale": served[1]}

    def as_served_by_vllm(self, lengths: VllmLengths) -> tuple[FrequencyScaling, int | None]:
        """Return the list that vLLM takes for all texts: by default it serves the original length that it finds."""
        served = lengths.original or lengths.declared
        return (self if served is None else self.fixed_for(served)), served

    def vllm_findings(self, lengths: VllmLengths) -> Iterator[Finding]:
        """Yield that vLLM chooses one of the lists for all texts, and which by default."""
        if self.original_length == lengths.declared or self.final_length is not None or self.has_one_list:
            return
        _, served = self.as_served_by_vllm(lengths)
        longest = lengths.declared or self.target_length
        remedy = f"Start vLLM with --max-model-len {self.original_length} where texts are short."
        if served is None:
            default = ""
        elif served <= self.trained_length:
            default = f" Since October 2025 vLLM serves {served} tokens by default, with the short ones."
            remedy = (
                f"Start vLLM with --max-model-len {longest} for long texts; short ones are then read otherwise too."
            )
        else:
            default = f" By default vLLM serves {served} tokens, with the long ones"
            default += "." if lengths.original else ": it looks for the original length beside the group alone."
        theirs = f"short factors up to {self.original_length} tokens, long ones beyond"
        if lengths.keeps_short_list:
            theirs = "short factors for all texts"
        yield Finding(
            "warning",
            f"transformers: {theirs}. vLLM, and llama.cpp "
            f"by its context: long factors for all texts once --max-model-len exceeds {self.original_length}, short "
            f"ones otherwise.{default}",
            remedy,
        )

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the group with the attention scale in vLLM's words as well."""
        long = self.attention_scale()
        short = long if self.short_attention_factor is None else self.short_attention_factor
        return (self.rope_parameters(engine) or {}) | {"short_mscale": short, "long_mscale": long}

    @classmethod
    def from_gguf(cls, keys: Fields, context: GGUFContext) -> FrequencyScaling:
        """Read lengths and attention scale, and the lists from their tensors, both of which are there."""
        context.note(
            "llama.cpp takes the long factors for all texts once the context exceeds the original length.",
            "A RotaryConfig with final_length does the same.",
        )
        length = int(
            keys.need(keys.whole("context_length"), "context_length", "it tells how far the model is extended")
        )
        original = context.original_length or length
        if context.original_length is None:
            context.warn(
                f"rope.scaling.original_context_length is missing or 0; llama.cpp takes context_length, {length}, and "
                "the long factors for larger contexts alone.",
                "Write down the length that the model was trained for before the extension.",
            )
        from locant.positions.scaling.out_of_range import class_of_lists  # which is made of this class

        lists = context.tensors[SHORT_FACTORS], context.tensors[LONG_FACTORS]
        return class_of_lists(*lists)(
            original_length=original,
            target_length=max(length, original),
            short_factors=lists[0],
            long_factors=lists[1],
            attention_factor=context.attention_factor,
        )

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Return original length, attention scale and the lists as tensors."""
        del dim, base
        self._refuse_final_length(engine)
        self._refuse_two_scales(engine)
        keys = {
            "type": "longrope",
            "original_context_length": self.original_length,
            "attn_factor": self.attention_scale(),
        }
        return GGUFForm(keys, {SHORT_FACTORS: tuple(self.short_factors), LONG_FACTORS: tuple(self.long_factors)})

    @classmethod
    def from_ctranslate2(cls, layer: Fields, context: CTranslate2Context) -> FrequencyScaling:
        """Read lengths and the two lists."""
        original = context.original_length
        if original is None:
            raise ConfigError(
                f"original_max_position_embeddings is missing in {layer.where}: the engine needs it for Su."
            )
        context.note(
            "CTranslate2 takes the long factors once it has tabulated more positions than the original length, and it "
            "tabulates at least 2048.",
            "Compare its scores with those of the trained model at lengths around the original one.",
        )
        return cls(
            original_length=original,
            target_length=max(context.max_length or original, original),
            short_factors=layer.numbers("rotary_scaling_short_factor") or (),
            long_factors=layer.numbers("rotary_scaling_long_factor") or (),
            attention_factor=context.attention_scale,
        )

    def ctranslate2_attributes(self, engine: str) -> dict[str, Any] | None:
        """Return the two lists, and the lengths by which the engine arrives at the attention scale."""
        self._refuse_final_length(engine)
        self._refuse_two_scales(engine)
        wanted, original = self.attention_scale(), self.trained_length
        ratio = round(math.exp((wanted**2 - 1) * math.log(original)))
        length = ratio * original
        if ratio == self.factor and self.target_length is not None:
            length = self.target_length
        if not math.isclose(ctranslate2_attention_scale(length, original), wanted, rel_tol=1e-6):
            raise ConfigError(
                f"{engine} cannot express attention scale {wanted:g} of the scaling 'longrope': its engine has "
                "sqrt(1 + ln(n) / ln(original_length)) for whole numbers n."
            )
        return {
            "rotary_scaling_short_factor": list(self.short_factors),
            "rotary_scaling_long_factor": list(self.long_factors),
            "original_max_position_embeddings": original,
            "max_position_embeddings": length,
        }

    def _refuse_final_length(self, engine: str) -> None:
        if self.final_length is not None:
            raise ConfigError(
                f"{engine} cannot express final_length {self.final_length} of the scaling 'longrope': the engine "
                "chooses between the lists. Write the configuration without final_length, or with the list of that "
                "length as both."
            )

    def _refuse_two_scales(self, engine: str) -> None:
        if self.short_attention_factor is not None:
            raise ConfigError(
                f"{engine} cannot express the attention scales {self.short_attention_factor:g} of short texts and "
                f"{self.attention_scale():g} of long ones of the scaling 'longrope': it has one for both."
            )
