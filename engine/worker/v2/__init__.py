"""Speculation on vLLM's second model runner, vLLM's default on GPUs."""
