"""Model folders of which a file is damaged or means harm: one sentence, before room for a model is taken."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import changed, mutated_bytes
from tiny_models import tiny_model

from locant.errors import LocantError
from locant.models import DecodingSettings, load_model_folder
from locant.text import TokenizerPair
from locant.translation import Translator

UNHURRIED = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def folder(tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "model"
    model = tiny_model(tokenizers.source.vocab_size, seed=3, position="t5")
    Translator(model, tokenizers, DecodingSettings(beam=2, max_length_extra=2)).save_pretrained(path)
    return path


def try_to_translate(folder: Path) -> None:
    """Translate, or fail in a sentence."""
    said = "translated"
    try:
        Translator.from_pretrained(folder, device="cpu").translate("alpha beta", batch_tokens=64)
    except LocantError as error:
        said = str(error)
    assert said.encode()


@pytest.fixture(scope="module")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bytes], Path]:
    """Returns the folder in which one file has another content."""
    copy = tmp_path_factory.mktemp("copies") / "model"
    copytree(folder, copy)

    def write(name: str, content: bytes) -> Path:
        for file in folder.iterdir():
            if (copy / file.name).read_bytes() != file.read_bytes():
                (copy / file.name).write_bytes(file.read_bytes())
        (copy / name).write_bytes(content)
        return copy

    return write


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer.joint.model", "model.safetensors"])
@UNHURRIED
@given(data=st.data())
def test_any_damage_of_bytes(name: str, data: st.DataObject, folder: Path, written) -> None:
    try_to_translate(written(name, data.draw(mutated_bytes((folder / name).read_bytes()))))


SIZES = ["encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "source_vocab_size", "target_vocab_size"]


@pytest.fixture
def little_memory():
    """Memory for a small model, and not for a large one."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 500_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("size", [999, 65_536, 10**6, 10**12, 10**30])
@pytest.mark.parametrize("key", SIZES)
@pytest.mark.usefixtures("little_memory")
def test_declared_sizes_are_compared_with_the_file(key: str, size: int, folder: Path, written) -> None:
    config = json.loads((folder / "config.json").read_text())
    for where, value in (("model", size), ("model", -size)):
        found = written("config.json", json.dumps(changed(config, (where, key), value)).encode())
        for device in ("cpu", "meta"):
            with pytest.raises(LocantError):
                load_model_folder(found, device=device)
