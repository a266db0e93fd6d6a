"""Checkpoints whose rotated features are paired as halves, made into such with neighbours, and back."""
