"""Rotary positions in the config.json of Hugging Face's transformers."""
