"""Workers of this folder. Most tests share one, which is compared with itself without drafts."""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.config import load_settings
from engine.models import CATALOGUE, folder_of
from tests.e2e.exactness.answers import Answer
from tests.e2e.exactness.probe import EXTENSION
from tests.e2e.exactness.prompts import make_prose
from tests.e2e.exactness.worker import RUNNER, SCHEDULING, Worker, starting_worker
from tests.e2e.service import MODEL
from tests.v2_on_cpus.environment import why_not

MODEL_TOKENS = 1024
STRAINED_TOKENS = 512


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On V2 tests may take longer, and need Triton."""
    if RUNNER == "v1":
        return
    reason = why_not()
    for item in items:
        item.add_marker(pytest.mark.timeout(1800), append=False)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def profile(*, vllm: Mapping[str, Any], speculation: Mapping[str, Any]) -> dict[str, Any]:
    """An `engine:` section whose results are batch-invariant."""
    return {
        "vllm": {
            "dtype": "float32",  # logits never tie, so sampling from one candidate is certain
            "enforce_eager": True,
            "max_model_len": MODEL_TOKENS,
            "max_num_seqs": 32,
            "distributed_executor_backend": "engine.worker.executor.InProcessExecutor",
            **vllm,
        },
        "environment": {
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "KMP_BLOCKTIME": "5",
            "VLLM_SERVER_DEV_MODE": "1",  # for /collective_rpc
        },
        "speculation": speculation,
    }


def speculation(**fields: Any) -> dict[str, Any]:
    """Drafts that cost next to nothing, so that doubtful ones are verified, and refused, too."""
    return {
        "sources": ["suffix", "head"],
        "suffix": {"capacity_mb": 64, "warm_start": False},
        "fixed_price": 0.01,
        **fields,
    }


@pytest.fixture(scope="package")
def speculating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker with the suffix index and the draft head that ships as sources."""
    options = {
        "worker_extension_cls": EXTENSION,
        "enable_auto_tool_choice": True,
        "tool_call_parser": "hermes",
    }
    section = profile(vllm=options, speculation=speculation())
    with starting_worker(tmp_path_factory.mktemp("speculating"), section) as worker:
        worker.wait_ready()
        is_async = RUNNER == "v2" and SCHEDULING != "sync"
        said = f"async scheduling is {'on' if is_async else 'off'}"
        assert said in worker.log.read_text(encoding="utf-8")
        yield worker


@pytest.fixture(scope="package")
def plain(speculating: Worker) -> Worker:
    """The same worker, asked without speculation."""
    return speculating.plain()


@pytest.fixture(scope="module")
def strained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A speculating worker that prefills prompts in chunks and has room for few requests.

    Its KV cache holds 17 blocks of 32 tokens; one block more is vLLM's own.
    """
    limits = {
        "block_size": 32,
        "distributed_executor_backend": "mp",  # as where there are several ranks
        "max_model_len": STRAINED_TOKENS,
        "max_num_batched_tokens": 64,
        "max_num_seqs": 8,
        "num_gpu_blocks_override": 18,
        "worker_extension_cls": EXTENSION,
    }
    folder = tmp_path_factory.mktemp("strained")
    with starting_worker(folder, profile(vllm=limits, speculation=speculation())) as worker:
        worker.wait_ready()
        yield worker


@dataclass(frozen=True)
class Restarted:
    """A worker that has been stopped and started again.

    Attributes:
        body: What it was asked before that.
        answer: What it answered.
    """

    worker: Worker
    body: dict[str, Any]
    answer: Answer


@pytest.fixture(scope="package")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    """A worker that keeps its suffix index; started again, it has the model as draft model, too.

    The first time it is stopped as a terminal does it (Ctrl-C), at the end as the gateway's
    supervisor does it: a signal to all of its processes.
    """
    folder = tmp_path_factory.mktemp("restarted")
    model = str(folder_of(CATALOGUE[MODEL], cache_dir=load_settings(None).cache_dir))
    drafter = {"method": "draft_model", "model": model, "num_speculative_tokens": 3}
    kept = speculation(sources=["suffix"], suffix={"capacity_mb": 64})
    section = profile(vllm={}, speculation=kept)
    section |= {"model": model, "served_model_name": MODEL, "cache_dir": str(folder)}
    both = kept | {"sources": ["suffix", "native"], "native": {"config": drafter}}
    body = {
        "prompt": make_prose(1, seed=80)[0],
        "vllm_xargs": {"specgate_mode": "suffix", "specgate_tenant": "restarted"},
    }

    with starting_worker(folder, section) as worker:
        worker.wait_ready()
        answer = worker.ask(body)
        worker.stop(signal.SIGINT)
    before = _saved_bytes(folder)
    with starting_worker(folder, section | {"speculation": both}) as worker:
        worker.wait_ready()
        yield Restarted(worker, body, answer)
        worker.ask({"prompt": "Another thing to learn:"})
        worker.stop(signal.SIGTERM)
    assert 0 < before < _saved_bytes(folder)


def _saved_bytes(folder: Path) -> int:
    """Return the size of the index's only snapshot, which grows with what it holds."""
    (snapshot,) = (folder / "suffix").glob("*.0")
    return snapshot.stat().st_size
