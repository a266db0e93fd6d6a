"""Losses of translators and language models for a batch: the modules that DDP and FSDP wrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from locant.kernels.projected_cross_entropy import CHUNK_BYTES, projected_cross_entropy
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.language_model import LanguageModel
from locant.models.transformer import Transformer
from locant.text import BOS, PAD, Batch
from locant.training.settings import TrainingSettings, training_precision


class TranslatorLoss(nn.Module):
    """Cross-entropy of the target sentences of a batch.

    Args:
        model: The translator.
        label_smoothing: Probability mass spread evenly over the vocabulary, from 0 to below 1.
        precision: Of the products.
        r_drop: Weight of the divergence between two passes with different dropout; with 0 there is one pass.
        guided_alignment: Weight of the loss of a head that should attend to what batches link with each target token
            (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models", equations 4 and 5);
            for a :class:`~locant.models.Transformer`, in training alone.
    """

    @classmethod
    def of(cls, model: EncoderDecoder[Any], settings: TrainingSettings, device: torch.device) -> Self:
        """Return the loss that settings ask for on a device."""
        return cls(
            model,
            settings.label_smoothing,
            training_precision(settings, device),
            r_drop=settings.r_drop,
            guided_alignment=settings.guided_alignment,
        )

    def __init__(
        self,
        model: EncoderDecoder[Any],
        label_smoothing: float,
        precision: torch.dtype,
        *,
        r_drop: float = 0.0,
        guided_alignment: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.precision = precision
        self.r_drop = r_drop
        self.guided_alignment = guided_alignment

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed smoothed loss and the summed negative log-likelihood, float32 scalars in nats."""
        links = batch.links if self.guided_alignment and self.training else None
        twice = self.r_drop and self.training
        source, lengths, target = (
            torch.cat((rows, rows)) if twice else rows
            for rows in (batch.source, batch.source_lengths, batch.target_input)
        )
        with torch.autocast(batch.source.device.type, self.precision, enabled=self.precision != torch.float32):
            if links is None:
                hidden, aligned = self.model.hidden(source, lengths, target), None
            else:
                assert isinstance(self.model, Transformer)
                hidden, aligned = self.model.hidden_and_alignment(source, lengths, target)
        # A norm may have ended in float32, which would make the largest product of all the slowest.
        hidden, weight, labels = hidden.to(self.precision), self.model.output.weight, batch.target_output
        if getattr(self.model.config, "start_is_padding", False):  # else the softmax would count padding twice
            weight, labels = torch.cat((weight[:BOS], weight[BOS + 1 :])), labels - (labels > BOS).long()
        if twice:
            one, other = hidden.chunk(2)
            loss, likelihood = projected_r_drop(
                one, other, weight, labels, smoothing=self.label_smoothing, alpha=self.r_drop, ignore=PAD
            )
        else:
            loss, likelihood = projected_cross_entropy(
                hidden, weight, labels, smoothing=self.label_smoothing, ignore=PAD
            )
        if links is not None and aligned is not None:
            passes = aligned.chunk(2) if twice else (aligned,)
            losses = [alignment_loss(one, links) for one in passes]
            loss = loss + self.guided_alignment * torch.stack(losses).mean()
        return loss, likelihood


def alignment_loss(log_weights: Tensor, links: Tensor) -> Tensor:
    """Return the cross-entropy of attention with links, summed over the target tokens that have some.

    Args:
        log_weights: Logarithms of the weights with which target tokens attend to source tokens, ``[B, T, S]``.
        links: Row, target token and source token of each, ``[N, 3]``; those of a target token count alike.
    """
    row, target, source = links.unbind(1)
    which = row * log_weights.shape[1] + target
    counts = torch.bincount(which, minlength=log_weights.shape[0] * log_weights.shape[1])
    return -(log_weights[row, target, source] / counts[which]).sum()


@dataclass(frozen=True)
class LanguageModelBatch:
    """Rows of ids for a language model.

    Attributes:
        ids: Integer ids ``[B, L]``, padded on the right with ``PAD``.
        labels: The ids that follow ``[B, L]``; ``PAD`` where nothing is to be learned.
        tokens: Number of ids that are not padding.
    """

    ids: Tensor
    labels: Tensor
    tokens: int

    @property
    def target_tokens(self) -> int:
        """Number of labels that count in the loss."""
        return int((self.labels != PAD).sum())

    def to(self, device: torch.device | str) -> LanguageModelBatch:
        """Return the batch on a device."""
        return LanguageModelBatch(self.ids.to(device), self.labels.to(device), self.tokens)


class LanguageModelLoss(nn.Module):
    """Cross-entropy of the labels of a batch, in float32.

    Args:
        model: The language model.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: LanguageModelBatch) -> tuple[Tensor, Tensor]:
        """Return the summed negative log-likelihood twice, with gradients and without: float32 scalars in nats."""
        hidden = self.model.hidden(batch.ids)
        return projected_cross_entropy(hidden, self.model.output.weight, batch.labels, smoothing=0.0, ignore=PAD)


def projected_r_drop(
    one: Tensor, other: Tensor, weight: Tensor, labels: Tensor, *, smoothing: float, alpha: float, ignore: int
) -> tuple[Tensor, Tensor]:
    """Return the summed R-Drop loss of two passes over the same batch, and the plain negative log-likelihood.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", arXiv:2106.14448, equations 2 to 4.

    Half of the paper's loss, so that it is of the size of a single pass: the mean of the two label-smoothed
    cross-entropies plus ``alpha / 4 * (KL(p || q) + KL(q || p))`` for each token.

    Args:
        one: Output of the decoder in the first pass ``[B, T, E]``, float32 or bfloat16.
        other: That of the second.
        weight: Matrix of the output projection ``[V, E]``, float32.
        labels: Integer ids of the right next tokens ``[B, T]``.
        smoothing: Probability mass spread evenly over the vocabulary, 0 <= smoothing < 1.
        alpha: Weight of the divergence; the paper has 5 for translation.
        ignore: Id of padding, whose rows do not count.

    Returns:
        Two float32 scalars in nats, summed over the tokens: the loss, with gradients, and the mean of the two negative
        log-likelihoods, without.
    """
    rows = (labels.flatten() != ignore).nonzero().squeeze(1)
    labels = labels.flatten().index_select(0, rows)
    one, other = (hidden.flatten(0, 1).index_select(0, rows) for hidden in (one, other))

    def sums(one: Tensor, other: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and negative log-likelihood of some rows."""
        p, q = (torch.log_softmax((hidden @ matrix.T).float(), dim=-1) for hidden in (one, other))
        likely = p.gather(1, labels[:, None]) + q.gather(1, labels[:, None])
        even = (p.sum(dtype=torch.float64) + q.sum(dtype=torch.float64)) / len(weight)
        divergence = ((p.exp() - q.exp()) * (p - q)).sum(dtype=torch.float64)
        nll = -likely.sum(dtype=torch.float64) / 2
        return (1 - smoothing) * nll - smoothing / 2 * even + alpha / 4 * divergence, nll.detach()

    with torch.autocast(one.device.type, enabled=False):
        matrix = weight.to(one.dtype)
        size = max(1, CHUNK_BYTES // (4 * len(weight)))
        parts = (torch.split(each, size) for each in (one, other, labels))
        # The logits of a chunk are computed again for its gradients, so that those of all are never kept.
        found = [
            checkpoint(sums, *chunk, use_reentrant=False, preserve_rng_state=False)
            for chunk in zip(*parts, strict=True)
        ]
    loss, likelihood = map(torch.stack, zip(*found, strict=True))
    return loss.sum().float(), likelihood.sum().float()
