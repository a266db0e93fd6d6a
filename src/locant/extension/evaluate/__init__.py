"""Evaluation of language models by length: perplexity and retrieval."""
