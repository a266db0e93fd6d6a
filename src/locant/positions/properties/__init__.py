"""Measure what a positional scheme does: the geometry of its embeddings and the five wishes for a position code."""

from locant.positions.properties.geometry import Geometry, measure_geometry, shift_matrix
from locant.positions.properties.probe import Probe
from locant.positions.properties.wishes import DEFAULT_SHAPE, WISHES, Wish, check_registry, check_scheme

__all__ = [
    "DEFAULT_SHAPE",
    "WISHES",
    "Geometry",
    "Probe",
    "Wish",
    "check_registry",
    "check_scheme",
    "measure_geometry",
    "shift_matrix",
]
