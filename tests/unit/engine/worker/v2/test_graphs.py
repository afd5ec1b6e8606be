"""Which CUDA graphs vLLM is told to capture; nothing is captured without a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.worker.gpu import model_runner as vllms

from engine.worker.v2 import graphs


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that has a runner create its manager, and returns vLLM's arguments."""
    monkeypatch.setattr(vllms, "ModelCudaGraphManager", None)  # undone after the test
    monkeypatch.setattr(graphs, "_vllms_manager", lambda *_, **options: options)

    def capture(bound: tuple[str, int | None] | None, **options: Any) -> Any:
        monkeypatch.setattr(graphs, "get_varlen_cudagraph_unsupported_backend", lambda *_: bound)
        runner = SimpleNamespace(vllm_config=None)
        graphs.capture_steps_of(runner)
        runner.attn_groups = []  # known later
        return vllms.ModelCudaGraphManager(None, decode_query_len=33, **options)

    return capture


def test_steps_of_all_lengths_are_captured_where_they_can_be_replayed(capture: Any) -> None:
    assert capture(None, lora=1) == {"decode_query_len": 33, "varlen_decode": True, "lora": 1}


def test_elsewhere_plain_steps_are_captured(capture: Any) -> None:
    assert capture(("FLASH_ATTN", None)) == {"decode_query_len": 1, "varlen_decode": False}


def test_vllms_own_variable_lengths_stay(capture: Any) -> None:
    assert capture(("FLASH_ATTN", None), varlen_decode=True)["varlen_decode"] is True
