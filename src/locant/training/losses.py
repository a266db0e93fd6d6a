"""Losses of translators and language models for a batch: the modules that DDP and FSDP wrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from locant.kernels.projected_cross_entropy import projected_cross_entropy
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
            guided_alignment=settings.guided_alignment,
        )

    def __init__(
        self,
        model: EncoderDecoder[Any],
        label_smoothing: float,
        precision: torch.dtype,
        *,
        guided_alignment: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.precision = precision
        self.guided_alignment = guided_alignment

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed smoothed loss and the summed negative log-likelihood, float32 scalars in nats."""
        links = batch.links if self.guided_alignment and self.training else None
        given = batch.source, batch.source_lengths, batch.target_input
        with torch.autocast(batch.source.device.type, self.precision, enabled=self.precision != torch.float32):
            if links is None:
                hidden, aligned = self.model.hidden(*given), None
            else:
                assert isinstance(self.model, Transformer)
                hidden, aligned = self.model.hidden_and_alignment(*given)
        # A norm may have ended in float32, which would make the largest product of all the slowest.
        hidden, weight, labels = hidden.to(self.precision), self.model.output.weight, batch.target_output
        if getattr(self.model.config, "start_is_padding", False):  # else the softmax would count padding twice
            weight, labels = torch.cat((weight[:BOS], weight[BOS + 1 :])), labels - (labels > BOS).long()
        loss, likelihood = projected_cross_entropy(hidden, weight, labels, smoothing=self.label_smoothing, ignore=PAD)
        if links is not None and aligned is not None:
            loss = loss + self.guided_alignment * alignment_loss(aligned, links)
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
