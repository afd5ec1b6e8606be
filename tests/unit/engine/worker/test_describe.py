from pathlib import Path

from engine.worker import vllm_options
from engine.worker.describe import describe_vllm


def test_the_table_describes_the_installed_vllm() -> None:
    table = Path(vllm_options.__file__).with_suffix(".json")

    # If this fails for a new version: python scripts/write_vllm_options.py
    assert table.read_text(encoding="utf-8") == describe_vllm()
