"""Facts of the classes of transformers, and of models whose code comes with their checkpoints, by model type."""
