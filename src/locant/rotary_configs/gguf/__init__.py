"""Rotary positions in GGUF files, and in the command-line flags of llama.cpp."""
