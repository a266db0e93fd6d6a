"""Does the jobs of the README with the installed package and its kernels, in small: in an empty folder, no compiler."""

import json
import random
import re
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from starlette.testclient import TestClient

import locant
from locant.cli import main
from locant.kernels.library import LIBRARY, choose
from locant.server import ModelPlace, ServerSettings, build_app, load_models

README = Path(__file__).parents[2] / "README.md"
print(locant.__file__)  # noqa: T201
assert choose() is not None
assert LIBRARY.usable()


def run(line: str) -> None:
    """Run a command of Locant; it must succeed."""
    assert main(line.split()) == 0, line


# In your model
(code,) = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
namespace: dict[str, torch.Tensor] = {}
exec(compile(code, str(README), "exec"), namespace)
assert namespace["y"].shape == (2, 8, 128, 64)

# Compare schemes
run("compare --task copy --schemes none,rotary,alibi --steps 2 --seeds 1 -o copy")
assert "alibi" in Path("copy/results.md").read_text(encoding="utf-8")

# Train and serve a translator
draw = random.Random(0)
words = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "dogs": "Hunde", "cats": "Katzen"}
lines = [[draw.choice(list(words)) for _ in range(draw.randint(2, 6))] for _ in range(200)]
Path("train.en").write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
Path("train.de").write_text("".join(" ".join(words[word] for word in line) + "\n" for line in lines), encoding="utf-8")
run(
    "train --source train.en --target train.de --source-language en --target-language de --steps 3 --output en-de "
    "model.preset=tiny cleaning.duplicates=false"
)
run("evaluate en-de")
run("translate en-de dogs --engine compiled")
run("report en-de --output en-de.html")
models, _ = load_models([ModelPlace("en-de", source="en", target="de")], engine="auto")
with TestClient(build_app(models, ServerSettings())) as client:
    answer = client.post("/translate", json={"q": "two dogs", "source": "en", "target": "de"})
    assert answer.status_code == 200, answer.text

# Read and extend a model: a Llama of random weights
sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 64, **sizes}
Path("llama").mkdir()
Path("llama/config.json").write_text(json.dumps(config), encoding="utf-8")
weights = {"model.embed_tokens.weight": (50, 32), "model.norm.weight": (32,), "lm_head.weight": (50, 32)}
layer = {f"self_attn.{name}_proj": (32, 32) for name in "qkvo"}
layer |= {f"mlp.{name}_proj": (32, 32) for name in ("gate", "up", "down")}
weights |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
weights |= {f"model.layers.0.{name}_layernorm.weight": (32,) for name in ("input", "post_attention")}
save_file({name: torch.randn(shape) for name, shape in weights.items()}, "llama/model.safetensors", {"format": "pt"})
run("inspect llama")
run("extend llama --to 256 -o llama-256")
assert json.loads(Path("llama-256/config.json").read_text(encoding="utf-8"))["max_position_embeddings"] == 256
print("the jobs of the README are done")  # noqa: T201
sys.stdout.flush()
