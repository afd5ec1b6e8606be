import asyncio
import errno
import os
from pathlib import Path

import pytest

from loadtest.chaos.disk import SmallDisk
from tests.integration.waiting import eventually


def test_a_user_namespace_is_used_only_without_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(tmp_path)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    as_root = disk.command(["true"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    as_other = disk.command(["true"])

    assert "--map-root-user" not in as_root
    assert "--map-root-user" in as_other
    assert as_root[-2:] == [str(tmp_path), "true"]


async def test_a_machine_that_allows_no_disk_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "unshare" in (await SmallDisk(tmp_path).flaw() or "")


async def test_a_full_disk_rejects_writes_until_it_is_emptied(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    if (flaw := await disk.flaw()) is not None:
        pytest.skip(f"this machine allows no mount namespace: {flaw}")
    process = await asyncio.create_subprocess_exec(*disk.command(["sleep", "60"]))
    try:
        await eventually(lambda: _is_mounted(disk, process.pid))
        place = disk.seen_by(process.pid) / "saved"

        disk.fill(process.pid)
        with pytest.raises(OSError, match="No space") as full:
            place.write_bytes(b"x" * 10_000)
        disk.clear(process.pid)
        place.write_bytes(b"x" * 10_000)

        assert full.value.errno == errno.ENOSPC
        assert os.listdir(tmp_path) == []  # nobody else sees it
    finally:
        process.kill()
        await process.wait()


def _is_mounted(disk: SmallDisk, pid: int) -> bool:
    folder = str(disk.seen_by(pid)).removeprefix(f"/proc/{pid}/root")
    return folder in Path(f"/proc/{pid}/mounts").read_text(encoding="utf-8")
