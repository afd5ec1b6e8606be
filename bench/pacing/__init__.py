"""Benchmark of pacing: its effect on streams, its cost, and what it hides from eavesdroppers."""
