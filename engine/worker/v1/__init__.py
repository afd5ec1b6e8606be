"""Speculation on vLLM's first model runner: CPUs without a Triton, and GPUs that ask for it."""
