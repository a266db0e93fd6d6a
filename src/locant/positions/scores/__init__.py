"""Schemes that act on the attention scores."""
