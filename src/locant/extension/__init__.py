"""Existing models with rotary positions: what their configuration means, and what is wrong with it."""

from locant.extension.diagnosis import Diagnosis
from locant.extension.equivalent import ENGINES, say_for
from locant.extension.inspection import Inspection, inspect_model

__all__ = ["ENGINES", "Diagnosis", "Inspection", "inspect_model", "say_for"]
