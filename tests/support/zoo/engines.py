"""Classes that other engines have, written to ``engine_classes.json``.

They are those of vLLM's registry, and those of the converters of CTranslate2 and llama.cpp. Run this file after one of
them was updated, with the sources of vLLM, a checkout or a wheel that was unpacked, and those of llama.cpp:
``.venv/bin/python tests/support/zoo/engines.py path/to/vllm path/to/llama.cpp "llama-cpp-python 0.3.36"``, whose last
word is the release of the package that brings llama.cpp. Of both, nothing is imported.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import subprocess
import sys
from abc import ABC
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from zoo.conversions import what_is_written

_MODELS = "vllm/model_executor/models"

PATH = Path(locant.__file__).parent / "rotary_configs" / "huggingface" / "engine_classes.json"

_TEXT_MAPPINGS = (
    "MODEL_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
)


def of_vllm(sources: Path) -> dict[str, Any]:
    """Return the architectures and model types for which vLLM has classes of its own, by its registry.

    Not those that it runs by classes of transformers, nor those that it had in former releases.

    Args:
        sources: Folder that holds vLLM's folder ``vllm``.
    """
    found = sources / _MODELS / "registry.py"
    tables = _tables(found.read_text(encoding="utf-8"))
    by_transformers = tables.pop("_TRANSFORMERS_SUPPORTED_MODELS")
    tables.pop("_TRANSFORMERS_BACKEND_MODELS")
    tables.pop("_VLLM_MODELS")
    drafts = tables.pop("_SPECULATIVE_DECODING_MODELS")
    modules = {name: entry[0] for table in tables.values() for name, entry in table.items()}
    own = sorted(modules.keys() - {*drafts} - {*by_transformers})
    suffixes = _suffixes((sources / "vllm" / "config" / "model.py").read_text(encoding="utf-8"))
    # Published files write some names in other letters than transformers: PhiMoEForCausalLM.
    letters = {name.lower() for name in own}
    are_own = {name for name, named in _architectures() if letters & {each.lower() for each in named}}
    are_run = {name for name, named in _architectures() if {*named} & {*by_transformers}}
    return {
        "release": release_of_vllm(sources).removeprefix("release "),
        "architectures": own,
        "suffixes": suffixes,
        "model_types": sorted(are_own - are_run),
        "encoder-decoder": sorted(_with_encoder_and_decoder()),
        "removed": _removed(found.read_text(encoding="utf-8"), {*own, *by_transformers}),
        "latent": {
            name: turned for name in own if (turned := _turned_of_latent_heads(sources, modules[name])) is not None
        },
        "unscaled": [name for name in own if _never_scales(sources, modules[name])],
    }


def _turned_of_latent_heads(sources: Path, module: str) -> dict[str, Any] | None:
    """Return what a module of vLLM rotates of heads of latent attention, ``None`` where it has none.

    That is how it pairs features, and whether it hands the group of the file to ``get_rope`` as it is: this takes
    ``partial_rotary_factor`` for a share of the part that rotates.
    """
    calls = [call for path in _files_with_attention(sources, module) for call in _rotations_of_latent_heads(path)]
    if not calls:
        return None
    are_neighbours = {call["is_neox_style"] == "False" for call in calls}
    if len(are_neighbours) > 1:
        raise ValueError(f"Classes of {module} pair features in two ways.")
    return {
        "layout": "interleaved" if are_neighbours.pop() else "half",
        "shares": all(call["rope_parameters"].endswith("rope_parameters") and not call["drops"] for call in calls),
    }


def _never_scales(sources: Path, module: str) -> bool:
    """Return whether a module of vLLM hands groups of its own to ``get_rope``, which hold a base and have no scaling.

    Calls without a base that is read, as those of towers for images, say nothing.
    """
    groups = [
        {"**" if key is None else ast.unparse(key).strip("'") for key in each.keys}
        for path in _files_of(sources, module)
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "get_rope"
        for each in [keyword.value for keyword in call.keywords if keyword.arg == "rope_parameters"]
        if not (isinstance(each, ast.Dict) and all(isinstance(value, ast.Constant) for value in each.values))
        for each in [each if isinstance(each, ast.Dict) else ast.Dict([None], [each])]
    ]
    plain = {"rope_theta", "rope_type", "partial_rotary_factor"}
    return bool(groups) and all("rope_theta" in group and {*group} <= plain for group in groups)


def _files_of(sources: Path, module: str) -> list[Path]:
    found = sources / module.replace(".", "/") if module.startswith("vllm.") else sources / _MODELS / module
    return sorted(found.rglob("*.py")) if found.is_dir() else [found.with_suffix(".py")]


def _files_with_attention(sources: Path, module: str) -> Iterator[Path]:
    """Yield the files of a module, and those from whose modules they import layers of attention."""
    files = _files_of(sources, module)
    yield from files
    for path in files:
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.ImportFrom) and any("Attention" in each.name for each in statement.names):
                of_models = re.fullmatch(r"vllm\.(model_executor\.models|models\.\w+)\.\w+", statement.module or "")
                if of_models and statement.level == 0:
                    yield (sources / of_models[0].replace(".", "/")).with_suffix(".py")


@functools.cache
def _rotations_of_latent_heads(path: Path) -> list[dict[str, Any]]:
    """Return the calls in a file that make the rotation of ``qk_rope_head_dim`` features, but of indexers."""
    source = path.read_text(encoding="utf-8")
    found = []
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not isinstance(statement.value, ast.Call):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        call = statement.value
        given = {each.arg: ast.unparse(each.value) for each in call.keywords}
        size = ast.unparse(call.args[0]) if call.args else given.get("head_size", "")
        is_rotation = ast.unparse(call.func) == "get_rope" and "indexer" not in ast.unparse(target)
        if is_rotation and size.removeprefix("self.") == "qk_rope_head_dim":
            found.append({"is_neox_style": "True", **given, "drops": '"partial_rotary_factor"' in source})
    return found


def release_of_vllm(sources: Path) -> str:
    """Return which vLLM sources are of: the release of a wheel, or the commit of a checkout."""
    for folder in sources.glob("vllm-*.dist-info"):
        return f"release {folder.name.split('-')[1].removesuffix('.dist')}"
    command = ["git", "-C", str(sources), "rev-parse", "--short=12", "HEAD"]
    return f"commit {subprocess.check_output(command, text=True).strip()}"


def _tables(source: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a registry, whose assignments refer to each other and to nothing else."""
    names: dict[str, Any] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]).endswith("_MODELS"):
            exec(compile(ast.Module([statement], []), "registry.py", "exec"), names)
    of_releases = ("_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS")
    return {name: table for name, table in names.items() if name.endswith("_MODELS") and name not in of_releases}


