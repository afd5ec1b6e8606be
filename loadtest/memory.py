"""Memory of a service's processes."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil


@dataclass(frozen=True, slots=True)
class Processes:
    """Those of a service that runs its own worker."""

    gateway: psutil.Process
    api_server: psutil.Process
    engine_core: psutil.Process

    @classmethod
    def find(cls, gateway_pid: int, worker_pid: int) -> Self:
        """Those below a gateway.

        Args:
            gateway_pid: Its process id.
            worker_pid: From `/health/workers`: vLLM's API server.

        Raises:
            psutil.NoSuchProcess: One of them has ended, or the engine has not started yet.
        """
        api_server = psutil.Process(worker_pid)
        for child in api_server.children():
            with suppress(psutil.NoSuchProcess):  # another child that has just ended
                if "EngineCore" in " ".join(child.cmdline()):
                    return cls(psutil.Process(gateway_pid), api_server, child)
        raise psutil.NoSuchProcess(worker_pid, msg="no EngineCore below it")

    def by_name(self) -> Mapping[str, psutil.Process]:
        """The same, by name."""
        return {
            "gateway": self.gateway,
            "api_server": self.api_server,
            "engine_core": self.engine_core,
        }


def shared_out_bytes(process: psutil.Process) -> int:
    """PSS of a process: its own pages, and its part of shared ones.

    Raises:
        psutil.Error: It has ended, or may not be inspected.
    """
    return int(process.memory_full_info().pss)


def written_bytes(process: psutil.Process) -> int:
    """The part of its PSS without files: heaps, stacks and shared memory that it wrote.

    A library's page counts by how many processes use it, so PSS with files changes when other
    processes start or end. Source: proc_pid_smaps_rollup in Linux' Documentation/ABI.

    Raises:
        psutil.NoSuchProcess: It is gone.
    """
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise psutil.NoSuchProcess(process.pid) from error
    kibibytes = dict(line.split()[:2] for line in rollup.splitlines()[1:])
    return 1024 * (int(kibibytes["Pss_Anon:"]) + int(kibibytes["Pss_Shmem:"]))


def family_bytes(process: psutil.Process) -> int:
    """PSS of a process and all below it; one that ends meanwhile counts as zero."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += shared_out_bytes(member)
        except psutil.NoSuchProcess:
            continue
    return total
