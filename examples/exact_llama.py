"""Shows what exact rotary angles change in a model of Hugging Face's transformers, far into a text.

Run it with ``python examples/exact_llama.py`` for a small random Llama, or name a folder of a model. It prints by how
much logits change when a text of 32 tokens is moved to later positions, which should be nothing.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from locant.positions import huggingface


def main() -> None:
    """Compare the model's own rotation with Locant's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", help="a folder; without it a small random model is made")
    options = parser.parse_args()
    torch.manual_seed(1)
    if options.model:
        model = AutoModelForCausalLM.from_pretrained(options.model, torch_dtype=torch.float32).eval()
    else:
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=100, **sizes)).eval()
    tokens = torch.randint(model.config.vocab_size, (1, 32))

    @torch.no_grad()
    def change(position: int) -> float:
        logits = [model(tokens, position_ids=start + torch.arange(32)[None]).logits for start in (0, position)]
        return float((logits[1] - logits[0]).abs().max())

    print("position   transformers   Locant")
    for position in (1_000, 100_000, 10_000_000):
        theirs = change(position)
        with huggingface.install(model):
            print(f"{position:>10,} {theirs:>12.1e} {change(position):>10.1e}")


if __name__ == "__main__":
    main()
