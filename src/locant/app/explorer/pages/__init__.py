"""The pages of the explorer: each module lays one out and connects its knobs to the numbers."""
