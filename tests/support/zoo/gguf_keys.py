"""Keys about positions that llama.cpp reads of the files of every architecture, written to ``keys.json``.

Run this file after llama.cpp was updated, with the folder of its sources, which the source package of llama-cpp-python
brings along: ``.venv/bin/python tests/support/zoo/gguf_keys.py vendor/llama.cpp "llama-cpp-python 0.3.36"``. A key is
read where ``load_hparams``, or ``load_arch_hparams`` of the architecture with what that calls, names it. It is needed
where that is so under no condition, and the loader is not told that it may be missing. A graph has one base where
nothing in its code asks for that of a layer; it rotates as many features in every layer as ``n_rot`` of that layer
says, or has the number of sliding attention beside ``n_rot`` of the first layer.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import locant

PATH = Path(locant.__file__).parent / "rotary_configs" / "gguf" / "keys.json"

_ABOUT_POSITIONS = re.compile(
    r"rope|sliding_window|causal|alibi|relative_buckets|_interval$|recurrent|_swa$|compress_r|_mla$"
    r"|indexer\.(?:key_length|types)$"
)
_KEY = re.compile(r"LLM_KV_\w+")
_NEEDED = re.compile(r"^\s*ml\.get_(?:key|arr|key_or_arr|arr_n)\((LLM_KV_\w+),(?!.*\bfalse\)).*\);", re.MULTILINE)
_SLIDING_BASE = "rope.freq_base_swa"
_LAYER_BASE = re.compile("get_rope_freq_base|rope_freq_base_train_swa")
_ROTATED_BY_LAYER = re.compile(r"= hparams\.n_rot\(\w+\);")
_ROTATED_AS_FIRST = re.compile(r"\? hparams\.n_rot_swa : n_rot;")
_ROTATES_NOTHING = re.compile(r"GGML_ASSERT\(hparams\.n_rot\(\) == 0\b")
_ROTATED_QUERIES = re.compile(
    r"\b(\w+) = ggml_rope_(?:ext|multi)\(\s*ctx0, \1, (?P<how>[^;]*);(?P<offset>\s*\1 = ggml_rope_set_offset\(\1)?"
)
_LAYOUTS = {"LLAMA_ROPE_TYPE_NEOX": "half", "LLAMA_ROPE_TYPE_NORM": "interleaved"}
_MORE_THAN_ROTATED = re.compile(r"hparams\.indexer_head_size <= hparams\.n_rot\(\)")
_WITHOUT_HEADS = re.compile(r"n_head_kv(?:\(\w*\))? == 0")
_RECURRENT = re.compile(r"is_recr_impl\[\w+\]\s*=\s*hparams\.n_head_kv\(\w+\) == 0;")
_ONE_SIZE = re.compile(
    r"n_embd_head == (?:hparams\.n_embd_head_[kv]\(\)|n_embd_head_v)\)|requires n_embd_head_k == n_embd_head_v"
    r"|n_embd_v_gqa == n_embd_k_gqa"
)

_SHAPE = r'tn\(LLM_TENSOR_{},\s*"weight"[^)]*\),\s*\{{([^}}]*)\}},\s*([^;]*)\);'
_WIDE = frozenset(("n_embd,n_embd", "n_embd,n_embd+2*n_embd_gqa", "n_embd,n_embd*3", "n_embd,3*n_embd"))
_QKV_CALL = re.compile(r"create_tensor_qkv\(layer, \w+, (\w+), ([^,]+), ([^,]+), [^,]+,[^)]*\);")
_OF_HEADS = frozenset(("n_embd", "n_embd_head_k * n_head"))
_NEEDS_LATENT = "architecture requires MLA"
_LATENT_KEYS = "LLM_KV_ATTENTION_KEY_LENGTH_MLA LLM_KV_ATTENTION_VALUE_LENGTH_MLA"
_SHORT_CALL = 6  # arguments of build_qkv with one size of heads for queries, keys and values


def _body(text: str, start: int) -> str:
    """Return what stands between the next brace and the one that closes it."""
    begin = text.index("{", start)
    depth = 0
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin:index]
    raise ValueError("A brace is not closed.")


def _numbers_of_arguments(code: str, name: str) -> set[int]:
    """Return with how many arguments some code calls a function."""
    found = set()
    for call in re.finditer(rf"\b{name}\(", code):
        depth, count = 1, 1
        for sign in code[call.end() :]:
            depth += {"(": 1, ")": -1}.get(sign, 0)
            count += sign == "," and depth == 1
            if depth == 0:
                break
        found.add(count)
    return found


def _shapes(weights: str, *tensors: str) -> list[str]:
    """Return the shapes in which a loader asks for weights that no file may lack, without spaces."""
    found = re.findall(_SHAPE.format(f"(?:{'|'.join(tensors)})"), weights)
    return [re.sub(r"\s", "", shape) for shape, flags in found if "NOT_REQUIRED" not in flags]


def _has_heads_as_wide_as_model(weights: str) -> bool:
    """Return whether a loader's weights have as many features of all heads as the model has."""
    outputs = _shapes(weights, "ATTN_OUT")
    return (
        (bool(outputs) and {*outputs} <= _WIDE)
        or bool(_WIDE & {*_shapes(weights, "ATTN_Q", "ATTN_QKV")})
        or any(queries == "n_embd" for _, queries, _ in _QKV_CALL.findall(weights))
    )


