"""Draft heads of the workers, for administrators: show, load, unload, forget, delete traffic.

A command is passed on to all workers that serve a model. Each answers at once; `GET /heads` says
later what has become of it.
"""

import ipaddress
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.admission import Caller
from gateway.api.asgi import BodyPolicy, ClientGoneError, presented_key, read_body
from gateway.api.fan_out import ask_all
from gateway.api.state import Services
from gateway.errors import (
    InvalidRequestError,
    ModelNotFoundError,
    NoHealthyWorkerError,
    PermissionDeniedError,
    excerpt,
)
from gateway.protocol import field_name
from gateway.upstream import Worker

log = structlog.get_logger(__name__)

_BODY = BodyPolicy(max_bytes=1 << 16, total_seconds=10.0, idle_seconds=5.0)
_PASSED_ON_BY_PROXIES = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
)  # fmt: skip


class _Asked(BaseModel):
    """The body of a command.

    Attributes:
        model: Whose workers are meant.
        folder: Of the head to load.
    """

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    folder: str | None = None


def heads_routes(*, timeout_seconds: float) -> APIRouter:
    """The routes.

    Args:
        timeout_seconds: Longest wait for a worker.
    """
    router = APIRouter()
    commands = _Commands(timeout_seconds)

    @router.get("/heads")
    async def show_heads(request: Request, model: str | None = None) -> dict[str, Any]:
        check_administrator(request)
        return {"workers": await ask_all(_serving(request, model), commands.ask)}

    @router.post("/heads")
    async def load_head(request: Request) -> Response:
        caller = check_administrator(request)
        asked = await _read(request)
        if asked.folder is None or not PurePosixPath(asked.folder).is_absolute():
            message = "'folder' must be an absolute path on the workers' machines."
            raise InvalidRequestError(message, param="folder")
        workers = _serving(request, asked.model)
        return await commands.send(workers, caller, action="load", folder=asked.folder)

    @router.delete("/heads")
    async def unload_head(request: Request, model: str | None = None) -> Response:
        caller = check_administrator(request)
        return await commands.send(_serving(request, model), caller, action="unload")

    @router.post("/heads/forget")
    async def forget_head(request: Request) -> Response:
        caller = check_administrator(request)
        asked = await _read(request)
        if asked.folder is not None:
            raise InvalidRequestError("'folder' belongs to loading.", param="folder")
        return await commands.send(_serving(request, asked.model), caller, action="forget")

    @router.delete("/heads/traffic")
    async def forget_traffic(
        request: Request, tenant: str | None = None, model: str | None = None
    ) -> Response:
        caller = check_administrator(request)
        services: Services = request.state.services
        whose = {} if tenant is None else {"tenant": services.digests.of(tenant)}
        workers = _serving(request, model)
        return await commands.send(workers, caller, action="forget_traffic", **whose)

    return router


class _Commands:
    """Asks workers about their heads, and sends them commands.

    Args:
        timeout_seconds: Longest wait for a worker.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds

    async def ask(self, worker: Worker) -> dict[str, Any]:
        """Return the heads of each engine of a worker."""
        timeout = self._timeout_seconds
        found = await worker.client.get_json("/speculation", timeout_seconds=timeout)
        engines = found.get("engines", [])
        return {
            "engines": [{"engine": one.get("engine"), "heads": one.get("heads")} for one in engines]
        }

    async def send(self, workers: Sequence[Worker], caller: Caller, **command: str) -> Response:
        """Send a command; the answer has its id at each worker."""
        by = "local" if caller.key_id is None else f"key {caller.key_id}"
        body = json.dumps({**command, "by": by}).encode()

        async def send_one(worker: Worker) -> dict[str, Any]:
            timeout = self._timeout_seconds
            found = await worker.client.post_json("/heads", body, timeout_seconds=timeout)
            return {"id": found.get("id")}

        answers = await ask_all(workers, send_one)
        failed = sum("error" in answer for answer in answers)
        log.info("heads_command", **command, by=by, workers=len(answers), failed=failed)
        return JSONResponse({"workers": answers}, status_code=202)


def check_administrator(request: Request) -> Caller:
    """Return the caller if it may change what all tenants share.

    On a gateway with keys that takes an administrator's key. On one without, the call must come
    from this machine, and neither from a proxy nor from a web page.

    Raises:
        AuthenticationError: The gateway has keys, and the request has none of them.
        PermissionDeniedError: The caller is no administrator.
    """
    services: Services = request.state.services
    caller = services.admission.recognise(presented_key(dict(request.headers.raw)))
    if caller.is_admin:
        return caller
    if caller.key_id is not None:
        raise PermissionDeniedError(
            "This needs an administrator's key: specgate keys create --admin."
        )
    if not _is_local(request):
        raise PermissionDeniedError(
            "A gateway without keys takes this from its own machine only, without a proxy."
        )
    return caller


def _is_local(request: Request) -> bool:
    if request.client is None or "origin" in request.headers:
        return False
    if any(name in request.headers for name in _PASSED_ON_BY_PROXIES):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _serving(request: Request, model: str | None) -> Sequence[Worker]:
    """Return the workers that serve a model; without a name they must all serve the same."""
    services: Services = request.state.services
    workers = [worker for worker in services.pool.workers if worker.models]
    if not workers:
        raise NoHealthyWorkerError("No engine is available at the moment.", retry_after_seconds=5.0)
    if model is None:
        if len({tuple(sorted(worker.models)) for worker in workers}) > 1:
            raise InvalidRequestError("There are several models: name one.", param="model")
        return workers
    chosen = [worker for worker in workers if model in worker.models]
    if not chosen:
        raise ModelNotFoundError(f"The model '{excerpt(model)}' does not exist.", param="model")
    return chosen


async def _read(request: Request) -> _Asked:
    """Read a small JSON body; an empty one has no fields."""
    headers = dict(request.headers.raw)
    try:
        body = await read_body(request.receive, headers, lambda _: None, _BODY)
        return _Asked.model_validate_json(body or b"{}")
    except ClientGoneError as error:
        raise InvalidRequestError("The body broke off.") from error
    except ValidationError as error:
        first = error.errors()[0]
        param = field_name(first["loc"])
        message = first["msg"] if param is None else f"'{param}': {first['msg']}"
        raise InvalidRequestError(message, param=param) from error
