"""Locant and its peers with a model of the same shape to train, each as its users do, and PyTorch in its best form.

All have label-smoothed cross-entropy, Adam (fused) and dropout 0.1; bfloat16 where the processor multiplies it fast,
else float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from shapes import Shape, locant_model, marian_model
from torch import Tensor, nn

from locant.runtime import has_fast_bfloat16, keep_freed_memory, limit_onednn_cache
from locant.text import EOS, PAD

_SDPA = nn.functional.scaled_dot_product_attention
PRECISION = torch.bfloat16 if has_fast_bfloat16(torch.device("cpu")) else torch.float32


@dataclass
class TrainingEngine:
    """A model in training.

    Attributes:
        model: What learns.
        loss: From source [B, S] and target [B, T + 1] (begin mark first), int64, padded on the right, and the label
            smoothing to the summed loss in nats.
        clips: Whether gradients are clipped to a norm of 1, as `locant train` does.
    """

    model: nn.Module
    loss: Callable[[Tensor, Tensor, float], Tensor]
    clips: bool = False

    def __post_init__(self) -> None:
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def step(self, source: Tensor, target: Tensor) -> int:
        """Learn from a batch, and return the number of target tokens."""
        tokens = int((target[:, 1:] != PAD).sum())
        (self.loss(source, target, 0.1) / tokens).backward()
        if self.clips:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return tokens

    @torch.no_grad()
    def negative_log_likelihood(self, source: Tensor, target: Tensor) -> float:
        """Return the sum over the target tokens, in nats."""
        self.model.eval()
        total = float(self.loss(source, target, 0.0))
        self.model.train()
        return total


def float32_attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Tensor:
    """PyTorch's attention, in float32 below 512 tokens, where its bfloat16 is slower."""
    if q.dtype != torch.bfloat16 or max(q.shape[2], k.shape[2]) >= 512:
        return _SDPA(q, k, v, *rest, **options)
    with torch.autocast("cpu", enabled=False):
        return _SDPA(q.float(), k.float(), v.float(), *rest, **options).bfloat16()


def plain(model: nn.Module, logits: Callable[[Tensor, Tensor], Tensor]) -> TrainingEngine:
    """Return the training that a user writes around a model that returns logits."""

    def loss(source: Tensor, target: Tensor, smoothing: float) -> Tensor:
        with torch.autocast("cpu", PRECISION, enabled=torch.float32 != PRECISION):
            out = logits(source, target[:, :-1])
        return nn.functional.cross_entropy(
            out.float().flatten(0, 1), target[:, 1:].flatten(), label_smoothing=smoothing, ignore_index=PAD,
            reduction="sum",
        )  # fmt: skip

    return TrainingEngine(model, loss)


def locant(shape: Shape, padded: bool, **options: Any) -> TrainingEngine:
    """Locant's own step, as in `locant train`; options are its model's."""
    from locant.text import Batch
    from locant.training import TranslatorLoss

    keep_freed_memory()
    limit_onednn_cache()
    model = locant_model(shape, dropout=0.1, **options)

    def loss(source: Tensor, target: Tensor, smoothing: float) -> Tensor:
        given, wanted = target[:, :-1].masked_fill(target[:, :-1] == EOS, PAD), target[:, 1:]
        lengths = (source != PAD).sum(1), (wanted != PAD).sum(1)
        tokens = (int(lengths[0].sum()), int(lengths[1].sum()))
        batch = Batch(source, lengths[0], given, wanted, lengths[1], source_tokens=tokens[0], target_tokens=tokens[1])
        return TranslatorLoss(model, smoothing, PRECISION)(batch)[0]

    return TrainingEngine(model, loss, clips=True)


def transformers(shape: Shape, padded: bool) -> TrainingEngine:
    """MarianMTModel of Hugging Face transformers."""
    model = marian_model(shape, pad_token_id=PAD, dropout=0.1)

    def logits(source: Tensor, target: Tensor) -> Tensor:
        # The target's padding needs no mask: it is behind all that is learned from.
        mask = (source != PAD).long() if padded else None
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits

    return plain(model, logits)


def torch_nn(shape: Shape, padded: bool) -> TrainingEngine:
    """torch.nn.Transformer with embeddings, learned positions and a tied projection around it, in its best form.

    Dropout and norms are where Locant has them, short texts attend in float32, and freed memory is kept.
    """
    keep_freed_memory()
    limit_onednn_cache()
    nn.functional.scaled_dot_product_attention = float32_attention
    # Its short cut for evaluation does not know autocast (torch 2.13).
    torch.backends.mha.set_fastpath_enabled(False)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
            self.positions = nn.Embedding(512, shape.d_model)
            for table in (self.embedding, self.positions):
                nn.init.normal_(table.weight, std=shape.d_model**-0.5)
            self.dropout = nn.Dropout(0.1)
            self.transformer = nn.Transformer(
                shape.d_model, shape.heads, shape.layers, shape.layers, shape.d_ff, dropout=0.1, batch_first=True
            )
            for stack in (self.transformer.encoder, self.transformer.decoder):
                stack.norm = None
                for layer in stack.layers:
                    layer.dropout.p = layer.self_attn.dropout = 0.0  # inside the feed-forward, and of weights
                    if stack is self.transformer.decoder:
                        layer.multihead_attn.dropout = 0.0

        def embed(self, ids: Tensor) -> Tensor:
            return self.dropout(self.embedding(ids) * shape.d_model**0.5 + self.positions.weight[: ids.shape[1]])

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            absent = source == PAD if padded else None
            out = self.transformer(
                self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
                src_key_padding_mask=absent, memory_key_padding_mask=absent,
            )  # fmt: skip
            return out @ self.embedding.weight.to(out.dtype).T

    model = Model()
    return plain(model, model)


TRAINING_ENGINES: dict[str, Callable[[Shape, bool], TrainingEngine]] = {
    "locant": locant,
    "transformers": transformers,
    "torch.nn.Transformer": torch_nn,
}
