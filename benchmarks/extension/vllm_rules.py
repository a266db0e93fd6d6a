"""What vLLM's own classes do to queries and keys, against what Locant reads from the same config.json.

    make vllm-rules VLLM=path/to/the/sources/of/vLLM

The sources are a checkout, or a wheel that was unpacked. Nothing of vLLM is installed or built: its rotary classes and its
models are run without weights (vllm_checkout.py). Takes some minutes, and writes docs/results/vllm.json and, from that,
docs/results/vllm.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks"), str(Path(__file__).parent)]

import torch  # noqa: E402
import vllm_checkout as vllm  # noqa: E402
from zoo.cases import Case, draw_case  # noqa: E402
from zoo.engines import release_of_vllm  # noqa: E402
from zoo.verdict import first_line, text_config  # noqa: E402

from locant.errors import ConfigError  # noqa: E402
from locant.extension.inspect.engine_differences import engine_differences  # noqa: E402
from locant.extension.inspect.model_class.small_model import quiet  # noqa: E402
from locant.positions.rotary.config import RotaryConfig  # noqa: E402
from locant.rotary_configs import read_huggingface, read_vllm  # noqa: E402
from locant.rotary_configs.base import ParsedConfig  # noqa: E402
from measure import machine  # noqa: E402

RESULTS = ROOT / "docs" / "results"
POSITIONS = (0, 1, 3, 17, 100, 400)
CLOSE = 2e-3  # vLLM rounds frequencies and angles to float32
RULES = ("llama", "qwen2", "phi3", "deepseek_v3", "gemma4_text")
"""Model types whose cases are many, because all scalings can be tried in them."""


@dataclass(frozen=True)
class Outcome:
    """What became of one config.json.

    Attributes:
        model_type: The architecture.
        seed: Seed of the case.
        rope_type: Its scaling.
        outcome: ``as read``; ``otherwise`` where vLLM computes something else than was read; ``refused`` where Locant
            reads nothing; ``not built`` where vLLM's class refuses the file, or needs what is replaced here.
        reason: The difference, or what was said.
        layers: Layers that were compared.
        differs: Whether vLLM computes something else than transformers.
        told: Whether a finding says so.
    """

    model_type: str
    seed: int
    rope_type: str
    outcome: str
    reason: str = ""
    layers: int = 0
    differs: bool = False
    told: bool = False


_STATED: dict[str, tuple[str, dict[str, Any]]] = {
    "linear, whole factor": ("llama", {"rope_type": "linear", "factor": 4}),
    "linear": ("llama", {"rope_type": "linear", "factor": 4.0}),
    "part of the head": ("llama", {"rope_type": "default", "partial_rotary_factor": 0.5}),
    "yarn, attn_factor": ("llama", {"rope_type": "yarn", "attn_factor": 0.5}),
    "yarn, apply_yarn_scaling": ("llama", {"rope_type": "yarn", "apply_yarn_scaling": False}),
    "yarn, mscale alone": ("llama", {"rope_type": "yarn", "mscale": 0.7}),
    "yarn, corners not rounded": ("llama", {"rope_type": "yarn", "truncate": False, "beta_fast": 20.0}),
    "latent yarn, mscale": ("deepseek_v3", {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 0.5}),
    "latent yarn, mscale alone": ("deepseek_v3", {"rope_type": "yarn", "mscale": 0.7}),
    "latent yarn, mscale_all_dim alone": ("deepseek_v3", {"rope_type": "yarn", "mscale_all_dim": 0.7}),
    "latent yarn, attention_factor": ("deepseek_v3", {"rope_type": "yarn", "attention_factor": 1.5}),
    "latent yarn, attn_factor": ("deepseek_v3", {"rope_type": "yarn", "attn_factor": 0.5}),
    "latent yarn, corners not rounded": ("deepseek_v3", {"rope_type": "yarn", "truncate": False}),
    "latent llama3": (
        "deepseek_v3",
        {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ),
    "longrope, attention_factor": ("llama", {"rope_type": "longrope", "attention_factor": 1.5}),
    "longrope, mscale": ("llama", {"rope_type": "longrope", "short_mscale": 1.25, "long_mscale": 1.25}),
    "longrope, other factor": ("llama", {"rope_type": "longrope", "factor": 2.0, "attention_factor": 1.25}),
    "longrope, neighbours": ("cohere2", {"rope_type": "longrope"}),
    "proportional": ("llama", {"rope_type": "proportional", "factor": 1.0, "partial_rotary_factor": 0.5}),
    "proportional, factor": ("llama", {"rope_type": "proportional", "factor": 8.0}),
    "dynamic": ("llama", {"rope_type": "dynamic", "factor": 2.0}),
    "axes": ("qwen2", {"rope_type": "default", "mrope_section": [2, 3, 3]}),
    "axes in turn": ("qwen2", {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}),
    "axes, yarn": ("qwen2", {"rope_type": "yarn", "mrope_section": [2, 3, 3], "attn_factor": 0.5}),
    "axes, linear": ("qwen2", {"rope_type": "linear", "factor": 2.0, "mrope_section": [2, 3, 3]}),
}
"""Entries that are not drawn: model type and group, by what is tried."""


def stated_cases() -> Iterator[Case]:
    """Yield the files with the entries that are not drawn."""
    for about, (name, group) in _STATED.items():
        sizes: dict[str, Any] = {"head_dim": 16, "hidden_size": 32}
        if name == "deepseek_v3":
            sizes = {"qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "kv_lora_rank": 16, "hidden_size": 32}
        rope = {"rope_theta": 10000.0, **group}
        if group["rope_type"] in ("yarn", "longrope", "llama3"):
            rope = {"factor": 4.0, "original_max_position_embeddings": 128} | rope
        if group["rope_type"] == "longrope":
            rope |= {"short_factor": [1.1] * 8, "long_factor": [1.0 + pair / 4 for pair in range(8)]}
        content = {
            "model_type": name,
            "num_attention_heads": 2,
            "num_hidden_layers": 2,
            "max_position_embeddings": 512,
            **sizes,
            "rope_parameters": rope,
        }
        yield Case(name, -1, "", content, about)


def positions_of(axes: tuple[int, ...] | None) -> torch.Tensor:
    """Return the positions to try: [n], or [axes, n] where pairs are turned by several axes."""
    one = torch.tensor(POSITIONS)
    return one if axes is None else torch.stack([one + axis for axis in range(max(axes) + 1)])


def turned(
    config: RotaryConfig, queries: torch.Tensor, length: int, axes: tuple[int, ...] | None = None
) -> torch.Tensor:
    """Return queries [n, D] at :func:`positions_of` the axes, turned in float64 as a configuration says."""
    assert config.rotary_dim is not None
    frequencies = torch.tensor([float(each) for each in config.frequencies(length)], dtype=torch.float64)
    positions = positions_of(axes).double()
    angles = (positions[:, None] if axes is None else positions[list(axes)].T) * frequencies
    scale = config.attention_scale(length)
    pairs = len(frequencies)
    if config.layout == "half":
        first, second = torch.arange(pairs), torch.arange(pairs) + pairs
    else:
        first, second = torch.arange(pairs) * 2, torch.arange(pairs) * 2 + 1
    out = queries.clone()
    out[:, first] = scale * (queries[:, first] * angles.cos() - queries[:, second] * angles.sin())
    out[:, second] = scale * (queries[:, second] * angles.cos() + queries[:, first] * angles.sin())
    return out


def turned_by_vllm(module: Any, queries: torch.Tensor, axes: tuple[int, ...] | None = None) -> torch.Tensor:
    """Return queries [n, D] at :func:`positions_of` the axes, turned by a rotary module of vLLM."""
    forward = getattr(module, "forward_native", None) or module.forward
    narrow = queries.float().unsqueeze(1) if type(module).__name__.startswith("Deepseek") else queries.float()
    found, _ = forward(positions_of(axes), narrow.clone(), narrow.clone())
    return found.reshape(queries.shape).double()


def difference(config: RotaryConfig, axes: tuple[int, ...] | None, module: Any, length: int) -> str:
    """Return in what a module of vLLM differs from a configuration; nothing where it does not."""
    if module.head_size != config.head_dim:
        return f"heads of {module.head_size} features, read as {config.head_dim}"
    queries = torch.randn(len(POSITIONS), config.head_dim, dtype=torch.float64, generator=torch.manual_seed(0))
    error = (turned_by_vllm(module, queries, axes) - turned(config, queries, length, axes)).abs().max().item()
    if error < CLOSE:
        return ""
    read = f"{config.describe()}, {config.layout}, {config.rotary_dim} of {config.head_dim} features"
    style = "half" if getattr(module, "is_neox_style", True) else "interleaved"
    theirs = f"{type(module).__name__}, base {module.base:g}, {style}, {module.rotary_dim} of {module.head_size}"
    return f"{theirs}; read as {read}; off by {error:.2g}"


def rotary_modules(model: torch.nn.Module) -> dict[int, Any]:
    """Return the rotary module of every layer of a model of vLLM."""
    found = {}
    for name, module in model.named_modules(remove_duplicate=False):
        index = re.search(r"\.(\d+)\.", f".{name}.")
        is_rotary = ".rotary_embedding" in type(module).__module__ and hasattr(module, "rotary_dim")
        if is_rotary and index and "indexer" not in name:
            found.setdefault(int(index[1]), module)
    return found


def judge(case: Case, config_class: Any, place: tuple[str, str]) -> Outcome:
    """Return the outcome of one case."""
    about = (case.model_type, case.seed, case.rope_type)
    length = case.content.get("max_position_embeddings") or 512
    # LongRoPE has one list for all texts, by the length that is served.
    if case.content.get("original_max_position_embeddings") and "longrope" in case.rope_type:
        length = case.content["original_max_position_embeddings"]
    try:
        with quiet():
            config = vllm.configuration(text_config(case, config_class, ()))
            modules = rotary_modules(vllm.model(*place, config, length))
            for module in modules.values():
                turned_by_vllm(module, torch.zeros(len(POSITIONS), module.head_size), _axes_of(case.content))
    except Exception as error:  # whatever the class raises
        return Outcome(*about, "not built", first_line(error))
    try:
        read = read_vllm({}, case.content)
    except ConfigError as error:
        return Outcome(*about, "refused", str(error))
    pairs = compared_pairs(read, modules)
    reasons = list(dict.fromkeys(said for each in pairs if (said := difference(*each, length))))
    differs, told = _against_transformers(case.content, modules, length)
    outcome = "otherwise" if reasons else "as read" if pairs else "nothing to compare"
    return Outcome(*about, outcome, "; ".join(reasons), len(pairs), differs, told)


def _axes_of(content: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the axis of every pair where the file has several, whatever order they have."""
    sizes = (content.get("rope_parameters") or {}).get("mrope_section")
    return tuple(axis for axis, size in enumerate(sizes) for _ in range(size)) if sizes else None


