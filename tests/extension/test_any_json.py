"""No configuration, whatever stands in it, ends in anything but findings or a sentence of what is wrong.

``LOCANT_EXAMPLES=100`` in the environment tries a hundred times as many.
"""

from __future__ import annotations

import copy
import io
import json
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from published_corpus import CORPUS

from locant.cli import main
from locant.errors import ConfigError, LocantError, UsageError
from locant.extension import ENGINES, inspect_model, to_engine_config
from locant.parsing import parse_json
from locant.positions import RotaryConfig
from locant.rotary_configs import read_gguf, read_huggingface, read_llamacpp, read_vllm, write_gguf

_EXTREME = [
    *(0, 1, -1, 2, 3, 0.5, -0.5, 1e-200, 5e-324, 1e60, 1e200, 1e300, 1e305, 1e306, 1.7e308, 2**31, 2**53 + 1, 2**63),
    *(10**30, 10**400, -(10**400), float("inf"), float("-inf"), float("nan"), 4096, 8192, 16384, 127, 0.25, 7.5, 32.0),
    *(None, True, False, "", "4", "yarn", "llama3", "default", "rope_theta", "\ud800\x1b[2J", "full_attention"),
    *(
        [],
        {},
        [[]],
        [1],
        [0, 0],
        [-16, 40, 40],
        [16.5, 23.5, 24],
        [16, 24, 24],
        [32, 48, 48],
        ["a"],
        [None],
        [1e308] * 48,
    ),
    *({"full_attention": None}, {"a": {"a": {"a": 1}}}, {"rope_theta": 1e4}, {"rope_type": "linear", "factor": 1e306}),
    *({"rope_type": "dynamic", "factor": 1e305}, {"rope_type": "yarn", "factor": 4.0}, {"type": "mrope"}),
    *({"full_attention": {"rope_type": "proportional", "factor": 0}}, ["full_attention", "sliding_attention"]),
]
_FILES = Path(__file__).parents[1] / "support" / "published_files.json"
_BASES = [
    *(CORPUS[name] for name in sorted(CORPUS)),
    *(each["config"] for each in parse_json(_FILES.read_text(encoding="utf-8")).values()),
]
_NAMED = """
rope_theta rope_scaling rope_parameters factor rope_type type original_max_position_embeddings max_position_embeddings
head_dim hidden_size num_attention_heads partial_rotary_factor rotary_dim rotary_pct rotary_emb_base beta_fast beta_slow
mscale mscale_all_dim attention_factor low_freq_factor high_freq_factor short_factor long_factor mrope_section
mrope_interleaved truncate layer_types model_type text_config qk_rope_head_dim rope_interleave sliding_window finetuned
rope_local_base_freq no_rope_layers num_hidden_layers rop_scaling Rope_scaling RoPE_theta theta head_dims alpha
full_atention full_attention sliding_attention use_dynamic_ntk use_logn_attn alibi rotary
dual_chunk_attention_config attn_config compress_ratios compress_rope_theta indexer_rope_interleave use_rotary_pos_emb
swa_head_dim swa_qk_rope_head_dim block_configs per_layer_config embed_dim nhead head_size rope_dim rope_local_base
rope_style rope_fraction pos_emb yarn yarn_scale rope_scaling_type rope_scaling_factor ssm_every_n nope_layer_interval
"""
_NAMES = _NAMED.split()
_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "mrope", "su", "ntk")

_values = st.one_of(
    st.sampled_from(_EXTREME),
    st.floats(),
    st.integers(),
    st.recursive(
        st.none() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    ),
)


def _groups(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, dict):
        return []
    return [content, *(group for value in content.values() for group in _groups(value))]


@st.composite
def _mutations(draw: st.DrawFn) -> dict[str, Any]:
    """A published configuration with up to four entries replaced, added or removed, in any of its groups."""
    content = copy.deepcopy(draw(st.sampled_from(_BASES)))
    for _ in range(draw(st.integers(1, 4))):
        group = draw(st.sampled_from(_groups(content)))
        change = draw(st.sampled_from(["replace", "add", "remove", "rescale"]))
        if change == "add" or not group:
            group[draw(st.sampled_from(_NAMES))] = copy.deepcopy(draw(_values))
        elif change == "rescale":
            factor, original = copy.deepcopy((draw(_values), draw(_values)))
            scaled = {"rope_type": draw(st.sampled_from(_TYPES)), "factor": factor}
            content["rope_scaling"] = scaled | {"original_max_position_embeddings": original}
        else:
            name = draw(st.sampled_from(sorted(group)))
            if change == "remove":
                del group[name]
            else:
                group[name] = copy.deepcopy(draw(_values))
    return content


