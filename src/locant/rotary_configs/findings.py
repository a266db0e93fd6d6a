"""What is to be said about the rotary positions of a file: one registry, with a function for each finding.

A function looks at a :class:`.Case` and yields what it found; its docstring says why that matters, in
the documentation's table. Sentences about files are made here and nowhere else. Each finding has the public report that
justifies it: a new one needs a report, or a loss that was measured.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import shorten

from locant.positions import LongRoPE
from locant.positions.scaling.checks import is_number
from locant.rotary_configs.case import Case, Said
from locant.rotary_configs.fields import Finding, Severity, in_json
from locant.rotary_configs.reading import in_words
from locant.rotary_configs.vocabulary import GROUPS, PARTIAL_FACTORS, defaults_of


@dataclass(frozen=True)
class Rule:
    """A function of the registry; ``report`` is an address, ``reason`` the sentence of the documentation."""

    severity: Severity
    report: str
    reason: str
    look: Callable[[Case], Iterator[Said]]


RULES: dict[str, Rule] = {}
"""Every finding by its code."""

_HUB = "https://github.com/"
_ORDER: tuple[Severity, ...] = ("error", "warning", "note")
_Look = Callable[[Case], Iterator[Said]]


def finding(code: str, severity: Severity, report: str) -> Callable[[_Look], _Look]:
    """Register a function that looks for one thing; its docstring is the reason.

    Args:
        code: What it is about.
        severity: Of what it yields, unless that says otherwise.
        report: Where people reported it, below https://github.com/.
    """

    def register(look: _Look) -> _Look:
        RULES[code] = Rule(severity, _HUB + report, look.__doc__ or "", look)
        return look

    return register


def find(case: Case) -> tuple[Finding, ...]:
    """Return all that is to be said about a file, errors first, an entry without effect where nothing else names it.

    Example:
        >>> group = {"rope_type": "linear", "factor": 0.5}
        >>> [each.code for each in find(Case("huggingface", {"rope_scaling": group}))]
        ['factor-below-one']
    """
    found = [
        Finding(code, each.severity or rule.severity, each.message, each.remedy, each.entry, each.layer)
        for code, rule in RULES.items()
        for each in rule.look(case)
    ]
    told = {each.entry for each in found if each.code != "entry-without-effect"}
    kept = [each for each in dict.fromkeys(found) if each.code != "entry-without-effect" or each.entry not in told]
    return tuple(sorted(kept, key=lambda each: _ORDER.index(each.severity)))


@finding("class-refuses", "error", "huggingface/transformers/issues/44904")
def _class_refuses(case: Case) -> Iterator[Said]:
    """The model's class in transformers refuses the file; its own words say why."""
    if case.refusal:
        yield Said(case.refusal, "Correct the entry that it names; what is shown is read by the entries alone.")


@finding("cannot-be-read", "error", "lm-sys/FastChat/pull/3907")
def _cannot_be_read(case: Case) -> Iterator[Said]:
    """An entry is missing, wrong or unknown, so that no angle follows."""
    if case.unreadable:
        yield Said(case.unreadable, "Compare the entry with the model's publication.")


@finding("no-rope", "note", "ggml-org/llama.cpp/issues/1137")
def _no_rope(case: Case) -> Iterator[Said]:
    """The model has other positions than RoPE, or none."""
    if case.no_rope:
        yield Said(case.no_rope, "Settings of RoPE do not extend it.")


@finding("class-said", "warning", "vllm-project/vllm/issues/6897")
def _class_said(case: Case) -> Iterator[Said]:
    """What is shown is not the whole truth; or transformers warns of the rotary entries, in its own words (a note)."""
    by_severity: tuple[tuple[Severity, tuple[str, ...]], ...] = (("warning", case.noted), ("note", case.said))
    for severity, told in by_severity:
        for words in told:
            message = f"{case.class_name}: {shorten(words, 400, placeholder=' ...')}"
            yield Said(message, "What is shown is what the class has all the same.", severity=severity)


_SPELLED = """
rope_scaling rope_parameters rope_theta rope_local_base_freq partial_rotary_factor rotary_pct rotary_emb_base rotary_dim
max_position_embeddings original_max_position_embeddings head_dim hidden_size sliding_window layer_types no_rope_layers
rope_type factor beta_fast beta_slow attention_factor low_freq_factor high_freq_factor short_factor long_factor
mrope_section mrope_interleaved truncate
"""
_SPELLINGS = {each.replace("_", ""): each for each in _SPELLED.split()}
_OF_OTHERS = re.compile(
    "vision|audio|coder|left|right|index|linear|mamba|relative|^(num|v|qk?|use|mm|orig|attn)_|2d|interleave|factors$"
)


