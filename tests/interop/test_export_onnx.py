"""Exported folders, run by onnxruntime."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from small_models import build, padded

from locant.errors import ConfigError
from locant.interop import export_onnx
from locant.interop.onnx_export import CachedDecoderGraph, DecoderGraph, EncoderGraph
from locant.models import DecodingSettings, Transformer
from locant.positions import SCHEMES, PositionScheme
from locant.text import BOS, EOS, PAD
from locant.translation import Translator

SENTENCES = ["kalo mir", "tenbu shi gra no", "zap", "üm ☃ ka", "ka ka ka ka ka ka ka ka"]
# Exported and run, as are models of the paper's kind with sinusoids and with learned positions in
# test_export_onnx_languages.py; the others are compared as torch modules, which the exporter translates one operation
# after the other.
EXPORTED = {
    "position": "rotary",
    "position_options": {"layout": "interleaved", "rotary_dim": 4},
    "norm": "pre",
    "feed_forward": "swiglu",
    "kv_heads": 2,
    "share_embeddings": False,
    "tie_output": False,
}
OPTIONS = {
    "sinusoidal": {"dialect": "tensor2tensor", "start": 2},
    "learned": {"max_positions": 40},
    "rotary": {"scaling": {"kind": "yarn", "factor": 4.0, "original_length": 32}},
    "axial-rotary": {"grid": [8, 8]},
    "multimodal-rotary": {"sections": [2, 1, 1]},
}


def batch(model: Transformer, target_length: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Source ids of unequal lengths, their lengths and mask, and target ids."""
    torch.manual_seed(1)
    source, lengths = padded([[*torch.randint(4, 60, (count,)).tolist(), EOS] for count in (3, 9, 6)])
    target = torch.randint(4, 60, (3, target_length))
    target[:, 0] = BOS
    return source, lengths, (source != PAD).long(), target


class Session:
    """A graph by its file, called with tensors by name."""

    def __init__(self, path: Path) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.inputs = {given.name: given.shape for given in self.session.get_inputs()}
        self.outputs = {given.name: given.shape for given in self.session.get_outputs()}

    def __call__(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(self.outputs, self.session.run(None, inputs), strict=True))


def check_logits(
    folder: Path,
    model: Transformer,
    source: torch.Tensor,
    lengths: torch.Tensor,
    target: torch.Tensor,
    parts: tuple[int, ...],
) -> None:
    """Compare logits with the model's: in one pass, and in parts of so many target tokens with the cache."""
    encoder, decoder, cached = (
        Session(folder / f"{name}_model.onnx") for name in ("encoder", "decoder", "decoder_with_past")
    )
    with torch.no_grad():
        expected = model(source, lengths, target).numpy()
    mask = (torch.arange(source.shape[1]) < lengths[:, None]).long().numpy()
    state = encoder(input_ids=source.numpy(), attention_mask=mask)
    state["encoder_hidden_states"] = state.pop("last_hidden_state")
    given = {"encoder_attention_mask": mask}
    whole = decoder(input_ids=target.numpy(), **given, **state)["logits"]
    np.testing.assert_allclose(whole, expected, atol=1e-4)

    logits, graph = [], decoder
    for new in target.split(parts, dim=1):
        found = graph(input_ids=new.numpy(), **given, **state)
        logits.append(found.pop("logits"))
        state |= {name.replace("present", "past_key_values"): value for name, value in found.items()}
        state.pop("encoder_hidden_states", None)
        graph = cached
    np.testing.assert_allclose(np.concatenate(logits, axis=1), expected, atol=1e-4)
    assert expected.std() > 0.1