def _command(*arguments: str) -> tuple[int, str]:
    """Return the exit code of the command and what it printed, as a terminal that takes UTF-8 shows it."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = main(list(arguments))
    out.flush()
    return code, out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _refusal(read: Callable[[], Any]) -> str:
    """Return what a reader says, when it refuses; anything but a ConfigError fails the test."""
    try:
        read()
    except ConfigError as error:
        return str(error)
    return ""


def _check(content: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        try:
            inspection = inspect_model(path, ask_class=False)
        except UsageError:
            assert _command("inspect", str(path), "--json", "--without-class")[0] == 2
            return
        shown = json.dumps(inspection.as_data(), allow_nan=False)
        assert all(finding.message and finding.remedy for finding in inspection.findings)
        code, said = _command("inspect", str(path), "--json", "--without-class")
        assert code == int(inspection.has_errors)
        assert json.loads(said) == json.loads(shown)
        code, said = _command("inspect", str(path), "--without-class")
        assert code == int(inspection.has_errors)
        assert not {"target_length", "original_length", "\x1b"} & {word.strip("(),.") for word in said.split()}
        for engine in ENGINES:
            with suppress(LocantError):
                to_engine_config(inspection, engine)


@settings(max_examples=60 * TIMES, deadline=None)
@given(_mutations())
def test_any_mutation_of_a_published_file_is_read_or_explained(content: dict[str, Any]) -> None:
    _check(content)


@settings(max_examples=100 * TIMES, deadline=None)
@given(_mutations(), _values)
@example({"head_dim": 0, "hidden_size": 2880, "num_attention_heads": 64}, 2)  # without a model type
@example(
    {
        **CORPUS["Llama 3.1 8B"],
        "rope_scaling": {"type": {"a": 1}, "factor": 4, "original_max_position_embeddings": 8192},
    },
    2,
)
@example(
    {"model_type": "glmasr", "text_config": {**CORPUS["Llama 3.1 8B"], "rope_scaling": None, "rope_theta": [1]}}, 2
)
def test_readers_raise_nothing_but_errors_of_configurations(content: dict[str, Any], value: Any) -> None:
    readers: list[Callable[[], Any]] = [
        lambda: read_huggingface(content),
        lambda: read_vllm({"rope_scaling": {"rope_type": "yarn", "factor": value}}, content),
        lambda: read_vllm({"text_config": content, "rope_theta": value}, content),
    ]
    for read in readers:
        said = _refusal(read)
        assert len(said) < 2000
        assert "target_length" not in said


_METADATA = write_gguf(RotaryConfig(head_dim=128, base=5e5, max_length=8192), "llama").metadata
_GGUF_NAMES = [
    *(name.partition(".")[2] for name in _METADATA),
    *("rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.freq_base_swa"),
    *("rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.dimension_sections", "attention.head_count"),
]


@settings(max_examples=100 * TIMES, deadline=None)
@given(
    st.dictionaries(st.sampled_from(_GGUF_NAMES), _values, min_size=1, max_size=4),
    st.sampled_from(["none", "linear", "yarn", "longrope"]),
)
def test_any_metadata_is_read_or_explained(entries: dict[str, Any], kind: str) -> None:
    metadata = {**_METADATA, "llama.rope.scaling.type": kind} | {
        f"llama.{name}": each for name, each in entries.items()
    }
    assert "target_length" not in _refusal(lambda: read_gguf(metadata).explain())


_FLAGS = ["--rope-scaling", "--rope_scale", "--rope-freq-base", "--yarn-orig-ctx", "--yarn_beta_fast", "-c", "--rope-x"]


@settings(max_examples=50 * TIMES, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_FLAGS), st.sampled_from(["yarn", "linear", *map(str, _EXTREME[:26])]))))
def test_any_flags_are_read_or_explained(flags: list[tuple[str, str]]) -> None:
    model = RotaryConfig(head_dim=32, max_length=2048)
    _refusal(lambda: read_llamacpp([word for pair in flags for word in pair], model).explain())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"text_config": ' * 900 + "{}" + "}" * 900,
        '{"model_type": "llama", "rope_theta": 1' + "0" * 5000 + "}",
        '{"model_type": "llama", "rope_theta": 1e999, "head_dim": -Infinity, "rope_scaling": NaN}',
        '{"model_type": ["llama"], "rope_scaling": {"rope_type": {}}}',
        '"rope_theta"',
        "",
    ],
)
def test_any_text_is_read_or_explained(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    code, _ = _command("inspect", str(tmp_path), "--json", "--without-class")
    assert code in (1, 2)
