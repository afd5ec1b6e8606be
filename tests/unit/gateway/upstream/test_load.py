import pytest

from gateway.routing import Report
from gateway.upstream.load import read_load

PAGE = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
"""
CACHE = b'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0\n'


@pytest.mark.parametrize(
    ("page", "report"),
    [
        (PAGE, Report(6)),
        (PAGE + CACHE, Report(6, 16_000.0)),
        (PAGE + CACHE + CACHE.replace(b'"0"', b'"1"'), Report(6, 32_000.0)),
        (PAGE + CACHE.replace(b'"16"', b'"None"'), Report(6)),
        (CACHE, None),
        (b"", None),
        (PAGE.replace(b"3.0", b"nan").replace(b"1.0", b"1e9"), Report(2)),
    ],
    ids=["requests", "cache", "engines", "no_size", "no_requests", "nothing", "odd"],
)
def test_the_load_is_read_from_the_metrics(page: bytes, report: Report | None) -> None:
    assert read_load(page) == report