def _has_keys_of_every_head(weights: str) -> bool:
    """Return whether a loader's weights have as many heads of keys as of queries."""
    return (
        any(queries == keys and queries in _OF_HEADS for _, queries, keys in _QKV_CALL.findall(weights))
        or "n_embd" in _shapes(weights, "ATTN_K_NORM")
        or any("n_head*" in shape for shape in _shapes(weights, "ATTN_KV_B"))
        or "n_embd,n_embd_k_gqa" in _shapes(weights, "ENC_ATTN_Q", "DEC_ATTN_Q")
    )


def _rotated_queries_of_indexer(graph: str) -> dict[str, Any]:
    """Return what a graph rotates of the queries of an indexer, and the layout where it is not that of the attention.

    Queries are those of an indexer where that, or a weight of that, is what they are named by or made of.
    """
    for found in _ROTATED_QUERIES.finditer(graph):
        name = found[1]
        made_of = re.findall(rf"\b{name} = ((?:(?!\b{name}\b)[^;])*);", graph[: found.start()])
        if "index" not in f"{name} {made_of[-1] if made_of else ''}":
            continue
        layout = next((each for kind, each in _LAYOUTS.items() if kind in found["how"]), None)
        return {"rotates": "last" if found["offset"] else "first"} | ({"layout": layout} if layout else {})
    return {}


def _unconditional(body: str) -> str:
    """Return what of a function's code stands in no braces of its own."""
    depth, kept = 0, []
    for sign in body[1:]:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        kept.append("" if depth else sign)
    return "".join(kept)


class Sources:
    """The sources of llama.cpp.

    Args:
        folder: Where they stand, with ``src`` in it.
    """

    def __init__(self, folder: Path) -> None:
        source = folder / "src"
        self._arch, self._model = ((source / name).read_text("utf-8") for name in ("llama-arch.cpp", "llama-model.cpp"))
        header = (source / "models" / "models.h").read_text("utf-8")
        self.architectures = dict(re.findall(r'\{ (LLM_ARCH_\w+), +"([^"]+)" *\}', self._arch))
        self.keys = dict(re.findall(r'\{ (LLM_KV_\w+), +"%s\.([^"]+)" *\}', self._arch))
        self.classes = {
            name: built
            for cases, built in re.findall(r"((?:case LLM_ARCH_\w+:\s*)+)return new (llama_model_\w+)\(", self._model)
            for name in re.findall(r"LLM_ARCH_\w+", cases)
        }
        self.parents = dict(re.findall(r"struct (llama_model_\w+) : public (llama_model_\w+)", header))
        texts = [self._model, *(path.read_text("utf-8") for path in sorted((source / "models").glob("*.cpp")))]
        self._functions = {
            (found[1], found[2]): _body(text, found.start())
            for text in texts
            for found in re.finditer(r"^\w[\w ]*?(llama_model_\w+)::(\w+)\(llama_model_loader &", text, re.MULTILINE)
        }
        self._shared = {
            found[1]: shared[1]
            for found in re.finditer(r"^struct (llama_model_\w+) : .*?^\};", header, re.MULTILINE | re.DOTALL)
            if (shared := re.search(r"using graph = (llama_model_\w+)::graph", found[0]))
        }
        self._graphs = {
            owner: text.replace(self._functions.get((owner, "load_arch_hparams"), " "), " ")
            for text in texts
            for owner in re.findall(r"(llama_model_\w+)::build_arch_graph\(", text)
        }

    def code(self, owner: str | None, name: str = "load_arch_hparams") -> str:
        """Return the code of a function of the loader, with that of those that it calls.

        Args:
            owner: The class.
            name: The function, which an ancestor of the class may have.
        """
        while owner is not None and (owner, name) not in self._functions:
            owner = self.parents.get(owner)
        if owner is None:
            return ""
        body = self._functions[owner, name]
        called = [
            self.code(given.removesuffix("::") or owner, each)
            for given, each in re.findall(r"(llama_model_\w+::)?\b(\w+)\(ml\b", body)
            if (given.removesuffix("::") or owner, each) != (owner, name)
        ]
        return "".join([body, *called])

    def needed(self, owner: str | None) -> list[str]:
        """Return the keys about positions without which no file of a class loads.

        Args:
            owner: The class.
        """
        while owner is not None and (owner, "load_arch_hparams") not in self._functions:
            owner = self.parents.get(owner)
        body = "" if owner is None else _unconditional(self._functions[owner, "load_arch_hparams"])
        by_weights = _LATENT_KEYS if _NEEDS_LATENT in self.code(owner, "load_arch_tensors") else ""
        return self.names(" ".join([*_NEEDED.findall(body), by_weights]))

    def graph(self, owner: str | None) -> str:
        """Return the code of the graph of a class, which an ancestor may have, or another class whose graph it is.

        Args:
            owner: The class.
        """
        while owner is not None and owner not in self._graphs:
            owner = self.parents.get(owner)
        if owner is None:
            return ""
        others = {*re.findall(r"make_unique<(llama_model_\w+)::graph", self._graphs[owner])} - {owner}
        others |= {self._shared[owner]} if owner in self._shared else set()
        return "".join([self._graphs[owner], *(self._graphs.get(each, "") for each in sorted(others))])

    def has_one_base(self, owner: str | None) -> bool:
        """Return whether the graph of a class gives all layers the base of the context.

        Args:
            owner: The class.
        """
        graph = self.graph(owner)
        return bool(graph) and not _LAYER_BASE.search(graph)

    def without_cache(self) -> list[str]:
        """Return the architectures that llama.cpp gives no memory of keys and values."""
        code = _body(self._model, self._model.index("llama_model::create_memory("))
        return sorted(
            self.architectures[each] for each in re.findall(r"case (LLM_ARCH_\w+):", code[: code.index("nullptr")])
        )

    def hybrid(self) -> list[str]:
        """Return the architectures that llama.cpp gives a memory of states beside that of keys and values."""
        code = _body(self._arch, self._arch.index("llm_arch_is_hybrid("))
        return sorted(
            self.architectures[each] for each in re.findall(r"case (LLM_ARCH_\w+):", code[: code.index("return true")])
        )

    def names(self, code: str) -> list[str]:
        """Return the keys about positions that some code names."""
        found = {self.keys[each] for each in _KEY.findall(code) if each in self.keys}
        return sorted(name for name in found if _ABOUT_POSITIONS.search(name))