def compared_pairs(parsed: ParsedConfig, modules: Mapping[int, Any]) -> list[tuple[RotaryConfig, Any, Any]]:
    """Return configuration, axis of each pair and module of every layer that rotates; layers for drafts have none in the file."""
    configs = {index: kind.config for kind in parsed.layers for index in kind.layers}
    if not parsed.layers:
        configs = dict.fromkeys(modules, next(iter(parsed.configs)))
    return [
        (parsed.configs[name], parsed.multimodal.get(name, {}).get("axis_of_pair"), module)
        for index, module in modules.items()
        if (name := configs.get(index)) is not None
    ]


def _against_transformers(content: Mapping[str, Any], modules: Mapping[int, Any], length: int) -> tuple[bool, bool]:
    """Return whether vLLM's modules differ from the meaning in transformers, and whether a finding speaks of it."""
    try:
        parsed = read_huggingface(content)
    except ConfigError:
        return False, False
    differs = any(difference(*each, length) for each in compared_pairs(parsed, modules))
    found = [*parsed.findings, *engine_differences(content, parsed)]
    told = any("vLLM" in each.message for each in found if each.severity == "warning")
    return differs, told


def type_of_config(name: str) -> str:
    """Return the name of the configuration's class of a model type without its end: ``SarvamMLA``."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return str(CONFIG_MAPPING_NAMES.get(name, "")).removesuffix("Config")


def outcomes(names: list[str], seeds: int) -> Iterator[Outcome]:
    """Yield the outcome of every case of the model types that both vLLM and transformers have."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    places = vllm.models_by_architecture()
    for name, architecture in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()):
        # Published files name a class of their own where transformers has the model of another type.
        own = f"{type_of_config(name)}ForCausalLM"
        architectures = [own, architecture] if isinstance(architecture, str) else [own, *architecture]
        place = next((places[each] for each in architectures if each in places), None)
        if place is None or name not in CONFIG_MAPPING or (names and name not in names):
            continue
        for seed in range(seeds * (5 if name in RULES else 1)):
            try:
                case = draw_case(CONFIG_MAPPING[name], name, seed)
            except Exception as error:  # whatever the class raises
                yield Outcome(name, seed, "", "not built", first_line(error))
                continue
            yield judge(case, CONFIG_MAPPING[name], place)
    if not names or "stated" in names:
        for case in stated_cases():
            architecture = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[case.model_type]
            yield judge(case, CONFIG_MAPPING[case.model_type], places[architecture])


