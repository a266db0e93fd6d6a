"""Schemes that act at the input embedding."""
