import logging

import pytest
from vllm.entrypoints.launchers import launcher
from vllm.entrypoints.serve.utils.api_utils import log_version_and_model

from engine.worker.logs import log_as_vllm_does


def test_vllms_banner_is_left_out_and_its_warnings_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: lines.append(record.getMessage()))
    launcher.logger.addHandler(handler)
    try:
        log_as_vllm_does()
        log_version_and_model(launcher.logger, "1", "model")
        launcher.logger.warning("a warning")
    finally:
        launcher.logger.removeHandler(handler)

    assert lines == ["a warning"]