def page(record: Mapping[str, Any]) -> str:
    """Return the page about a record."""
    every = [Outcome(**each) for each in record["outcomes"]]
    compared = [each for each in every if each.layers]
    lines = [
        "# Read from config.json, and done by vLLM",
        "",
        f"Rotary classes and models of vLLM, {record['vllm']}, with configurations of transformers",
        f"{record['transformers']}: every model type with a class in both that generates text, with options drawn at",
        "random. vLLM's own modules turn queries at several positions, and so does the configuration that Locant reads",
        "for vLLM: frequencies, attention scale, rotated part and pairing are compared in one. The models are built",
        "without weights, from vLLM's sources; whether a layer calls its rotary module is not",
        "seen. Queries stand within the declared length, where dynamic NTK scales nothing in transformers either.",
        "`make vllm-rules` makes this page anew.",
        "",
        f"({record['machine']}.)",
        "",
        f"{len(compared)} files of {len({each.model_type for each in compared})} model types were compared, in "
        f"{sum(each.layers for each in compared)} layers: {_count(compared, 'as read')} as read, "
        f"{_count(compared, 'otherwise')} otherwise. In {sum(each.differs for each in compared)} of them vLLM computes "
        f"something else than transformers; `locant inspect` warns of {sum(each.differs and each.told for each in compared)}.",
        "",
        "| scaling | files | as read | otherwise | other than transformers | warned of |",
        "| --- | --- | --- | --- | --- | --- |",
        *_rows(compared, lambda each: each.rope_type or "default"),
        "",
        "| model type | files | as read | otherwise | other than transformers | warned of |",
        "| --- | --- | --- | --- | --- | --- |",
        *_rows(compared, lambda each: each.model_type),
    ]
    for outcome, title in (
        ("otherwise", "Otherwise"),
        ("refused", "Refused by Locant"),
        ("nothing to compare", "Without a rotary module that could be found"),
        ("not built", "Not built from the sources alone, or refused by vLLM"),
    ):
        # Of what is refused the first sentence is the reason; others speak of the sizes that were drawn.
        found = Counter((each.model_type, each.reason.split(". ")[0].rstrip(".")) for each in every if each.outcome == outcome)
        if found:
            lines += ["", f"## {title}", ""]
            lines += [
                f"- {name} ({count}): {reason[:300].replace('<', '&lt;')}" for (name, reason), count in found.items()
            ]
    return "\n".join(lines) + "\n"


