"""The flags of llama.cpp beside what a file states: what counts for the layers of a configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, LongRoPE, Unscaled, YaRN
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.out_of_range import LinearOfAnyFactor
from locant.rotary_configs.gguf.architectures import NEVER_MAGNIFIES, READS_BETAS, READS_MIX
from locant.rotary_configs.gguf.llamacpp_flags import Scale


@dataclass(frozen=True)
class StatedByFile:
    """What a file states about its scaling, which the configuration does not tell where nothing is scaled.

    Attributes:
        kind: ``rope.scaling.type``.
        factor: ``rope.scaling.factor``.
        original: ``rope.scaling.original_context_length``.
        fast: ``yarn_beta_fast``, or what the architecture has without it.
        slow: ``yarn_beta_slow``, or 1.
        mix: ``yarn_ext_factor``, where the architecture reads it.
        magnitude: ``yarn_attn_factor``, where the architecture reads it.
        attention: ``rope.scaling.attn_factor``, which flags leave as it is; ``None`` where it is not there.
        magnifies: Whether the graph of the architecture multiplies cosine and sine at all.
    """

    kind: str | None = None
    factor: float | None = None
    original: int | None = None
    fast: float = 32.0
    slow: float = 1.0
    mix: float | None = None
    magnitude: float | None = None
    attention: float | None = None
    magnifies: bool = True

    def unmagnified(self, config: RotaryConfig) -> RotaryConfig:
        """Return a configuration without what multiplies cosine and sine beside no YaRN: its scaling, as it has a name.

        Args:
            config: One of the file's, of which that makes a list for all lengths.
        """
        scaling = config.scaling
        scale = abs((self.attention or 1.0) * (1.0 if self.magnitude is None else self.magnitude))
        if not isinstance(scaling, LongRoPE) or scale == 1 or abs(scaling.attention_scale() / scale - 1) > 1e-6:
            return config
        factors = {*scaling.short_factors, *scaling.long_factors}
        if len(factors) > 1:
            return config
        (factor,) = factors
        if factor == 1:
            return replace(config, scaling=Unscaled())
        of_any = Linear if factor >= 1 else LinearOfAnyFactor
        return replace(config, scaling=of_any(factor=factor, original_length=self.original))


def keys_replaced(
    keys: Fields, stated: StatedByFile, base: float | None, kind: str | None, scale: Scale | None
) -> Iterator[Finding]:
    """Yield the note on keys of a file in whose place numbers of flags stand.

    Args:
        keys: The metadata of the architecture.
        stated: What the file states about its scaling.
        base: The base by flag, where layers heed it.
        kind: The type of the scaling by flag, where layers heed it.
        scale: By how much flags expand the context, where layers heed it.
    """
    own = keys.number("rope.freq_base")
    said = [f"rope.freq_base {own:g} by --rope-freq-base {base:g}"] if own and base and own != base else []
    if stated.kind is not None and kind not in (None, stated.kind):
        said.append(f"rope.scaling.type '{stated.kind}' by --rope-scaling {kind}")
    if stated.factor is not None and scale is not None and abs(scale.factor / stated.factor - 1) > 1e-6:
        said.append(f"rope.scaling.factor {stated.factor:g} by {scale.flag}")
    if said:
        remedy = "Nothing has to be done, if that is meant."
        yield Finding("note", f"Of the keys of the file, the flags replace {', '.join(said)}.", remedy)


def original_by_flag(
    numbers: Mapping[str, float], stated: StatedByFile, length: int | None, scalings: Collection[FrequencyScaling]
) -> list[Finding]:
    """Return the note about a length before the extension that a flag gives, where the file has another one.

    Args:
        numbers: The numbers of the flags.
        stated: What the file states about its scaling.
        length: ``context_length`` of the file.
        scalings: What llama.cpp computes with the flags.
    """
    flag, own = numbers.get("--yarn-orig-ctx"), stated.original or length
    is_taken = any(isinstance(each, YaRN) and each.original_length == flag for each in scalings)
    if not is_taken or own in (None, flag):
        return []
    key = "context_length" if stated.original is None else "rope.scaling.original_context_length"
    return [
        Finding(
            "note",
            f"--yarn-orig-ctx {flag:g} stands in the place of {key} {own} of the file: YaRN takes it for the length "
            "before the extension.",
            "Give the length that the weights were trained with.",
        )
    ]


def keys_of(metadata: Mapping[str, Any]) -> Fields:
    """Return the keys of a file below its architecture.

    Args:
        metadata: The file's metadata.
    """
    prefix = f"{metadata.get('general.architecture')}."
    return Fields({key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}, "")


def stated_by_file(keys: Fields, architecture: str | None) -> StatedByFile:
    """Return what a file states about its scaling.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``, where it is known.
    """
    factor = keys.number("rope.scaling.factor")
    factor = keys.number("rope.scale_linear") if factor is None else factor
    original = keys.get("rope.scaling.original_context_length")
    corners = {"fast": 32.0, "slow": 1.0}
    if architecture in READS_BETAS:
        corners["fast"] = READS_BETAS[architecture]
        stated = {name: keys.number(f"rope.scaling.yarn_beta_{name}") for name in corners}
        corners |= {name: value for name, value in stated.items() if value is not None and value > 0}
    parts = ("ext_factor", "attn_factor") if architecture in READS_MIX else ()
    mix, magnitude = (keys.number(f"rope.scaling.yarn_{part}") for part in parts) if parts else (None, None)
    return StatedByFile(
        keys.text("rope.scaling.type"),
        factor or None,
        original if isinstance(original, int) else None,
        **corners,
        mix=mix if mix is None or mix >= 0 else None,
        magnitude=magnitude,
        magnifies=architecture not in NEVER_MAGNIFIES,
        attention=1.0 if architecture in NEVER_MAGNIFIES else keys.number("rope.scaling.attn_factor"),
    )


@dataclass(frozen=True)
class FlagsOfLayers:
    """The flags, and the configuration that they change.

    Attributes:
        kind: ``--rope-scaling``.
        numbers: The flags that are numbers.
        scale: By how much they expand the context.
        model: The configuration, with YaRN itself where the file mixes it.
        findings: Where findings go.
        stated: What the file states about its scaling.
        base_of_file: The base of the file.
    """

    kind: str | None
    numbers: Mapping[str, float]
    scale: Scale | None
    model: RotaryConfig
    findings: list[Finding]
    stated: StatedByFile
    base_of_file: float

    @property
    def base(self) -> float:
        """``--rope-freq-base``; 0 stands for the setting of the file."""
        return self.numbers.get("--rope-freq-base") or self.base_of_file

    @property
    def kept_factor(self) -> float:
        """The factor of the file, which sliding layers of some architectures keep beside the type 'none'."""
        return self.stated.factor or self.model.scaling.stretch or 1.0

    @property
    def mix(self) -> tuple[float | None, str]:
        """How far YaRN counts, ``None`` where the type decides, and where that stands."""
        stated = self.numbers.get("--yarn-ext-factor", -1.0)
        if stated >= 0:
            return stated, f"--yarn-ext-factor {stated:g}"
        return self.stated.mix, f"rope.scaling.yarn_ext_factor {self.stated.mix or 0:g} of the file"

    @property
    def magnitude(self) -> tuple[float, str]:
        """What multiplies cosine and sine without YaRN, and where that stands."""
        stated = self.numbers.get("--yarn-attn-factor", -1.0) if self.stated.magnifies else 1.0
        if stated >= 0:
            return stated, f"--yarn-attn-factor {stated:g}"
        own = 1.0 if self.stated.magnitude is None else self.stated.magnitude
        return own, f"rope.scaling.yarn_attn_factor {own:g} of the file"

    @property
    def yarn_flags(self) -> list[str]:
        """The flags about YaRN that are given."""
        return [flag for flag in self.numbers if flag.startswith("--yarn-")]

    @property
    def change_something(self) -> bool:
        """Whether a flag gives another base, or says something about the scaling."""
        says_of_scaling = self.kind is not None or self.scale is not None or bool(self.yarn_flags)
        return says_of_scaling or self.base != self.base_of_file

    def warn(self, message: str, remedy: str) -> None:
        """Add a warning."""
        self.findings.append(Finding("warning", message, remedy))
