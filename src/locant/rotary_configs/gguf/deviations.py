"""Numbers that graphs of llama.cpp have in the place of those of a GGUF file: another base or another window.

Source: the graphs and ``load_arch_hparams`` in ``src/models``, and ``is_masked_swa`` in ``llama-hparams.h``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.gguf.architectures import BASE_OF_GRAPH, ENDS_WITH_OTHER_BASES, RAISES_BASE
from locant.rotary_configs.gguf.windows import PATTERN, WINDOW, WINDOWS
from locant.rotary_configs.unusual_bases import of_small_base

USUAL_BASE = 10000.0
"""Base where a file states none (``rope_freq_base_train``)."""


def base_of_graph(keys: Fields, architecture: str, head_dim: int, findings: list[Finding]) -> float:
    """Return the base of full attention or of all layers.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        head_dim: Features of a head.
        findings: Where findings go.

    Raises:
        ConfigError: The graph has another one, and the program ends.
    """
    stated = keys.number("rope.freq_base")
    base = USUAL_BASE if stated is None else stated
    if architecture in BASE_OF_GRAPH:
        own = BASE_OF_GRAPH[architecture]
        if base != own:
            findings.append(
                Finding(
                    "warning",
                    f"llama.cpp passes over rope.freq_base {base:g} in the architecture '{architecture}': its graph "
                    f"has the base {own:g}.",
                    "Compare with the model's publication.",
                )
            )
        return own
    check_demanded_base(architecture, base, f"rope.freq_base {base:g} in {keys.where}")
    if base <= 1:
        findings.append(of_small_base(f"rope.freq_base in {keys.where} is {base:g}", base, "llama.cpp"))
    alpha = keys.number("rope.scaling.alpha")  # others pass over it
    if architecture not in RAISES_BASE or not alpha or head_dim < 3:
        return base
    if alpha < 0:
        findings.append(
            Finding(
                "warning",
                f"rope.scaling.alpha {alpha:g} has no effect: llama.cpp raises the base by numbers above 0 alone.",
                "Remove the key, or compare with the model's publication.",
            )
        )
        return base
    raised = float(base * alpha ** (head_dim / (head_dim - 2)))
    findings.append(
        Finding(
            "note",
            f"rope.scaling.alpha {alpha:g} makes the base {raised:.10g} of rope.freq_base {base:g} in the architecture "
            f"'{architecture}': llama.cpp multiplies it by alpha^(d / (d - 2)), with {head_dim} features of a head "
            "for d.",
            "Nothing has to be done for models of Hunyuan, which are made so.",
        )
    )
    return raised


def alpha_beside_a_base(keys: Fields, architecture: str | None, base: float) -> Iterator[Finding]:
    """Yield that a base by flag is not raised, where that of the file is.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``, where it is known.
        base: The base of the flag.
    """
    alpha = keys.number("rope.scaling.alpha") or 0.0
    if architecture in RAISES_BASE and alpha > 0:
        yield Finding(
            "warning",
            f"--rope-freq-base {base:g} is the base itself: llama.cpp raises that of the file alone by "
            f"rope.scaling.alpha {alpha:g}.",
            "State the raised base, if that is meant.",
        )


def check_demanded_base(architecture: str | None, base: float, what: str) -> None:
    """Raise ConfigError for a base with which the graph of an architecture ends the program.

    Args:
        architecture: ``general.architecture``, where it is known.
        base: The base.
        what: The key or flag with its number, for the message.
    """
    demanded = ENDS_WITH_OTHER_BASES.get(architecture or "")
    if demanded is not None and abs(base - demanded) >= 1e-4:
        raise ConfigError(
            f"{what} is not {demanded:g}, the only base with which the graph of '{architecture}' in llama.cpp does not "
            "end the program."
        )


def windows_of_graph(keys: Fields, architecture: str) -> Iterator[Finding]:
    """Yield that layers have another window than the file states.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
    """
    pattern, count = keys.get(PATTERN), keys.whole("block_count") or 0
    beyond = keys.get("nextn_predict_layers")
    count -= beyond if isinstance(beyond, int) and beyond < count else 0
    if isinstance(pattern, Sequence) and not isinstance(pattern, str) and len(pattern) < count:
        yield Finding(
            "warning",
            f"{PATTERN} lists {len(pattern)} of {count} layers: llama.cpp gives the others no window.",
            "List all layers.",
        )
    stated, windows = keys.get(WINDOW), WINDOWS.get(architecture)
    if windows is None or not isinstance(stated, int) or stated <= 0:
        return
    if windows.fixed not in (None, stated):
        yield Finding(
            "warning",
            f"llama.cpp passes over {WINDOW} {stated} in the architecture '{architecture}': the window is "
            f"{windows.fixed} with any number above 0.",
            "Compare with the model's publication.",
        )
    if windows.both_ways:
        yield Finding(
            "note",
            f"{WINDOW} {stated} counts both sides in the architecture '{architecture}': in layers with a window a "
            f"token sees the {stated // 2} before it, itself and the {stated // 2} after it.",
            "Nothing has to be done for models that were trained so, as published ones were.",
        )
