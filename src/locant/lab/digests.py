"""SHA-256 digests of batches and weights, by which runs are known to have had the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def ids_digest(*ids: Tensor) -> str:
    """Return the digest of integer tensors: of their shapes and, as int64, their content."""
    digest = hashlib.sha256()
    for one in ids:
        digest.update(str(tuple(one.shape)).encode() + one.to("cpu", torch.int64).numpy().tobytes())
    return digest.hexdigest()


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return the digest of named weights: of their names, shapes and content, in the order of the names."""
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode() + weight.detach().to("cpu").numpy().tobytes())
    return digest.hexdigest()
