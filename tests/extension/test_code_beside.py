"""What the code beside a config.json says of a model type that is not known here, without being run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from locant.extension import Inspection, inspect_model

_HALVES = "x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]"
_NEIGHBOURS = "x1, x2 = x[..., ::2], x[..., 1::2]"
_ROTATE = "def rotate_half(x):\n    {}\n    return torch.cat((-x2, x1), dim=-1)\n"
_CONFIG = "class MineConfig:\n    def __init__(self, vocab_size=9, *, rope_theta=5000.0, bias=True):\n        pass\n"
_MODEL = "raise SystemExit('this code was run')\nfrom .parts import attention\n"
_SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}


def _inspected(folder: Path, files: dict[str, str], **content: Any) -> Inspection:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    named = {"AutoConfig": "configuration_mine.MineConfig", "AutoModel": "modeling_mine.MineModel"}
    whole = {"model_type": "mine", "auto_map": named, **_SIZES, **content}
    (folder / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    return inspect_model(folder, ask_class=False)


def _said(inspection: Inspection, severity: str) -> str:
    return " ".join(each.message for each in inspection.findings if each.severity == severity)


@pytest.mark.parametrize(("pairs", "layout"), [(_HALVES, "half"), (_NEIGHBOURS, "interleaved")])
def test_how_pairs_are_turned(tmp_path: Path, pairs: str, layout: str) -> None:
    files = {"configuration_mine.py": _CONFIG, "modeling_mine.py": _MODEL, "parts.py": _ROTATE.format(pairs)}
    inspection = _inspected(tmp_path, files)
    assert inspection.parsed is not None
    assert (inspection.parsed.config.layout, inspection.parsed.config.base) == (layout, 5000.0)
    said = f"parts.py beside the file, which was read and not run, pairs features in the layout '{layout}'"
    assert said in _said(inspection, "note")
    assert not _said(inspection, "warning")
    assert _inspected(tmp_path, files, rope_theta=7e5).parsed.config.base == 7e5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "code",
    [
        "def apply_rope(x):\n    return torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))\n",
        "def apply_rotary(x):\n    return x.reshape(sq, -1, np, rot_dim // 2, 2)\n",
        "def apply_rope(x):\n    return x.unflatten(-1, (-1, 2))\n",
        "def rotate_pairs(x):\n    return rearrange(x, '... (d r) -> ... d r', r=2)\n",
        # DeepSeek's: neighbours are taken apart, and halves turned
        _ROTATE.format(_HALVES) + "def apply_rope(q):\n    return rotate_half(q.view(b, d // 2, 2).transpose(4, 3))\n",
    ],
)
def test_neighbours_by_their_shape(tmp_path: Path, code: str) -> None:
    parsed = _inspected(tmp_path, {"configuration_mine.py": _CONFIG, "modeling_mine.py": code}).parsed
    assert parsed is not None
    assert parsed.config.layout == "interleaved"


def test_patterns_of_einops(tmp_path: Path) -> None:
    for pattern, layout in (("... (j d) -> ... j d", "half"), ("... (d j) -> ... d j", "interleaved")):
        code = _ROTATE.format(f"x1, x2 = rearrange(x, '{pattern}', j=2).unbind(dim=-2)")
        parsed = _inspected(tmp_path, {"configuration_mine.py": _CONFIG, "modeling_mine.py": code}).parsed
        assert parsed is not None
        assert parsed.config.layout == layout


def test_towers_of_images_count_for_nothing(tmp_path: Path) -> None:
    code = _ROTATE.format(_HALVES) + _ROTATE.format(_NEIGHBOURS).replace("rotate_half", "rotate_half_vision")
    parsed = _inspected(tmp_path, {"configuration_mine.py": _CONFIG, "modeling_mine.py": code}).parsed
    assert parsed is not None
    assert parsed.config.layout == "half"


def test_a_known_class_that_is_extended(tmp_path: Path) -> None:
    code = "class MineForCausalLM(MetaModel, CohereForCausalLM):\n    pass\n"
    inspection = _inspected(tmp_path, {"configuration_mine.py": _CONFIG, "modeling_mine.py": code})
    assert inspection.parsed is not None
    assert inspection.parsed.config.layout == "interleaved"
    assert "modeling_mine.py beside the file, which was read and not run, extends the class of 'cohere'" in _said(
        inspection, "note"
    )


def test_code_that_rotates_nothing(tmp_path: Path) -> None:
    files = {"configuration_mine.py": _CONFIG.replace("rope_theta", "theta"), "modeling_mine.py": "class Mine: ...\n"}
    assert "'mine' has no rotary positions" in _said(_inspected(tmp_path, files), "note")
    files["modeling_mine.py"] = "from .elsewhere import Attention\n"
    assert "the model type is not known to have any" not in _said(_inspected(tmp_path, files), "error")
    assert "'mine' has no rotary positions" not in _said(_inspected(tmp_path, files), "note")


def test_entries_that_its_rotation_alone_reads(tmp_path: Path) -> None:
    code = "class RotaryEmbedding:\n    def grow(self):\n        return self.config.stretch * self.config.rope_theta\n"
    files = {"configuration_mine.py": _CONFIG, "modeling_mine.py": code + _ROTATE.format(_HALVES)}
    assert "modeling_mine.py reads entries that nothing here knows: stretch." in _said(
        _inspected(tmp_path, files), "warning"
    )


@pytest.mark.parametrize(
    "code",
    [
        _ROTATE.format(_HALVES) + _ROTATE.format(_NEIGHBOURS).replace("rotate_half", "rotate_every_two"),
        "def rotate_half(x:",
        "\0",
        "(" * 5000,
        "class Mine(LlamaForCausalLM, CohereForCausalLM): ...\n",
        "class Mine(LlamaForCausalLM): ...\n" + _ROTATE.format(_NEIGHBOURS),
    ],
)
def test_what_cannot_be_told_stays_a_warning(tmp_path: Path, code: str) -> None:
    files = {"configuration_mine.py": _CONFIG, "modeling_mine.py": code}
    assert "the model type 'mine' is not known here: halves are assumed" in _said(
        _inspected(tmp_path, files, rope_theta=1e4), "warning"
    )


def test_code_elsewhere_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "modeling_mine.py").write_text(_ROTATE.format(_NEIGHBOURS), encoding="utf-8")
    (tmp_path / "model").mkdir()
    for named in ("owner/name--modeling_mine.MineModel", "../modeling_mine.MineModel", 7, ["modeling_mine.MineModel"]):
        inspection = _inspected(tmp_path / "model", {}, rope_theta=1e4, auto_map={"AutoModel": named})
        assert "halves are assumed" in _said(inspection, "warning")


def test_code_that_the_file_does_not_name(tmp_path: Path) -> None:
    files = {"model.py": _ROTATE.format(_NEIGHBOURS), "train.py": _ROTATE.format(_HALVES)}
    inspection = _inspected(tmp_path, files, auto_map=None, rope_theta=1e4)
    assert inspection.parsed is not None
    assert inspection.parsed.config.layout == "interleaved"
    assert "model.py beside the file, which was read and not run" in _said(inspection, "note")


def test_rotation_that_the_file_names_and_nothing_more(tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, {}, auto_map=None, position_embedding_type="rotary")
    assert inspection.parsed is not None
    assert "the model type 'mine' is not known here: halves are assumed" in _said(inspection, "warning")


def test_copies_of_classes_and_scalings_of_their_own(tmp_path: Path) -> None:
    named = {"architectures": ["ModernBertForMaskedLM"], "global_rope_theta": 5e5, "local_rope_theta": 1e4}
    files = {"configuration_mine.py": _CONFIG, "modeling_mine.py": _ROTATE.format(_HALVES)}
    parsed = _inspected(tmp_path, files, **named).parsed
    assert parsed is not None
    assert {name: config.base for name, config in parsed.configs.items()} == {
        "full_attention": 5e5,
        "sliding_attention": 1e4,
    }
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    files["modeling_mine.py"] += "class YaRNScalingRotaryEmbedding:\n    pass\n"
    said = "computes by code of its own (YaRNScalingRotaryEmbedding); it is read as the one that transformers has"
    for name in ("rope_scaling", "custom_rope_scaling"):
        scaled = _inspected(tmp_path, files, max_position_embeddings=2048, **{name: yarn})
        assert said in _said(scaled, "warning")
    assert said not in _said(_inspected(tmp_path, files), "warning")


def _project(root: Path, files: dict[str, str], **content: Any) -> Inspection:
    (root / ".git").mkdir()
    place = root / "runs" / "small"
    place.mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (place / "config.json").write_text(json.dumps({"d_model": 256, "n_heads": 4, **content}), encoding="utf-8")
    return inspect_model(place, ask_class=False)


_CLASS = (
    "class RotaryPositions(nn.Module):\n    def forward(self, x):\n        {}\n        return torch.stack((x1, x2))\n"
)


@pytest.mark.parametrize(
    ("code", "layout"),
    [
        (_CLASS.format(_NEIGHBOURS), "interleaved"),
        (_CLASS.format("half = x.shape[-1] // 2\n        x1, x2 = x[..., :half], x[..., half:]"), "half"),
        (_ROTATE.format("x1, x2 = x.chunk(2, dim=-1)"), "half"),
    ],
)
def test_the_code_of_the_project_around_a_file(tmp_path: Path, code: str, layout: str) -> None:
    inspection = _project(tmp_path, {"own/model.py": code, "train.py": "import torch\n"}, rope_theta=5e5)
    assert inspection.parsed is not None
    assert (inspection.parsed.config.layout, inspection.parsed.config.base) == (layout, 5e5)
    said = "It is read by own/model.py of the project around it, which was read and not run, and pairs features in "
    assert f"{said}the layout '{layout}'" in _said(inspection, "warning")


def test_a_project_that_turns_pairs_in_several_ways_says_nothing(tmp_path: Path) -> None:
    files = {"a.py": _CLASS.format(_NEIGHBOURS), "b.py": _ROTATE.format(_HALVES)}
    assert "halves are assumed" in _said(_project(tmp_path, files, rope_theta=5e5), "warning")


@pytest.mark.parametrize(
    "content", [{}, {"rope_theta": 5e5, "rope_style": "neox"}, {"rope_theta": 5e5, "auto_map": {}}]
)
def test_a_project_is_not_asked_in_vain(tmp_path: Path, content: dict[str, Any]) -> None:
    inspection = _project(tmp_path, {"model.py": _CLASS.format(_NEIGHBOURS)}, **content)
    assert inspection.parsed is None or inspection.parsed.config.layout == "half"


def test_code_beside_a_file_that_does_otherwise_is_told(tmp_path: Path) -> None:
    files = {"rope.py": _ROTATE.format(_HALVES), "experts.py": _CLASS.format(_NEIGHBOURS)}
    inspection = _inspected(tmp_path, files, auto_map=None, rope_theta=5e5)
    assert "experts.py beside the file pairs features otherwise than rope.py" in _said(inspection, "warning")


def test_a_class_of_the_name_of_one_with_code_of_its_own_is_read_as_that(tmp_path: Path) -> None:
    """ChatGLM2 without a model type: half of each head turns, which the names of its entries do not say."""
    code = "def apply_rotary_pos_emb(x):\n    return x.reshape(sq, -1, np, rot_dim // 2, 2)\n"
    (tmp_path / "modeling_chatglm.py").write_text(code, encoding="utf-8")
    content = {"architectures": ["ChatGLMModel"], "kv_channels": 128, "num_layers": 2, "num_attention_heads": 32}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    parsed = inspect_model(tmp_path, ask_class=False).parsed
    assert parsed is not None
    assert (parsed.config.rotary_dim, parsed.config.head_dim, parsed.config.layout) == (64, 128, "interleaved")


def test_code_around_a_file_that_is_known_by_its_entries_alone(tmp_path: Path) -> None:
    """Names as in Llama's first code, which pairs neighbours, and code that turns halves."""
    llama = {"dim": 256, "n_layers": 2, "norm_eps": 1e-5, "rope_theta": 1e4, "d_model": None}
    inspection = _project(tmp_path, {"model.py": _ROTATE.format(_HALVES)}, **llama)
    assert inspection.parsed is not None
    assert inspection.parsed.config.layout == "interleaved"
    assert "model.py around it pairs features in the layout 'half'" in _said(inspection, "warning")
    (tmp_path / "model.py").write_text(_ROTATE.format(_NEIGHBOURS), encoding="utf-8")
    assert not _said(inspect_model(tmp_path / "runs" / "small", ask_class=False), "warning")
