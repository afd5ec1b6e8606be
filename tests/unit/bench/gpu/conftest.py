"""Imports vllm once, without the warnings that it and torch give while they are imported."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import bench.gpu.graphs  # noqa: F401
