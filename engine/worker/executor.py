"""Runs the model in vLLM's engine process instead of one of its own.

vLLM 0.32 gives the model of a CPU worker its own process, and each step crosses to it three times:
for the forward, for the sampling, for the drafts. It does so to bind OpenMP's threads, which our
CPU profiles leave to the kernel (docs/adr/0002); figures, and why no profile uses it yet, in
docs/adr/0014.
"""

from vllm.v1.executor.uniproc_executor import UniProcExecutor


class InProcessExecutor(UniProcExecutor):  # type: ignore[misc]  # vllm is Any to mypy
    """vLLM's executor for one process, under a name that its CPU platform does not replace."""
