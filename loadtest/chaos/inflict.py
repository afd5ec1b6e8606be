"""Causes faults, undoes those that last, and measures the recovery."""

import asyncio
import time
from dataclasses import dataclass, replace

import psutil

from loadtest.chaos import profile
from loadtest.chaos.crowd import Crowd
from loadtest.chaos.disk import SmallDisk
from loadtest.chaos.family import living_descendants, wait_for_end
from loadtest.chaos.faults import Fault, Kind
from loadtest.chaos.proxy import Strike
from loadtest.chaos.stages import ProxiedStage, ServiceStage
from loadtest.memory import Processes
from loadtest.service import RunningGateway, ServiceError

_HIT_SECONDS = 8.0
_RECOVER_SECONDS = 150.0
_SETTLE_SECONDS = 60.0
_CATCH_UP_SECONDS = 120.0
_POLL_SECONDS = 0.05
_PERIODS_FULL = 2.5
_EMPTY_START = "the suffix index starts empty"


@dataclass(frozen=True, slots=True)
class Injury:
    """A fault that happened, and the recovery.

    Attributes:
        recover_seconds: From the fault to the first good answer to a request sent after it; None:
            there was none in time. FULL_DISK: from the emptying of the disk to the next snapshot.
            Of a gateway that received SIGTERM: from its end.
        stop_seconds: How long that end took.
        start_seconds: How long the new worker took to start, where there was one.
        is_settled: Every worker accepted requests again before the next fault, and after a fault
            of the service the waiting requests were answered.
        exit_status: Of a gateway that received SIGTERM; None for other faults.
        left_behind: Processes of a service that were alive after its end.
        damaged_snapshots: Workers that could not load what was saved.
    """

    kind: Kind
    recover_seconds: float | None
    start_seconds: float | None = None
    stop_seconds: float | None = None
    is_settled: bool = True
    exit_status: int | None = None
    left_behind: int = 0
    damaged_snapshots: int = 0


async def inflict_on_connection(fault: Fault, stage: ProxiedStage, crowd: Crowd) -> Injury | None:
    """A fault between gateway and worker.

    Returns:
        None if it did not happen: no answer came that it could hit.
    """
    if fault.kind is Kind.RESTART_GATEWAY:
        return await _restart(fault, stage.gateway, crowd)
    began = time.monotonic()
    proxy = stage.proxies[fault.proxy]
    if fault.kind in (Kind.RESET_ALL, Kind.REFUSE, Kind.FREEZE):
        lasting = asyncio.create_task(_last(fault, stage), name="fault")
        injury = await _recover(fault, crowd, began)
        await lasting
    else:
        strike = Strike(fault.kind, fault.bytes_passed)
        proxy.strike(strike)
        try:
            async with asyncio.timeout(_HIT_SECONDS):
                await strike.hit.wait()
        except TimeoutError:
            proxy.withdraw(strike)
            return None
        injury = await _recover(fault, crowd, time.monotonic())
    return replace(injury, is_settled=await _settle(stage.gateway))


async def inflict_on_service(fault: Fault, stage: ServiceStage, crowd: Crowd) -> Injury | None:
    """A fault of processes or of the disk.

    Returns:
        None if it did not happen: there is no disk that could be filled.
    """
    if fault.kind is Kind.FULL_DISK:
        return None if stage.disk is None else await _fill(fault, stage, stage.disk, crowd)
    starts = len(stage.gateway.start_seconds())
    if fault.kind is Kind.STOP_SERVICE:
        injury = await _restart(fault, stage.gateway, crowd)
    else:
        processes = await stage.gateway.processes()
        began = time.monotonic()
        _hurt(fault.kind, processes)
        injury = await _recover(fault, crowd, began)
    is_settled = await _settle(stage.gateway) and await _catch_up(crowd)
    started = stage.gateway.start_seconds()[starts:]
    log = stage.worker_log.read_text(encoding="utf-8", errors="replace")
    return replace(
        injury,
        is_settled=is_settled and bool(started),
        start_seconds=started[-1] if started else None,
        damaged_snapshots=log.count(_EMPTY_START),
    )


