"""Trains draft heads: recipe, data, training loop, evaluation and export."""
