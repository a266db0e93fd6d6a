"""``locant recipes``."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: there are no options."""


def run(options: argparse.Namespace) -> None:
    """List the built-in recipes."""
    from locant.training import builtin_recipes

    recipes = builtin_recipes()
    width = max(map(len, recipes))
    for name, description in recipes.items():
        print(f"{name:<{width}}  {description}")
