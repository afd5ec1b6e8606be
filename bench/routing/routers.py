"""The routers that stand before real workers, each with the rule that it is measured for."""

import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Literal

from bench.peers import VLLM_ROUTER, install, vllm_router
from loadtest.processes import free_port, start_child
from loadtest.service import start_gateway

_STOP_SECONDS = 10.0


async def _start_gateway(
    rule: Literal["expected_time", "least_loaded"], stack: AsyncExitStack, ports: Sequence[int]
) -> int:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-routing-")))
    port = free_port()
    gateway = {
        "port": port,
        "workers": [f"http://127.0.0.1:{each}" for each in ports],
        "routing": {"rule": rule},
        "pacing": {"mode": "off"},  # vllm-router has none
        "canary": {"share": 0.0},
        "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
        "log": {"level": "error"},
    }
    await start_gateway(stack, folder, {"gateway": gateway}, stop_seconds=_STOP_SECONDS)
    return port


async def _start_vllm_router(policy: str, stack: AsyncExitStack, ports: Sequence[int]) -> int:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-routing-")))
    port = free_port()
    installed = await install("vllm-router", VLLM_ROUTER)
    await start_child(stack, vllm_router(installed, ports, port, policy=policy), folder)
    return port


StartRouter = Callable[[AsyncExitStack, Sequence[int]], Awaitable[int]]

ROUTERS: Mapping[str, StartRouter] = {
    "expected_time": partial(_start_gateway, "expected_time"),
    "least_loaded": partial(_start_gateway, "least_loaded"),
    "cache_aware": partial(_start_vllm_router, "cache_aware"),
    "power_of_two": partial(_start_vllm_router, "power_of_two"),
    "round_robin": partial(_start_vllm_router, "round_robin"),
}
"""By rule: starts a router before workers on 127.0.0.1, and returns its port.

The first two are rules of our gateway, the others of vllm-router. They raise InstallError and
StartError.
"""
