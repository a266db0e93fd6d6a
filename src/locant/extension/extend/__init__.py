"""Extension of the context of existing models with rotary positions."""
