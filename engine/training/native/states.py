"""The target's hidden states, from a worker of ours that writes them to files."""

import asyncio
import contextlib
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue
from transformers import AutoConfig

from engine.config import EngineSettings
from engine.errors import TrainingError
from engine.training.native.dataset import STATES
from engine.training.native.process import run_library
from engine.training.writer import starting_writer


def find_layers(source: str, chosen: Sequence[int] | None) -> tuple[list[int], int]:
    """Return the layers whose output the drafter reads, and how many the target has.

    Args:
        source: The target's folder or Hugging Face id.
        chosen: The recipe's; None for the default of the papers and of the library.

    Raises:
        TrainingError: The target has no such layers.

    Source: arXiv 2503.01840 (EAGLE-3): a low, a middle and a high layer.
    """
    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as exc:
        raise TrainingError(f"{source}: transformers cannot read its config: {exc}") from exc
    count: int = config.get_text_config().num_hidden_layers
    layers = [2, count // 2, count - 3] if chosen is None else list(chosen)
    if len(set(layers)) < len(layers) or not all(0 <= layer <= count for layer in layers):
        raise TrainingError(
            f"head.layers: the target has {count} layers; name different ones from 0 to {count}"
        )
    return layers, count


def extracting_profile(
    engine: EngineSettings, layers: Sequence[int], staging: Path
) -> dict[str, JsonValue]:
    """Return the `engine:` section of a worker that writes the states of each prompt to a file.

    Args:
        engine: The recipe's.
        layers: Whose states, in this order; the target's number of layers is its last output.
        staging: Folder for the files.
    """
    connector: dict[str, JsonValue] = {
        "kv_connector": "HiddenStatesConnector",
        "kv_connector_module_path": "engine.worker.hidden_states",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"shared_storage_path": str(staging)},
    }
    drafter: dict[str, JsonValue] = {
        "method": "extract_hidden_states",
        "num_speculative_tokens": 1,
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": list(layers)}},
    }
    said = engine.model_dump(mode="json", exclude_unset=True)
    return {
        **said,
        "vllm": {**engine.vllm, "kv_transfer_config": connector},
        "speculation": {"sources": ["native"], "native": {"config": drafter}},
    }


@contextlib.contextmanager
def serving_states(
    engine: EngineSettings, layers: Sequence[int], *, staging: Path, log: Path
) -> Iterator[str]:
    """Run such a worker; yields the address at which the library asks it.

    Raises:
        TrainingError: It did not start.
    """
    port = _free_port()
    profile = extracting_profile(engine, layers, staging)
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        worker = starting_writer(profile, model=engine.model, log=log, port=port)
        runner.run(stack.enter_async_context(worker))
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            runner.run(stack.aclose())
            shutil.rmtree(staging, ignore_errors=True)


def store_states(data: Path, *, endpoint: str, concurrency: int) -> None:
    """Have the library store the states of all rows that have none yet.

    Raises:
        TrainingError: The library failed; files that it has written are kept.
    """
    command = [
        sys.executable, "-m", "speculators", "generate-offline-data",
        "--preprocessed-data", str(data), "--output", str(data / STATES),
        "--endpoint", endpoint, "--concurrency", str(concurrency),
        "--validate-outputs", "--fail-on-error",
    ]  # fmt: skip
    run_library(command, log=data.parent / "hidden.log", doing="computing hidden states")


def count_states(data: Path) -> int:
    """Return how many rows have states."""
    return sum(1 for _ in (data / STATES).glob("hs_*.safetensors"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