def _removed(source: str, present: set[str]) -> dict[str, str]:
    """Return the architectures of former releases that neither vLLM nor transformers has, with the last release."""
    import transformers

    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "_PREVIOUSLY_SUPPORTED_MODELS":
            former: dict[str, str] = ast.literal_eval(statement.value)
            return {
                name: release
                for name, release in sorted(former.items())
                if name not in present and not hasattr(transformers, name)
            }
    raise ValueError("vLLM has no _PREVIOUSLY_SUPPORTED_MODELS.")


def _suffixes(source: str) -> list[str]:
    """Return the ends of names that vLLM exchanges where it looks for an architecture."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "_SUFFIX_TO_DEFAULTS":
            assert statement.value is not None
            return [suffix for suffix, _ in ast.literal_eval(statement.value)]
    raise ValueError("vLLM has no _SUFFIX_TO_DEFAULTS.")


def _architectures() -> Iterator[tuple[str, list[str]]]:
    """Yield the model types of transformers with the names of their classes that generate text."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    for name, config in CONFIG_MAPPING_NAMES.items():
        # Published files name a class of their own where transformers has the model of another type.
        named = [f"{config.removesuffix('Config')}ForCausalLM"]
        for mapping in _TEXT_MAPPINGS:
            architecture = getattr(modeling_auto, mapping).get(name, ())
            named += [architecture] if isinstance(architecture, str) else architecture
        yield name, named


