"""nanoGPT with rotary positions, as docs/own-model.md says, against the model of that page with the same weights.

    make nanogpt NANOGPT=path/to/nanoGPT

Takes seconds. The file is read, changed in memory and run; it is not part of Locant.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from pages import ROOT, blocks

CHANGES = (
    ("self.n_head = config.n_head\n", "self.rope = Rotary(config.n_embd // config.n_head)\n"),
    ("        # causal self-attention;", "        q, k = self.rope(q, k, torch.arange(T, device=x.device))\n"),
)
REMOVED = (
    "            wpe = nn.Embedding(config.block_size, config.n_embd),\n",
    "            n_params -= self.transformer.wpe.weight.numel()\n",
    "        assert t <= self.config.block_size",
    "        pos_emb = self.transformer.wpe(pos)",
)
NAMES = {
    "transformer.wte": "embedding",
    "transformer.ln_f": "norm",
    ".ln_1": ".before_attention",
    ".ln_2": ".before_mlp",
    ".attn.c_attn": ".query_key_value",
    ".attn.c_proj": ".merge",
    ".mlp.c_fc": ".mlp.0",
    ".mlp.c_proj": ".mlp.2",
    "transformer.h.": "blocks.",
}


def changed(source: str) -> str:
    """Return nanoGPT's file with rotary positions in the place of its table."""
    for line, added in CHANGES:
        assert source.count(line) == 1, line
        indented = " " * 8 + added.lstrip()
        source = source.replace(line, line + indented if line.endswith("\n") else indented + line)
    for start in REMOVED:
        (line,) = [line for line in source.splitlines(keepends=True) if line.startswith(start)]
        indent = line[: len(line) - len(line.lstrip())]
        source = source.replace(line, f"{indent}pass\n" if "numel" in line else "")
    assert source.count("tok_emb + pos_emb") == 1
    return "from locant.positions import Rotary\n" + source.replace("tok_emb + pos_emb", "tok_emb")


def of_the_page() -> dict[str, Any]:
    """Return the names that the page defines, up to its model."""
    module = types.ModuleType("own_model")
    sys.modules[module.__name__] = module
    for block in blocks(ROOT / "docs" / "own-model.md"):
        if block.language == "python":
            exec(block.code, module.__dict__)
            if "SmallGPT" in module.__dict__:
                return module.__dict__
    raise LookupError("docs/own-model.md has no SmallGPT")


def main() -> None:
    nanogpt = types.ModuleType("nanogpt")
    sys.modules[nanogpt.__name__] = nanogpt
    exec(compile(changed(Path(sys.argv[1], "model.py").read_text()), "model.py", "exec"), nanogpt.__dict__)
    page = of_the_page()
    sizes = page["Sizes"]()
    config = nanogpt.GPTConfig(
        block_size=8, vocab_size=sizes.vocabulary, n_layer=sizes.layers, n_head=sizes.heads, n_embd=sizes.width
    )
    torch.manual_seed(0)
    theirs, ours = nanogpt.GPT(config).eval(), page["SmallGPT"](sizes).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.2)
    weights = theirs.state_dict()
    del weights["lm_head.weight"]  # that of the embedding
    for old, new in NAMES.items():
        weights = {name.replace(old, new): weight for name, weight in weights.items()}
    ours.load_state_dict(weights)

    tokens = torch.randint(sizes.vocabulary, (2, 40))  # longer than its block_size
    expected = ours(tokens)
    compiled = torch.compile(theirs, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(theirs, (tokens, tokens)).module()
    for what, model in (("as it is", theirs), ("compiled in one graph", compiled), ("exported", exported)):
        difference = (model(tokens, tokens)[0] - expected).abs().max().item()
        print(f"nanoGPT {what}: logits of size {expected.abs().max().item():.0f} differ by {difference:.1e}")
        assert difference < 1e-4 * expected.abs().max().item()


if __name__ == "__main__":
    main()
