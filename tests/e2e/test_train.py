"""`specgate train` from nothing to a head, with the real worker and the real target."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from engine.heads import HeadConfig
from tests.e2e.service import MODEL, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]


def writing_engine(**vllm: Any) -> dict[str, Any]:
    """An `engine:` section of a recipe: a small worker that drafts nothing."""
    return {
        "vllm": {
            "enforce_eager": True,
            "distributed_executor_backend": "engine.worker.executor.InProcessExecutor",
            **vllm,
        },
        "environment": {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "KMP_BLOCKTIME": "5",
        },
        "speculation": {"sources": []},
    }


RECIPE = {
    "name": "small",
    "engine": {"model": MODEL, **writing_engine(max_model_len=256, max_num_seqs=16)},
    "text": {
        "tokens": 400,
        "prompt_temperature": 0.0,
        "answer_temperatures": [0.0],
        "max_prompt_tokens": 48,
        "max_answer_tokens": 24,
        "concurrency": 16,
        "held_out_every": 4,
        "prompts": [
            {
                "kind": "question",
                "weight": 1,
                "openings": ["What is the capital of", "How many", "Why is the sky", "Who was"],
            }
        ],
    },
    "head": {
        "kind": "lstm",
        "inner_size": 64,
        "positions": 3,
        "draft_vocab_size": 256,
        "share_embedding": True,
        "share_output": True,
    },
    "train": {"steps": 30, "batch_tokens": 256, "micro_batch_tokens": 256, "run_tokens": 8},
    "export": {"most_mb": 16},
}


def start(recipe: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [Path(sys.executable).with_name("specgate"), "train", recipe],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )


def stop_when_the_worker_starts(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM: exit status 143, and no process left."""
    leader = psutil.Process(process.pid)
    deadline = time.monotonic() + 60
    while not (workers := leader.children()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive


def test_a_head_is_made_from_nothing_although_the_first_try_was_stopped(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump({**RECIPE, "folder": str(tmp_path)}), encoding="utf-8")
    run = tmp_path / "small"

    with start(recipe) as process:
        stop_when_the_worker_starts(process)
    with start(recipe) as process:
        assert process.wait() == 0

    figures = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    assert figures["tokens"] > 0
    assert (run / "acceptance.png").read_bytes().startswith(b"\x89PNG")
    card = (run / "head" / "README.md").read_text(encoding="utf-8")
    assert "licence of the target: Apache-2.0" in card
    config = HeadConfig.model_validate_json((run / "head" / "config.json").read_bytes())
    assert (config.hidden_size, config.vocab_size, config.output_size) == (576, 49152, 256)
    assert config.tokenizer_sha256 is not None