def _with_encoder_and_decoder() -> Iterator[str]:
    """Yield the model types of transformers with an encoder and a decoder, which vLLM runs by its own classes alone.

    vllm/model_executor/models/transformers/base.py: "vLLM does not support encoder-decoder models".
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    for name in CONFIG_MAPPING_NAMES:
        try:
            config = CONFIG_MAPPING[name]
        except (ImportError, AttributeError):  # of a package that is not installed
            continue
        if config.is_encoder_decoder is True:
            yield name


def of_llamacpp(sources: Path, release: str) -> dict[str, Any]:
    """Return the architectures of which llama.cpp's converter makes GGUF files of text, and their model types.

    Args:
        sources: Folder that holds its folder ``conversion``.
        release: That of the package that brings them.
    """
    parsed = ast.parse((sources / "conversion" / "__init__.py").read_text(encoding="utf-8"))
    tables = (each for each in parsed.body if isinstance(each, ast.AnnAssign) and each.value is not None)
    (table,) = (each.value for each in tables if ast.unparse(each.target) == "TEXT_MODEL_MAP")
    converted = set(ast.literal_eval(table))
    types = [name for name, named in _architectures() if converted & {*named}]
    return {"release": release, "architectures": sorted(converted), "model_types": sorted(types)}


def of_ctranslate2() -> dict[str, Any]:
    """Return which configurations CTranslate2 converts, and what it reads of their scaling.

    That is whether it reads one at all, in which groups of ``rope_parameters`` a share of a head, and in which a factor
    for which types; and which converters set the corners of Llama 3's scaling, without which the engine takes none.
    """
    import ctranslate2
    from ctranslate2.converters import transformers as converters
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    loaders = sorted(converters._MODEL_LOADERS.items())
    reads = {name: _reads_scaling(type(loader)) for name, loader in loaders}
    return {
        "release": ctranslate2.__version__,
        "configurations": reads,
        "shares": {name: groups for name, loader in loaders if (groups := _groups_with_share(type(loader)))},
        "factors": {name: types for name, loader in loaders if (types := _groups_with_factor(type(loader)))},
        "corners": [name for name, loader in loaders if ".rotary_low_freq_factor =" in "".join(_sources(type(loader)))],
        "model_types": {name: config for name, config in sorted(CONFIG_MAPPING_NAMES.items()) if config in reads},
    }


@functools.cache
def _sources_of(module: str) -> dict[str, str]:
    """Return the sources of the classes of a module by name; :func:`inspect.getsource` would parse it for each."""
    source = inspect.getsource(sys.modules[module])
    lines = source.splitlines(keepends=True)
    classes = (part for part in ast.parse(source).body if isinstance(part, ast.ClassDef))
    return {each.name: "".join(lines[each.lineno - 1 : each.end_lineno]) for each in classes}


def _sources(loader: type[Any]) -> list[str]:
    """Return the sources of a converter and of what it inherits."""
    return [_sources_of(each.__module__)[each.__name__] for each in loader.__mro__ if each not in (ABC, object)]


def _reads_scaling(loader: type[Any]) -> bool:
    own = [source for source in _sources(loader) if "def get_rotary_params" not in source]  # which the others call
    return any("get_rotary_params" in source or "rope_scaling" in source for source in own)


def _groups_with_share(loader: type[Any]) -> list[str]:
    """Return the groups of rope_parameters whose partial_rotary_factor a converter reads."""
    source = "".join(_sources(loader))
    readers = re.findall(r'(\w+)\.get\("partial_rotary_factor"', source)
    return [group for name in readers for group in re.findall(rf'\b{name} = \w+\.get\("(\w+)"', source)]


def _groups_with_factor(loader: type[Any]) -> dict[str, list[str]]:
    """Return the groups of rope_parameters whose factor a converter reads, with the types for which it does."""
    source = "".join(_sources(loader))
    found: dict[str, list[str]] = {}
    for name in re.findall(r'(\w+)\.get\("factor"', source):
        types = [
            kind
            for asked in re.findall(rf'(\w+) = {name}\.get\("rope_type"', source)
            for kind in re.findall(rf'\b{asked} == "(\w+)"', source)
        ]
        found.update(dict.fromkeys(re.findall(rf'\b{name} = \w+\.get\("(\w+)"', source), types))
    return found


def main() -> None:
    """Write the classes of all engines."""
    vllm, llamacpp = map(Path, sys.argv[1:3])
    found = {
        "vllm": of_vllm(vllm),
        "ctranslate2": of_ctranslate2() | what_is_written(),
        "llamacpp": of_llamacpp(llamacpp, sys.argv[3]),
    }
    PATH.write_text(json.dumps(found, separators=(",\n", ": ")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
