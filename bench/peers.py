"""The routers that the gateway is compared with: installed on demand, each in its own folder.

They live below `.bench/peers`, in virtual environments of their own, and are never a dependency.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.calls import MODEL
from loadtest.processes import Command, RunError, run_to_end

PEERS_DIR = Path(".bench/peers")
_INSTALL_SECONDS = 600.0
_UNLIMITED = "4096"
VLLM_ROUTER = ("vllm-router==0.1.17",)


class InstallError(Exception):
    """A peer could not be installed; the message says what pip said last."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A router from the package registry.

    Attributes:
        requirements: What pip installs.
        command: Builds the start command from its folder, the worker's port and its own.
    """

    name: str
    requirements: Sequence[str]
    command: Callable[[Path, int, int], Command]


def vllm_router(folder: Path, worker_ports: Sequence[int], port: int, *, policy: str) -> Command:
    """The start of vllm-router before workers on 127.0.0.1.

    Args:
        folder: Where it is installed.
        worker_ports: Of the workers.
        port: Its own; the next one must be free as well.
        policy: Its rule for choosing a worker.
    """
    arguments = [str(folder / "bin" / "vllm-router"), "--host", "127.0.0.1", "--port", str(port)]
    arguments += ["--worker-urls", *(f"http://127.0.0.1:{each}" for each in worker_ports)]
    arguments += ["--policy", policy]
    # Its metrics port cannot be turned off; the one after its own was reserved with it.
    arguments += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(port + 1)]
    arguments += ["--max-concurrent-requests", _UNLIMITED, "--queue-size", _UNLIMITED]
    return Command(
        name="vllm-router",
        arguments=[*arguments, "--log-level", "warning"],
        ready_url=f"http://127.0.0.1:{port}/health",
        start_seconds=60.0,
        environment={},
    )


def _vllm_router(folder: Path, worker_port: int, port: int) -> Command:
    return vllm_router(folder, [worker_port], port, policy="round_robin")


def _litellm(folder: Path, worker_port: int, port: int) -> Command:
    worker = {
        "model": f"openai/{MODEL}",
        "api_base": f"http://127.0.0.1:{worker_port}/v1",
        "api_key": "unused",
    }
    config = folder / "litellm.json"  # JSON is YAML
    models = {"model_list": [{"model_name": MODEL, "litellm_params": worker}]}
    config.write_text(json.dumps(models), encoding="utf-8")
    arguments = [str(folder / "bin" / "litellm"), "--config", str(config), "--port", str(port)]
    return Command(
        name="litellm",
        arguments=[*arguments, "--host", "127.0.0.1", "--num_workers", "1"],
        ready_url=f"http://127.0.0.1:{port}/health/liveliness",
        start_seconds=120.0,
        environment={
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price list at start
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # 127.0.0.1 only
        },
    )


PEERS = (
    Peer("vllm-router", VLLM_ROUTER, _vllm_router),
    Peer("litellm", ("litellm[proxy]==1.106.2",), _litellm),
)


async def install(name: str, requirements: Sequence[str]) -> Path:
    """Install `requirements` into a folder of their own, once; later calls find it.

    Returns:
        The folder, a virtual environment.

    Raises:
        InstallError: pip failed, or took too long.
    """
    folder = (PEERS_DIR / name).resolve()
    done = folder / ".installed"
    wanted = "\n".join(requirements)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return folder
    await _run(sys.executable, "-m", "venv", "--clear", str(folder))
    await _run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements)
    done.write_text(wanted, encoding="utf-8")
    return folder


async def _run(*arguments: str) -> None:
    try:
        await run_to_end(*arguments, seconds=_INSTALL_SECONDS)
    except RunError as error:
        raise InstallError(str(error)) from error
