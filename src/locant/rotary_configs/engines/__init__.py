"""Rotary positions in the settings of vLLM and CTranslate2."""
