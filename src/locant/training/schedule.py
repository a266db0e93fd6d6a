"""Learning rate schedules."""

from __future__ import annotations

import math

from locant.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, d_model: int, step: int, total_steps: float) -> float:
    """Return the learning rate of an update.

    ``inverse_sqrt`` is equation 3 of Vaswani et al. 2017: linear warm-up, then ``step^-0.5``. ``cosine`` and
    ``linear`` fall to zero at the last step. Under a time budget ``total_steps`` is an estimate; warm-up is then held
    to a tenth of it, and ``inverse_sqrt`` ends in a linear fall to zero over the last fifth.

    Args:
        settings: Shape and peak of the schedule.
        d_model: Width of the model, for the paper's peak.
        step: The update, from 1.
        total_steps: Updates of the whole run.
    """
    peak = settings.peak_learning_rate(d_model)
    warmup: float = settings.warmup_steps
    if settings.minutes:
        warmup = max(1.0, min(warmup, 0.1 * total_steps))
    if step < warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / max(1.0, total_steps - warmup))
    match settings.schedule:
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            return peak * (1 - progress)
        case "inverse_sqrt":
            rate = peak * math.sqrt(max(warmup, 1.0) / step)
            if settings.minutes:
                rate *= min(1.0, max(0.0, (total_steps - step) / (0.2 * total_steps)))
            return rate
