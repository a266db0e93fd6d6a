"""Inspection of existing models with rotary positions."""
