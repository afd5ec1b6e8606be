import logging
from collections.abc import Iterator

import pytest
from vllm.entrypoints.launchers import launcher
from vllm.entrypoints.serve.utils.api_utils import log_version_and_model

from engine.worker.logs import log_as_vllm_does


class Lines(logging.Handler):
    """Keeps what vLLM's server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    vllm, handler = logging.getLogger("vllm"), Lines()
    level = vllm.level
    vllm.setLevel(logging.INFO)
    launcher.logger.addHandler(handler)
    yield handler
    launcher.logger.removeHandler(handler)
    vllm.setLevel(level)


def test_vllms_banner_is_left_out_and_its_warnings_are_not(lines: Lines) -> None:
    log_as_vllm_does()
    log_version_and_model(launcher.logger, "1", "model")
    launcher.logger.warning("a warning")

    assert lines.texts == ["a warning"]
