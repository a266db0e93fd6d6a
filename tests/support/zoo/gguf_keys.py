"""Keys about positions that llama.cpp reads of the files of every architecture, written to ``gguf_keys.json``.

Run this file after llama.cpp was updated, with the folder of its sources, which the source package of llama-cpp-python
brings along: ``.venv/bin/python tests/support/zoo/gguf_keys.py vendor/llama.cpp "llama-cpp-python 0.3.36"``. A key is
read where ``load_hparams``, or ``load_arch_hparams`` of the architecture with what that calls, names it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import locant

PATH = Path(locant.__file__).parent / "rotary_configs" / "gguf_keys.json"

_ABOUT_POSITIONS = re.compile(
    r"rope|sliding_window|causal|alibi|relative_buckets|_interval$|recurrent|_swa$|compress_r"
)
_KEY = re.compile(r"LLM_KV_\w+")


def _body(text: str, start: int) -> str:
    """Return what stands between the next brace and the one that closes it."""
    begin = text.index("{", start)
    depth = 0
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin:index]
    raise ValueError("A brace is not closed.")


class Sources:
    """The sources of llama.cpp.

    Args:
        folder: Where they stand, with ``src`` in it.
    """

    def __init__(self, folder: Path) -> None:
        source = folder / "src"
        arch, self._model = ((source / name).read_text("utf-8") for name in ("llama-arch.cpp", "llama-model.cpp"))
        header = (source / "models" / "models.h").read_text("utf-8")
        self.architectures = dict(re.findall(r'\{ (LLM_ARCH_\w+), +"([^"]+)" *\}', arch))
        self.keys = dict(re.findall(r'\{ (LLM_KV_\w+), +"%s\.([^"]+)" *\}', arch))
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

    def names(self, code: str) -> list[str]:
        """Return the keys about positions that some code names."""
        found = {self.keys[each] for each in _KEY.findall(code) if each in self.keys}
        return sorted(name for name in found if _ABOUT_POSITIONS.search(name))


def facts(folder: Path, source: str) -> dict[str, Any]:
    """Return what is stored.

    Args:
        folder: The sources of llama.cpp.
        source: What brings them, in words.
    """
    sources = Sources(folder)
    common = sources.names(sources.code("llama_model_base", "load_hparams"))
    named = [(each, name) for each, name in sources.architectures.items() if each in sources.classes]
    loaders = {name: sources.code(sources.classes[each]) for each, name in named}
    weights = {name: sources.code(sources.classes[each], "load_arch_tensors") for each, name in named}
    return {
        "source": source,
        "every architecture": common,
        "architectures": {name: sorted({*sources.names(code)} - {*common}) for name, code in sorted(loaders.items())},
        "bidirectional": sorted(
            name for name, code in loaders.items() if re.search(r"hparams\.causal_attn\s*=\s*false", code)
        ),
        "heads by rope.dimension_count": sorted(
            name for name, code in weights.items() if re.search(r"qk_rope\w*\s*=\s*hparams\.n_rot", code)
        ),
    }


if __name__ == "__main__":
    stored = facts(Path(sys.argv[1]), sys.argv[2])
    PATH.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8")
