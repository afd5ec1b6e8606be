"""What a worker's metrics tell of its load."""

import re

from gateway.routing import Report

_REQUESTS = re.compile(
    rb"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? (\d{1,9}(?:\.\d*)?)$", re.MULTILINE
)
_CACHE = re.compile(rb"^vllm:cache_config_info\{([^\n]*)\}", re.MULTILINE)
_BLOCK = re.compile(rb'(?:^|,)block_size="(\d{1,9})"')
_BLOCKS = re.compile(rb'(?:^|,)num_gpu_blocks="(\d{1,12})"')


def read_load(page: bytes) -> Report | None:
    """Read `/metrics`, of all engines of a worker; None if it does not tell its requests.

    Source: `vllm/v1/metrics/loggers.py` in vLLM 0.32.
    """
    requests = _REQUESTS.findall(page)
    if not requests:
        return None
    sizes = [
        int(size[1]) * int(count[1])
        for labels in _CACHE.findall(page)
        if (size := _BLOCK.search(labels)) and (count := _BLOCKS.search(labels))
    ]
    return Report(round(sum(map(float, requests))), float(sum(sizes)) or None)
