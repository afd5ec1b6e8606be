"""Facts about a measurement: the commit, the machine and its load before."""

import asyncio
import os
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

_PACKAGES = ("specgate", "uvicorn", "uvloop", "httptools", "aiohttp", "fastapi")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and on what a benchmark ran."""

    commit: str
    python: str
    cpu: str
    cores: int
    load_before: float
    packages: dict[str, str]

    def as_json(self) -> dict[str, object]:
        """The facts as a JSON object."""
        return asdict(self)


async def describe_machine() -> Machine:
    """Describe the machine; call it before the benchmark starts its load."""
    return Machine(
        commit=await _commit(),
        python=platform.python_version(),
        cpu=_cpu_name(),
        cores=os.cpu_count() or 0,
        load_before=os.getloadavg()[0],
        packages={name: _version(name) for name in _PACKAGES},
    )


async def _commit() -> str:
    process = await asyncio.create_subprocess_exec(
        *("git", "describe", "--always", "--dirty"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    return output.decode().strip() or "unknown"


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