def _hurt(kind: Kind, processes: Processes) -> None:
    match kind:
        case Kind.KILL_API_SERVER:
            processes.api_server.kill()
        case Kind.KILL_ENGINE_CORE:
            processes.engine_core.kill()
        case Kind.STOP_API_SERVER:
            processes.api_server.suspend()
        case _:
            processes.engine_core.suspend()


async def _last(fault: Fault, stage: ProxiedStage) -> None:
    """A fault of all connections of a proxy, from its start to its end."""
    proxy = stage.proxies[fault.proxy]
    match fault.kind:
        case Kind.RESET_ALL:
            proxy.reset_new(True)
            proxy.reset_all()
            await asyncio.sleep(fault.lasting_seconds)
            proxy.reset_new(False)
        case Kind.REFUSE:
            await proxy.close()
            await asyncio.sleep(fault.lasting_seconds)
            await proxy.listen()
        case _:
            proxy.freeze()
            # A third of them lasts longer than the gateway's time-out.
            await asyncio.sleep(fault.lasting_seconds * profile.SILENCE_SECONDS / 1.7)
            proxy.thaw()


async def _restart(fault: Fault, gateway: RunningGateway, crowd: Crowd) -> Injury:
    """Stop a gateway with SIGTERM and start it again."""
    before = living_descendants()
    began = time.monotonic()
    status = await gateway.child.stop()
    ended = time.monotonic()
    left: list[psutil.Process] = []
    if fault.kind is Kind.STOP_SERVICE:
        left = await asyncio.to_thread(wait_for_end, before)
    await gateway.child.start()
    injury = await _recover(fault, crowd, ended)
    return replace(
        injury,
        stop_seconds=ended - began,
        exit_status=-1 if status is None else status,
        left_behind=len(left),
        is_settled=await _settle(gateway),
    )


async def _fill(fault: Fault, stage: ServiceStage, disk: SmallDisk, crowd: Crowd) -> Injury:
    """Fill the disk for some snapshots; requests must be answered meanwhile."""
    pid = stage.gateway.child.pid
    folder = disk.seen_by(pid)
    disk.fill(pid)
    injury = await _recover(fault, crowd, time.monotonic())
    await asyncio.sleep(_PERIODS_FULL * profile.SAVE_SECONDS)
    before = _latest_change(disk, pid)
    disk.clear(pid)
    began = time.monotonic()
    while time.monotonic() - began < _SETTLE_SECONDS:
        if _latest_change(disk, pid) > before and any(folder.glob("*.[0-9]")):
            return replace(injury, recover_seconds=time.monotonic() - began)
        await asyncio.sleep(_POLL_SECONDS)
    return replace(injury, recover_seconds=None)


def _latest_change(disk: SmallDisk, pid: int) -> int:
    return max((path.stat().st_mtime_ns for path in disk.seen_by(pid).glob("*.[0-9]")), default=0)


async def _recover(fault: Fault, crowd: Crowd, began: float) -> Injury:
    """Wait until a request that was sent after `began` is answered well."""
    while time.monotonic() - began < _RECOVER_SECONDS:
        crowd.probe()
        good_ns = crowd.first_good_ns(sent_after_ns=int(began * 1e9))
        if good_ns is not None:
            return Injury(fault.kind, good_ns / 1e9 - began)
        await asyncio.sleep(_POLL_SECONDS)
    return Injury(fault.kind, None)


async def _settle(gateway: RunningGateway) -> bool:
    """Wait until every worker accepts requests; False if that takes too long."""
    began = time.monotonic()
    while time.monotonic() - began < _SETTLE_SECONDS:
        try:
            if all(worker.up for worker in await gateway.workers()):
                return True
        except ServiceError:
            pass  # asked again below, until the time is up
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def _catch_up(crowd: Crowd) -> bool:
    """Wait until requests that queued without a worker are done; False if that takes too long.

    Otherwise several faults would hit the same request, which is replayed only so often.
    """
    began = time.monotonic()
    while time.monotonic() - began < _CATCH_UP_SECONDS:
        if not crowd.under_way(sent_before_ns=int(began * 1e9)):
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False
