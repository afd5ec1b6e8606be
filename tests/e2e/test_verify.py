"""`specgate verify` against the real service: drafts change nothing, and it can tell if they do."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.service import SPECGATE, Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def verify(service: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SPECGATE, "verify", "--url", service.url, "--concurrency", "4", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_grammars_tools_stops_and_emoji_are_the_same_with_drafts(
    service: Service, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"

    done = verify(service, "--kinds", "grammar,tool,streamed_tool,stop,emoji", "--out", str(page))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "23 of 23 answers are identical with and without drafts." in done.stdout
    assert "emoji" in page.read_text(encoding="utf-8")


def test_a_prompt_that_the_worker_refuses_is_skipped(service: Service, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(
        '{"prompt": "Say hello.", "max_tokens": 4}\n'
        '{"prompt": "x", "structured_outputs": {"grammar": "no grammar"}}\n'
    )

    done = verify(service, "--prompts", str(prompts))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 answers are identical" in done.stdout