@finding("misspelt", "error", "axolotl-ai-cloud/axolotl/issues/544")
def _misspelt(case: Case) -> Iterator[Said]:
    """Nothing reads the entry, whose name is nearly that of one that is read."""
    names = {case.name(name): name for name in case.part if case.kind == "huggingface"}
    names |= {f"{group.where}.{name}": name for group in case.groups for name in group.entries}
    idle = {each.entry for each in case.idle if not each.is_known}
    for entry, name in names.items():
        if (
            len(name) > 60
            or name in _SPELLED.split()
            or _OF_OTHERS.search(name)
            or (case.class_name and entry not in idle)
        ):
            continue
        near = difflib.get_close_matches(re.sub("[^a-z0-9]", "", name.lower()), _SPELLINGS, n=1, cutoff=0.885)
        for letters in near if case.reading is not None else ():
            message = f"'{entry}' is not read by {case.class_name or 'software known here'}."
            yield Said(message, f"Did you mean '{_SPELLINGS[letters]}'?", entry)


@finding("override-beside-text-config", "error", "vllm-project/vllm/pull/54289")
def _override_beside_text_config(case: Case) -> Iterator[Said]:
    """The setting is beside `text_config`, where the language model does not look."""
    idle = [each.entry for each in case.idle if case.path and each.entry in (*GROUPS, "rope_theta")]
    unasked = [
        name for name in GROUPS if case.path and not case.class_name and isinstance(case.content.get(name), dict)
    ]
    for entry in (*idle, *(each for each in unasked if case.content[each] != case.part.get(each))):
        remedy = f"State it as '{case.name(entry) if case.path else f'text_config.{entry}'}'."
        yield Said(f"'{entry}' is beside the text config, where it has no effect.", remedy, entry)


@finding("override-drops", "warning", "unslothai/unsloth/pull/7028")
def _override_drops(case: Case) -> Iterator[Said]:
    """An option replaces the whole group of the file, with the base or the partial rotary factor in it."""
    for entry, value in case.dropped:
        message = f"The overrides replace the group that has '{entry}', {in_json(value)}, which is gone."
        yield Said(message, "State it in the overrides as well.", entry)


@finding("form-of-another-release", "note", "sgl-project/sglang/pull/14745")
def _form_of_another_release(case: Case) -> Iterator[Said]:
    """Base and scaling are where transformers 5 looks; software that looks where 4 did takes base 10000."""
    changed = [each for each in case.groups if each.kind != "default" or each.number("rope_theta") not in (None, 1e4)]
    if changed and not (case.engine or case.part.get("rope_theta") or case.part.get("rope_scaling")):
        yield Said(
            "Software that looks for rope_theta and rope_scaling, as transformers 4 does, takes base 10000 unscaled.",
            "For such software, add what 'locant inspect --as hf4' prints.",
            changed[0].where,
        )


@finding("original-missing", "warning", "huggingface/transformers/issues/38224")
def _original_missing(case: Case) -> Iterator[Said]:
    """Without it transformers takes `max_position_embeddings`; other software refuses, or takes another length."""
    name = "original_max_position_embeddings"
    for group in case.groups:
        if group.kind in ("yarn", "llama3", "longrope") and case.original(group) is None:
            message = (
                f"{name} is missing in {group.where}; transformers takes max_position_embeddings, {case.declared}."
            )
            yield group.said(name, message, "State the length that the model was trained for before the extension.")


@finding("original-is-extended", "error", "NVIDIA-NeMo/Speech/issues/14686")
def _original_is_extended(case: Case) -> Iterator[Said]:
    """The extended length is where the length before the extension belongs."""
    name = "original_max_position_embeddings"
    for group, original, factor, declared in case.extensions("yarn", "llama3", "longrope"):
        if original > declared or (group.kind == "llama3" and original == declared):
            message = f"{name} in {group.where} is {original:.0f}, but max_position_embeddings is {declared}."
            yield group.said(name, message, f"Factor {factor:g} makes {declared} tokens of {declared / factor:.0f}.")


@finding("lengths-disagree", "warning", "huggingface/transformers/issues/36877")
def _lengths_disagree(case: Case) -> Iterator[Said]:
    """Factor times original length is not `max_position_embeddings`: software takes one or the other."""
    for group, original, factor, declared in case.extensions("yarn", "longrope"):
        if original < declared and abs(declared - factor * original) > max(1, 0.001 * declared):
            yield group.said(
                "factor",
                f"factor {factor:g} in {group.where} makes {factor * original:.0f} tokens of {original:.0f}, but "
                f"max_position_embeddings is {declared}. transformers computes with the factor.",
                f"State factor {declared / original:.6g}, or max_position_embeddings {factor * original:.0f}.",
            )


