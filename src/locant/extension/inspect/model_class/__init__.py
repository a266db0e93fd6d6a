"""The class of a model in transformers, asked how it rotates: built with tiny widths, without weights."""
