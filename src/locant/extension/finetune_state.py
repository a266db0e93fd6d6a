"""The state of a fine-tuning on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from locant.errors import CheckpointError
from locant.files import read_json, replacing_folder, write_json, write_tensors

_MOMENTS = ("exp_avg", "exp_avg_sq")


class TrainingState:
    """What is saved of a training, without pickles: trained weights, the optimizer's moments and the step."""

    def __init__(
        self, folder: Path, weights: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, about: dict[str, Any]
    ) -> None:
        self.folder, self.weights, self.optimizer = folder, weights, optimizer
        self.about: dict[str, Any] = json.loads(json.dumps(about))

    def save(self, step: int) -> None:
        """Save the state of a step, then remove the one before."""
        older = self._saved()
        moments = {
            f"{kind}:{name}": self.optimizer.state[weight][kind].cpu()
            for name, weight in self.weights.items()
            for kind in _MOMENTS
        }
        with replacing_folder(self.folder / f"step-{step:08}") as folder:
            write_tensors(folder / "weights.safetensors", {name: each.cpu() for name, each in self.weights.items()})
            write_tensors(folder / "optimizer.safetensors", moments)
            write_json(folder / "state.json", {"step": step, "of": self.about})
        for path in older:
            shutil.rmtree(path, ignore_errors=True)

    def load(self) -> int:
        """Load the last state, and return its step; 0 where there is none."""
        saved = self._saved()
        if not saved:
            return 0
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        folder = saved[-1]
        found = read_json(folder / "state.json")
        if not isinstance(found, dict) or found.get("of") != self.about:
            raise CheckpointError(
                f"{self.folder} holds the state of another training (another model, method, text or setting). Start "
                "that one again as it was, or remove the folder."
            )
        try:
            weights, moments = (load_file(folder / f"{name}.safetensors") for name in ("weights", "optimizer"))
            with torch.no_grad():
                for name, weight in self.weights.items():
                    weight.copy_(weights[name])
                    kept: dict[str, Any] = {kind: moments[f"{kind}:{name}"].to(weight.device) for kind in _MOMENTS}
                    self.optimizer.state[weight] = kept | {"step": torch.tensor(float(found["step"]))}
            return int(found["step"])
        except (SafetensorError, OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(f"The state in {folder} is damaged: {error}. Remove that folder.") from error

    def _saved(self) -> list[Path]:
        return sorted(self.folder.glob("step-*"))