def facts(folder: Path, source: str) -> dict[str, Any]:
    """Return what is stored.

    Args:
        folder: The sources of llama.cpp.
        source: The release of the package that brings them.
    """
    sources = Sources(folder)
    common = sources.names(sources.code("llama_model_base", "load_hparams"))
    named = [(each, name) for each, name in sources.architectures.items() if each in sources.classes]
    loaders = {name: sources.code(sources.classes[each]) for each, name in named}
    weights = {name: sources.code(sources.classes[each], "load_arch_tensors") for each, name in named}
    return {
        "source": f"llama.cpp as {source} brings it",
        "every architecture": common,
        "architectures": {name: sorted({*sources.names(code)} - {*common}) for name, code in sorted(loaders.items())},
        "bidirectional": sorted(
            name for name, code in loaders.items() if re.search(r"hparams\.causal_attn\s*=\s*false", code)
        ),
        "needed": {name: keys for each, name in sorted(named) if (keys := sources.needed(sources.classes[each]))},
        "one base": sorted(
            name
            for each, name in named
            if _SLIDING_BASE in sources.names(loaders[name]) and sources.has_one_base(sources.classes[each])
        ),
        "rotated features by layer": sorted(
            name for each, name in named if _ROTATED_BY_LAYER.search(sources.graph(sources.classes[each]))
        ),
        "full attention rotated as the first layer": sorted(
            name for each, name in named if _ROTATED_AS_FIRST.search(sources.graph(sources.classes[each]))
        ),
        "rotates nothing": sorted(
            name for each, name in named if _ROTATES_NOTHING.search(sources.graph(sources.classes[each]))
        ),
        "indexers": {
            name: found | ({"is longer": True} if _MORE_THAN_ROTATED.search(loaders[name]) else {})
            for each, name in sorted(named)
            if (found := _rotated_queries_of_indexer(sources.graph(sources.classes[each])))
        },
        "without heads in some layers": sorted(
            name
            for each, name in named
            if _WITHOUT_HEADS.search(loaders[name] + weights[name] + sources.graph(sources.classes[each]))
        ),
        "without cache": sources.without_cache(),
        "hybrid": sources.hybrid(),
        "recurrent without heads": sorted(name for name, code in loaders.items() if _RECURRENT.search(code)),
        "keys as long as values": sorted(
            name
            for each, name in named
            for graph in [sources.graph(sources.classes[each])]
            if _ONE_SIZE.search(loaders[name] + graph) or _SHORT_CALL in _numbers_of_arguments(graph, "build_qkv")
        ),
        "heads as wide as the model": sorted(
            name for name, code in weights.items() if _has_heads_as_wide_as_model(code)
        ),
        "keys of every head": sorted(name for name, code in weights.items() if _has_keys_of_every_head(code)),
        "latent": sorted(name for name, code in weights.items() if "LLM_TENSOR_ATTN_K_B," in code),
        "heads by rope.dimension_count": sorted(
            name for name, code in weights.items() if re.search(r"qk_rope\w*\s*=\s*hparams\.n_rot", code)
        ),
    }


if __name__ == "__main__":
    stored = facts(Path(sys.argv[1]), sys.argv[2])
    PATH.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8")