def _rows(every: list[Outcome], key: Any) -> Iterator[str]:
    for name in sorted({key(each) for each in every}):
        of = [each for each in every if key(each) == name]
        differs = [each for each in of if each.differs]
        numbers = (len(of), _count(of, "as read"), _count(of, "otherwise"), len(differs))
        yield f"| {name} | {' | '.join(map(str, numbers))} | {sum(each.told for each in differs)} |"


def _count(every: list[Outcome], outcome: str) -> int:
    return sum(each.outcome == outcome for each in every)


def as_json(record: Mapping[str, Any]) -> str:
    """Return a record as JSON, with a line for every file."""
    head = "".join(f"{json.dumps(name)}: {json.dumps(record[name])},\n" for name in ("vllm", "transformers", "machine"))
    rows = ",\n".join(json.dumps(each) for each in record["outcomes"])
    return f'{{{head}"outcomes": [\n{rows}\n]}}\n'


def main() -> None:
    """Compare, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    vllm.use(options.checkout)
    found = []
    for each in outcomes(options.names, options.seeds):
        found.append(asdict(each))
        if each.outcome != "as read" or (each.differs and not each.told):
            print(json.dumps(asdict(each)), flush=True)
    import transformers

    if not options.names:
        record = {
            "vllm": release_of_vllm(options.checkout),
            "transformers": transformers.__version__,
            "machine": machine(),
            "outcomes": found,
        }
        (RESULTS / "vllm.json").write_text(as_json(record), encoding="utf-8")
        (RESULTS / "vllm.md").write_text(page(record), encoding="utf-8")
    print(Counter(each["outcome"] for each in found))


if __name__ == "__main__":
    main()
