"""The worker of a setting."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import JsonValue

from bench.engine.methods import HYBRID, NONE, VLLM, Method, methods_of, write_profile
from bench.engine.worker import BenchWorker
from bench.exact.plan import BLOCK_TOKENS, CROWD, STEP_TOKENS, Serving
from engine.config import EngineSettings, load_settings

_MODEL_TOKENS = 8192
_WHOLE_TOKENS = 8192
"""Of a step where no prompt is cut: room for the longest, or for several."""

_PRICE = 0.01
"""Drafts cost next to nothing, so that doubtful ones are verified, and refused, as well."""


def settings_of(config: Path, serving: Serving) -> EngineSettings:
    """Return the profile's settings with those of a serving.

    Raises:
        ConfigError: They are not valid.
    """
    overrides: Mapping[str, JsonValue] = {
        "cpu_kernels": serving.kernels == "ours",
        "vllm": {
            "dtype": serving.dtype,
            "block_size": BLOCK_TOKENS,
            "max_model_len": _MODEL_TOKENS,
            "max_num_batched_tokens": STEP_TOKENS if serving.cuts else _WHOLE_TOKENS,
            "max_num_seqs": CROWD,
            "enable_prefix_caching": True,
            "enable_chunked_prefill": True,
        },
        "speculation": {"fixed_price": _PRICE},
    }
    return load_settings(config, overrides=overrides)


def method_of(settings: EngineSettings, serving: Serving) -> Method:
    """Return how the worker is started.

    The reference of vLLM's kernels is unmodified vLLM, that of ours a worker without sources.
    """
    reference = NONE if serving.kernels == "ours" else VLLM
    name = {"none": reference, "specgate": HYBRID}.get(serving.drafter, serving.drafter)
    return next(method for method in methods_of(settings) if method.name == name)


@asynccontextmanager
async def running(serving: Serving, config: Path, packages: Path) -> AsyncIterator[BenchWorker]:
    """Start a worker; it is stopped at the end.

    Args:
        serving: What it is started with.
        config: The profile.
        packages: Where arctic-inference is.

    Raises:
        WorkerError: It did not start.
    """
    settings = settings_of(config, serving)
    method = method_of(settings, serving)
    with tempfile.TemporaryDirectory(prefix="sg-exact-") as name:
        folder = Path(name)
        profile = folder / "profile.yaml"
        write_profile(profile, settings, method)
        worker = BenchWorker(method, folder, profile, packages=packages)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()
