"""No configuration, whatever stands in it, ends in anything but findings or a sentence of what is wrong.

``LOCANT_EXAMPLES=100`` in the environment tries a hundred times as many.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import tempfile
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from published import CONFIGS

from locant.cli import inspect as command
from locant.errors import LocantError, UsageError
from locant.extension.inspect.inspection import inspect_model
from locant.extension.inspect.settings import ENGINES, to_engine_config

_EXTREME = [
    *(0, 1, -1, 2, 3, 0.5, -0.5, 1e-200, 5e-324, 1e60, 1e300, 1.7e308, 2**31, 2**53 + 1, 2**63, 10**30, 10**400),
    *(float("inf"), float("-inf"), float("nan"), 4096, 16384, 127, 0.25, 7.5, None, True, False, "", "4", "yarn"),
    *("llama3", "default", "rope_theta", "\ud800\x1b[2J", "full_attention", [], {}, [[]], [1], [-16, 40, 40]),
    *([16, 24, 24], ["a"], [None], [1e308] * 48, {"full_attention": None}, {"a": {"a": {"a": 1}}}),
    *({"rope_type": "linear", "factor": 1e306}, {"rope_type": "dynamic", "factor": 1e305}, {"type": "mrope"}),
]
_NAMED = """
rope_theta rope_scaling rope_parameters factor rope_type type original_max_position_embeddings max_position_embeddings
head_dim hidden_size num_attention_heads partial_rotary_factor rotary_dim rotary_pct beta_fast mscale_all_dim
attention_factor low_freq_factor short_factor long_factor mrope_section mrope_interleaved layer_types model_type
text_config qk_rope_head_dim sliding_window no_rope_layers num_hidden_layers rop_scaling attn_factor
full_attention sliding_attention use_dynamic_ntk alibi
"""
_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "mrope", "su", "ntk")
_values = st.one_of(st.sampled_from(_EXTREME), st.floats(), st.integers())


def _groups(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, dict):
        return []
    return [content, *(group for value in content.values() for group in _groups(value))]


@st.composite
def _mutations(draw: st.DrawFn) -> dict[str, Any]:
    """A published configuration with up to four entries replaced, added or removed, in any of its groups."""
    content = copy.deepcopy(CONFIGS[draw(st.sampled_from(sorted(CONFIGS)))]["config"])
    for _ in range(draw(st.integers(1, 4))):
        group = draw(st.sampled_from(_groups(content)))
        change = draw(st.sampled_from(["replace", "add", "remove", "rescale"]))
        if change == "add" or not group:
            group[draw(st.sampled_from(_NAMED.split()))] = copy.deepcopy(draw(_values))
        elif change == "rescale":
            original, factor = copy.deepcopy((draw(_values), draw(_values)))
            scaled = {"rope_type": draw(st.sampled_from(_TYPES)), "factor": factor}
            content["rope_scaling"] = scaled | {"original_max_position_embeddings": original}
        else:
            name = draw(st.sampled_from(sorted(group)))
            group.pop(name) if change == "remove" else group.update({name: copy.deepcopy(draw(_values))})
    return content


def _command(*arguments: str) -> tuple[int, str]:
    """Return the exit code of ``locant inspect`` and what it printed, as a terminal that takes UTF-8 shows it."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out):
        code = command.run(parser.parse_args(list(arguments)))
    out.flush()
    return code, out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _check(content: Any, *, ask_class: bool, engine: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        try:
            inspection = inspect_model(path, ask_class=ask_class)
        except UsageError:
            return
        shown = json.loads(json.dumps(inspection.as_data(), allow_nan=False))
        assert all(each.message and each.remedy for each in inspection.findings)
        assert all(len(each.message) < 1500 for each in inspection.findings)
        assert inspection.parsed or inspection.findings
        if not ask_class:
            code, said = _command(str(path), "--json", "--without-class")
            assert (code, json.loads(said)) == (int(inspection.has_errors), shown)
            code, said = _command(str(path), "--without-class")
            assert code == int(inspection.has_errors)
            assert "\x1b" not in said
        if engine:
            with suppress(LocantError):
                to_engine_config(inspection, engine)


@settings(max_examples=40 * TIMES, deadline=None)
@given(_mutations(), st.sampled_from(sorted(ENGINES)))
@example({"head_dim": 10**9, "model_type": "llama"}, "vllm")
@example({"num_hidden_layers": 10**9, "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}, "hf5")
def test_any_mutation_of_a_published_file_is_read_or_explained(content: dict[str, Any], engine: str) -> None:
    _check(content, ask_class=False, engine=engine)


@settings(max_examples=6 * TIMES, deadline=None)
@given(_mutations())
@example({"head_dim": 10**9, "model_type": "llama"})
@example({"model_type": "llama", "rope_scaling": {"rope_type": "dynamic", "factor": 1e305}})
@example({"model_type": "qwen2", "layer_types": ["\ud800"] * 32, "sliding_window": 10**30})
def test_any_class_answers_or_refuses(content: dict[str, Any]) -> None:
    _check(content, ask_class=True)