@finding("factor-below-one", "error", "axolotl-ai-cloud/axolotl/issues/544")
def _factor_below_one(case: Case) -> Iterator[Said]:
    """A factor below 1 turns pairs faster instead of slower; transformers 4 refuses it."""
    for group in case.groups:
        factor = group.number("factor")
        if group.kind != "default" and factor is not None and factor < 1:
            message = f"factor in {group.where} is {factor:g}: below 1 it shortens the context."
            yield group.said("factor", message, "State how many times the original length should be read.")


@finding("served-length", "warning", "vllm-project/vllm/issues/10293")
def _served_length(case: Case) -> Iterator[Said]:
    """The length that vLLM derives from the entries, and serves by default, is not the declared one."""
    reached = {each.scaling.reach for each in case.reading.configs.values()} if case.reading else set()
    if case.served and reached and case.declared and case.served not in {*reached, case.declared}:
        message = f"vLLM serves {case.served} tokens without --max-model-len; the file declares {case.declared}."
        yield Said(message, f"Give --max-model-len {case.declared}, unless the model reads {case.served}.")


@finding("attention-scale-differs", "warning", "deepseek-ai/DeepSeek-R1/issues/684")
def _attention_scale_differs(case: Case) -> Iterator[Said]:
    """The attention scale is not YaRN's own, and software differs in which entries it reads about it."""
    for group in case.groups:
        if group.number("attn_factor") not in (None, 1):
            message = f"attn_factor in {group.where} is read by SGLang and by vLLM before 0.33, not by transformers."
            yield group.said("attn_factor", message, "State attention_factor, if the model was trained with it.")
    for layer, scaling in case.scalings("yarn"):
        scale, usual = scaling.attention_scale(), 0.1 * math.log(max(scaling.stretch or 1, 1)) + 1
        if abs(scale / usual - 1) > 1e-4:
            message = f"The attention scale is {scale:.6g}; software that does not read its entries has {usual:.6g}."
            yield Said(message, "Compare a long text in your software with transformers.", layer=layer)


@finding("score-scale", "note", "NVIDIA/Megatron-LM/issues/1429")
def _score_scale(case: Case) -> Iterator[Said]:
    """The class multiplies all scores besides, which no setting of RoPE shows and some software leaves out."""
    for group in case.groups:
        weight, factor = group.number("mscale_all_dim"), group.number("factor")
        if weight and factor and factor > 1 and case.part.get("qk_rope_head_dim") is not None:
            scale = (0.1 * weight * math.log(factor) + 1) ** 2
            message = (
                f"DeepSeek's attention multiplies all scores by {scale:.6g} besides, for mscale_all_dim {weight:g}."
            )
            yield group.said("mscale_all_dim", message, "Code that converts the model has to do so as well.")


@finding("layers-differ", "note", "vllm-project/vllm/issues/29111")
def _layers_differ(case: Case) -> Iterator[Said]:
    """Layers have different RoPE; software that takes one for all layers computes some of them wrongly."""
    if case.reading is not None and len(case.reading.configs) > 1:
        names = ", ".join(f"{name:.40}" for name in case.reading.configs)
        yield Said(f"Layers have different RoPE: {names}.", "Use software that has one for each layer type.")


@finding("layers-without-rope", "note", "huggingface/transformers/issues/43756")
def _layers_without_rope(case: Case) -> Iterator[Said]:
    """Some layers attend without RoPE; software that rotates in all of them computes something else."""
    layers = case.reading.layers if case.reading is not None and case.reading.configs else ()
    without = [index for each in layers if each.attends and each.config is None for index in each.layers]
    if without:
        yield Said(f"Without RoPE: {in_words(without)}.", "Use software that reads which layers rotate.")


@finding("dynamic-cached-keys", "warning", "huggingface/transformers/issues/25104")
def _dynamic_cached_keys(case: Case) -> Iterator[Said]:
    """The base grows with the text, and keys in the cache keep the angles of the base before."""
    for layer, _ in case.scalings("dynamic"):
        message = "The scaling 'dynamic' raises the base as a text grows, but not for keys that are in the cache."
        yield Said(message, "Generate without cache, or use a scaling that is the same for all lengths.", layer=layer)