def run_example(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the example of a folder where neither Locant nor torch can be imported."""
    alone = (
        "import runpy, sys; sys.modules.update(dict.fromkeys(['torch', 'locant', 'transformers'])); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", alone, str(folder / "translate.py"), *arguments]
    environment = {**os.environ, "PYTHONUTF8": "1"}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False)


@pytest.fixture(scope="module")
def exported(separate, tmp_path_factory):
    """A model with sharp enough choices, its translator and its folder."""
    model = build(separate, encoder_layers=1, **EXPORTED)
    translator = Translator(model, separate, DecodingSettings(beam=1, max_length_extra=19))
    root = tmp_path_factory.mktemp("onnx")
    translator.save_pretrained(root / "run")
    export_onnx(root / "run", root / "onnx")
    return translator, root / "onnx"


@pytest.mark.slow
def test_logits_are_equal_in_one_pass_and_with_the_cache(exported):
    translator, folder = exported
    source, lengths, _, target = batch(translator.model)
    check_logits(folder, translator.model, source, lengths, target, (1, 1, 3, 1))
    # A single sentence of a single token: free axes must not have become constants.
    check_logits(folder, translator.model, torch.tensor([[EOS]]), torch.tensor([1]), torch.tensor([[BOS]]), (1,))


@pytest.mark.slow
def test_files_are_valid_and_named_as_optimum_names_them(exported):
    translator, folder = exported
    last = translator.model.config.decoder_layers - 1
    files = {"README.md", "config.json", "source.spm", "target.spm", "translate.py"}
    graphs = {f"{name}_model.onnx" for name in ("encoder", "decoder", "decoder_with_past")}
    assert {path.name for path in folder.iterdir()} == files | graphs
    for name in graphs:
        onnx.checker.check_model(str(folder / name), full_check=True)
    cached = Session(folder / "decoder_with_past_model.onnx")
    assert list(cached.inputs)[:4] == [
        "input_ids",
        "encoder_attention_mask",
        "past_key_values.0.decoder.key",
        "past_key_values.0.decoder.value",
    ]
    assert cached.inputs[f"past_key_values.{last}.encoder.value"] == ["batch", 2, "source", 8]
    assert list(cached.outputs)[-1] == f"present.{last}.decoder.value"


@pytest.mark.slow
def test_the_example_translates_greedily_with_onnxruntime_alone(exported):
    translator, folder = exported
    done = run_example(folder, *SENTENCES, " ")
    assert done.stdout.splitlines() == [*translator.translate(SENTENCES), ""], done.stderr


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", [name for name, scheme in SCHEMES.items() if scheme.prepare is PositionScheme.prepare])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_graphs_of_every_scheme_give_the_models_logits(name, norm, joint):
    require_graphs_equal(build(joint, position=name, position_options=OPTIONS.get(name, {}), norm=norm))


TODAY = {
    "grouped": {"kv_heads": 1, "head_size": 6, "qk_norm": "head", "norm_kind": "rms", "bias": False, "norm": "both"},
    "output": {"norm": "output", "qk_norm": "all", "norm_epsilon": 1e-3, "feed_forward": "geglu_tanh"},
    "pattern": {"pattern": "RS", "kinds": {"R": {"position": "rotary"}, "S": {"position": "sinusoidal"}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [*TODAY.values(), {"position": "cope"}], ids=[*TODAY, "cope"])
def test_written_graphs_give_the_models_logits(changes, joint, tmp_path):
    model = build(joint, **changes)
    Translator(model, joint).save_pretrained(tmp_path / "run")
    export_onnx(tmp_path / "run", tmp_path / "onnx")
    source, lengths, _, target = batch(model)
    check_logits(tmp_path / "onnx", model, source, lengths, target, (4, 1, 1))


@pytest.mark.parametrize("changes", TODAY.values(), ids=TODAY)
def test_graphs_of_todays_blocks_give_the_models_logits(changes, joint):
    require_graphs_equal(build(joint, **changes))


def require_graphs_equal(model):
    source, lengths, mask, target = batch(model)
    with torch.no_grad():
        expected = model(source, lengths, target)
        memory = EncoderGraph(model)(source, mask)
        logits, _ = DecoderGraph(model)(target, memory, mask)
        first, past = DecoderGraph(model)(target[:, :4], memory, mask)
        rest, _ = CachedDecoderGraph(model)(target[:, 4:], mask, past)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.cat((first, rest), dim=1), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rotary", {"scaling": {"kind": "dynamic", "factor": 2.0, "original_length": 32}}),
        ("data-dependent-alibi", {}),
    ],
)
def test_what_no_graph_computes_is_refused(name, options, joint, tmp_path):
    Translator(build(joint, position=name, position_options=options), joint).save_pretrained(tmp_path / "run")
    with pytest.raises(ConfigError, match="position"):
        export_onnx(tmp_path / "run", tmp_path / "other")
    assert not (tmp_path / "other").exists()
