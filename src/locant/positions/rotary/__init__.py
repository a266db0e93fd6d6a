"""Schemes that rotate queries and keys, and methods that act through rotations."""