@finding("dynamic-in-vllm", "warning", "vllm-project/vllm/issues/3488")
def _dynamic_in_vllm(case: Case) -> Iterator[Said]:
    """There vLLM has one base for texts of all lengths, that of the longest."""
    for layer, _ in case.scalings("dynamic") if case.kind == "huggingface" else ():
        message = "vLLM computes the scaling 'dynamic' with the base of the longest text, also for short ones."
        yield Said(message, "Use a scaling that is the same for all lengths, like 'yarn'.", layer=layer)


@finding("longrope-switch", "warning", "huggingface/transformers/issues/33129")
def _longrope_switch(case: Case) -> Iterator[Said]:
    """Which of its two lists counts depends on the text, or on the longest context: software differs."""
    for layer, scaling in case.scalings("longrope"):
        if isinstance(scaling, LongRoPE) and scaling.short_factors != scaling.long_factors:
            message = (
                f"LongRoPE has a second list beyond {scaling.trained} tokens: transformers changes over within a text, "
                "with keys in the cache as they were, vLLM and llama.cpp by the longest context."
            )
            yield Said(message, "Keep the context below that for short texts.", layer=layer)


@finding("axes-do-not-add-up", "error", "sgl-project/sglang/pull/19144")
def _axes_do_not_add_up(case: Case) -> Iterator[Said]:
    """The axes of M-RoPE have more or fewer pairs than rotate."""
    pairs = {(each.rotary_dim or 0) // 2 for each in case.reading.configs.values()} if case.reading else set()
    for group in case.groups if pairs else ():
        sections = group.entries.get("mrope_section")
        if isinstance(sections, list) and all(map(is_number, sections)) and sum(sections) not in pairs:
            message = f"mrope_section {in_json(sections)} in {group.where} is about {sum(sections):g} pairs."
            yield group.said("mrope_section", message, f"State sections that make {max(pairs)}, which rotate.")


_RANGES: dict[str, tuple[float, float]] = {
    **{"rope_theta": (5e3, 1e12), "rotary_emb_base": (1e3, 1e12), "factor": (0, 512), "attention_factor": (0.25, 4)},
    **{"rope.freq_base": (5e3, 1e12), "rope.scaling.factor": (1, 512), "partial_rotary_factor": (0.05, 1)},
}


@finding("unusual-number", "warning", "vllm-project/vllm-ascend/issues/5201")
def _unusual_number(case: Case) -> Iterator[Said]:
    """No published model has such a number: a base with a zero too few gives text without sense."""
    if case.kind == "gguf":
        stated = {case.key(name): (name, case.content.get(case.key(name))) for name in _RANGES}
    else:
        stated = {case.name(name): (name, case.part.get(name)) for name in _RANGES}
    stated |= {f"{each.where}.{name}": (name, value) for each in case.groups for name, value in each.entries.items()}
    for entry, (name, value) in stated.items():
        low, high = _RANGES.get(name, (-math.inf, math.inf))
        if is_number(value) and not low <= value <= high:
            message = f"'{entry}' is {value:g}; published models have {low:g} to {high:g}."
            yield Said(message, "Compare it with the model's publication.", entry)


def _unknown_type(case: Case) -> str | None:
    """Return the model type of a file that was read by its entries, if nobody knows it."""
    kinds = [each.get("model_type") for each in (case.part, case.content)]
    own, around = (each if isinstance(each, str) else None for each in kinds)
    read = case.kind == "huggingface" and case.reading is not None and case.class_name is None
    return (own or around) if read and defaults_of(own, around) is None else None


@finding("unknown-model-type", "warning", "huggingface/transformers/issues/39687")
def _unknown_model_type(case: Case) -> Iterator[Said]:
    """Neither the installed transformers nor Locant knows the model type."""
    if name := _unknown_type(case):
        message = f"The model type '{name:.60}' is not known: the file is read by its entries alone."
        yield Said(message, "Compare with the model's own code, or update transformers.", "model_type")


@finding("pairing-assumed", "warning", "ggml-org/llama.cpp/issues/7481")
def _pairing_assumed(case: Case) -> Iterator[Said]:
    """Whether halves or neighbours are paired is not known; with wrong pairs a model writes nonsense."""
    for fact in case.reading.assumed if case.reading is not None and _unknown_type(case) else ():
        if fact.startswith("pairing"):
            yield Said(f"Assumed: {fact}, which the file does not state.", "Compare with the model's own code.")


@finding("assumed", "note", "vllm-project/vllm/pull/28542")
def _assumed(case: Case) -> Iterator[Said]:
    """The file leaves it out, and no class was asked for it."""
    told = ("base",) if case.kind == "gguf" else ("pairing", "what is usual") if _unknown_type(case) else ()
    facts = [] if case.reading is None else [each for each in case.reading.assumed if not each.startswith(told)]
    if facts:
        yield Said(f"Assumed, as the file does not state it: {', '.join(facts)}.", "Compare with the publication.")


@finding("partial-factor-ignored", "warning", "vllm-project/vllm/issues/43770")
def _partial_factor_ignored(case: Case) -> Iterator[Said]:
    """Another entry states how much of a head rotates, so that this one counts in some software alone."""
    configs = case.reading.configs.values() if case.reading is not None and not case.class_name else ()
    read = [(each.rotary_dim or 0) / each.head_dim for each in configs]
    for name in PARTIAL_FACTORS if read else ():
        stated = case.part.get(name)
        if is_number(stated) and all(abs(each - stated) > 0.02 for each in read):
            message = f"'{name}' is {stated:g}, but by other entries {read[0]:.3g} of a head is rotated."
            yield Said(message, "Make them agree, or ask the class.", case.name(name))


@finding("repeated-key", "warning", "ggml-org/llama.cpp/issues/21403")
def _repeated_key(case: Case) -> Iterator[Said]:
    """A name occurs twice in one group; readers of JSON take the last, silently."""
    for name in case.repeated:
        yield Said(f"'{name:.60}' occurs twice in one group; the last one counts.", "Keep one of them.", name)


@finding("gguf-base-missing", "note", "ollama/ollama/issues/2379")
def _gguf_base_missing(case: Case) -> Iterator[Said]:
    """Without `rope.freq_base` llama.cpp takes 10000; some converters left out another base."""
    key = case.key("rope.freq_base")
    if case.kind == "gguf" and case.reading is not None and case.content.get(key) is None:
        remedy = "Where the model has another base, give --rope-freq-base, or convert it again."
        yield Said(f"The file has no {key:.80}: llama.cpp takes 10000.", remedy, key)


@finding("gguf-factors-missing", "warning", "ggml-org/llama.cpp/issues/8676")
def _gguf_factors_missing(case: Case) -> Iterator[Said]:
    """The tensors of factors for Llama 3.1's scaling, or for LongRoPE, are not in the file."""
    stated = [case.content.get(case.key(name)) for name in ("rope.freq_base", "context_length")]
    is_llama3 = stated == [500000, 131072] and case.content.get("general.architecture") == "llama"
    is_longrope = case.content.get(case.key("rope.scaling.type")) == "longrope"
    if case.kind == "gguf" and not case.tensors and (is_llama3 or is_longrope):
        message = f"The file has no tensors of factors, which {'LongRoPE' if is_longrope else 'Llama 3.1'} has."
        yield Said(message, "Convert the model again, with a converter of August 2024 or later.")


@finding("gguf-key-of-another-architecture", "warning", "huggingface/transformers/pull/39976")
def _gguf_key_of_another_architecture(case: Case) -> Iterator[Said]:
    """A key about RoPE begins with another architecture than the file's, and is not read."""
    for key in case.content if case.kind == "gguf" else ():
        rest = key.partition(".")[2]
        if rest.startswith("rope.") and case.key(rest) != key:
            yield Said(
                f"'{key:.80}' is not read: the file's keys begin otherwise.",
                f"Did you mean '{case.key(rest):.80}'?",
                key,
            )


@finding("entry-without-effect", "warning", "huggingface/transformers/issues/42189")
def _entry_without_effect(case: Case) -> Iterator[Said]:
    """The class computes the same without the entry (a note where other entries switch it off)."""
    name = case.engine or case.class_name  # of an engine's options the engine alone knows
    for each in case.idle:
        if not each.is_known:
            message = f"'{each.entry:.80}' ({in_json(each.value):.60}) has no effect in {name}."
            yield Said(message, "Remove it, or state it by an entry that is read.", each.entry)
    switched_off = [f"{each.entry:.60} ({in_json(each.value):.30})" for each in case.idle if each.is_known]
    if switched_off:
        message = f"Other entries switch off in {name}: {', '.join(switched_off)}."
        yield Said(message, "Nothing is to be done where that is meant.", severity="note")
    if case.untried:
        names = ", ".join(f"{each:.40}" for each in case.untried[:5])
        message = f"It was not tried, for lack of time, whether {len(case.untried)} entries have an effect: {names}."
        yield Said(message, "Look at the table.", severity="note")
