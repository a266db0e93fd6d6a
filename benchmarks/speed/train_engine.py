"""One engine's training speed, alone in its process: prints a JSON object.

Every engine trains the same shape on the same tokens: label-smoothed cross-entropy (0.1), Adam (fused), dropout 0.1,
bfloat16 where the processor multiplies it fast, else float32.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable

import torch
from shapes import LENGTH, SENTENCES, SHAPES, Shape
from torch import Tensor, nn

from locant.runtime import has_fast_bfloat16, keep_freed_memory

Step = Callable[[Tensor, Tensor], None]
PRECISION = torch.bfloat16 if has_fast_bfloat16(torch.device("cpu")) else torch.float32
PAD = 0  # never in these batches


def plain_step(model: nn.Module, logits: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """Return the training step that a user writes around a model that returns logits."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=PAD)
    model.train()

    def step(source: Tensor, target: Tensor) -> None:
        with torch.autocast("cpu", PRECISION, enabled=torch.float32 != PRECISION):
            out = logits(source, target[:, :-1])
        loss(out.float().flatten(0, 1), target[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def locant(shape: Shape) -> Step:
    """Locant's own step, as in `locant train`."""
    from locant.text import Batch
    from locant.training.trainer import TrainingStep
    from locant.transformer import Transformer, TransformerConfig

    keep_freed_memory()
    config = TransformerConfig(
        source_vocab_size=shape.vocabulary,
        target_vocab_size=shape.vocabulary,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        heads=shape.heads,
        dropout=0.1,
    )
    model = Transformer(config).train()
    training = TrainingStep(model, 0.1, PRECISION)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def step(source: Tensor, target: Tensor) -> None:
        tokens = target.shape[0] * (target.shape[1] - 1)
        lengths = torch.full((len(source),), source.shape[1])
        batch = Batch(
            source, lengths, target[:, :-1], target[:, 1:], lengths, source_tokens=source.numel(), target_tokens=tokens
        )
        loss, _ = training(batch)
        (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def transformers(shape: Shape) -> Step:
    """MarianMTModel of Hugging Face transformers."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        dropout=0.1,
        pad_token_id=PAD,
        activation_function="relu",
        scale_embedding=True,
    )
    model = MarianMTModel(config)
    return plain_step(model, lambda source, target: model(input_ids=source, decoder_input_ids=target).logits)


def torch_nn(shape: Shape) -> Step:
    """torch.nn.Transformer with embeddings, learned positions and a tied projection around it."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
            self.positions = nn.Embedding(512, shape.d_model)
            self.transformer = nn.Transformer(
                shape.d_model, shape.heads, shape.layers, shape.layers, shape.d_ff, dropout=0.1, batch_first=True
            )

        def embed(self, ids: Tensor) -> Tensor:
            return self.embedding(ids) * shape.d_model**0.5 + self.positions.weight[: ids.shape[1]]

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            out = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
            return out @ self.embedding.weight.to(out.dtype).T

    model = Model()
    return plain_step(model, model)


def x_transformers(shape: Shape) -> Step:
    """XTransformer of x-transformers."""
    from x_transformers import XTransformer

    sides = {
        f"{side}_{name}": value
        for side in ("enc", "dec")
        for name, value in {
            "num_tokens": shape.vocabulary,
            "depth": shape.layers,
            "heads": shape.heads,
            "attn_dim_head": shape.d_model // shape.heads,
            "ff_mult": shape.d_ff // shape.d_model,
            "max_seq_len": 512,
            "layer_dropout": 0.0,
            "ff_dropout": 0.1,
            "emb_dropout": 0.1,
            "attn_flash": True,
        }.items()
    }
    model = XTransformer(dim=shape.d_model, tie_token_emb=True, **sides)

    def logits(source: Tensor, target: Tensor) -> Tensor:
        memory = model.encoder(source, return_embeddings=True)
        return model.decoder.net(target, context=memory)

    return plain_step(model, logits)


def joeynmt(shape: Shape) -> Step:
    """The Transformer of JoeyNMT, with its own label smoothing."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    side = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.heads,
        "hidden_size": shape.d_model,
        "ff_size": shape.d_ff,
        "dropout": 0.1,
        "embeddings": {"embedding_dim": shape.d_model, "scale": True},
    }
    special = type(
        "Special",
        (),
        {
            "unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None,
            "unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": None, "lang_tags": [],
        },
    )  # fmt: skip
    vocabulary = Vocabulary([f"t{index}" for index in range(shape.vocabulary - 4)], special)
    config = {"encoder": side, "decoder": dict(side), "tied_embeddings": True, "tied_softmax": True}
    model = build_model(config, vocabulary, vocabulary).train()
    model.loss_function = ("crossentropy", 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step(source: Tensor, target: Tensor) -> None:
        with torch.autocast("cpu", PRECISION, enabled=torch.float32 != PRECISION):
            loss, *_ = model(
                return_type="loss",
                src=source,
                src_mask=torch.ones(len(source), 1, source.shape[1], dtype=torch.bool),
                src_length=torch.full((len(source),), source.shape[1]),
                trg_input=target[:, :-1],
                trg=target[:, 1:],
                trg_mask=(target[:, :-1] != 1).unsqueeze(1),
            )
        (loss / target[:, 1:].numel()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


ENGINES: dict[str, Callable[[Shape], Step]] = {
    "locant": locant,
    "transformers": transformers,
    "torch.nn.Transformer": torch_nn,
    "x-transformers": x_transformers,
    "joeynmt": joeynmt,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    torch.manual_seed(0)
    step = ENGINES[arguments.engine](shape)
    generator = torch.Generator().manual_seed(1)

    def batch() -> tuple[Tensor, Tensor]:
        sides = torch.randint(4, shape.vocabulary, (2, SENTENCES, LENGTH + 1), generator=generator)
        return sides[0, :, 1:].contiguous(), sides[1]

    for _ in range(2):
        step(*batch())
    times: list[float] = []
    while len(times) < 3 or sum(times) < arguments.seconds:
        source, target = batch()
        start = time.perf_counter()
        step(source, target)
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    result = {
        "tokens_per_second": SENTENCES * LENGTH / seconds,
        "gigaflops": shape.training_flops(SENTENCES, LENGTH) / seconds / 1e9,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "precision": str(PRECISION).removeprefix("torch."),
        "steps": len(times),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
