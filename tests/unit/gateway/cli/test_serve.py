import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gateway.server import bind

SERVE = "import sys; from gateway.cli import main; sys.exit(main(['serve', *sys.argv[1:]]))"


def serve(profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it takes over the log and the signals of its process."""
    return subprocess.run(
        [sys.executable, "-c", SERVE, "--config", str(profile), *options],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def write(folder: Path, **gateway: object) -> Path:
    profile = folder / "p.yaml"
    gateway = {"workers": ["http://127.0.0.1:1"], "host": "127.0.0.1", **gateway}
    profile.write_text(yaml.safe_dump({"gateway": gateway}), encoding="utf-8")
    return profile


@pytest.fixture
def taken() -> socket.socket:
    return bind("127.0.0.1", 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_port_in_use_exits_with_2_and_one_line(
    tmp_path: Path, taken: socket.socket, processes: int
) -> None:
    with taken:
        port = taken.getsockname()[1]
        ended = serve(write(tmp_path, port=port, processes=processes))

    assert ended.returncode == 2
    assert ended.stderr == f"gateway.port {port}: Address already in use\n"


def test_the_port_on_the_command_line_takes_precedence(
    tmp_path: Path, taken: socket.socket
) -> None:
    with taken:
        port = taken.getsockname()[1]
        ended = serve(write(tmp_path, port=0), "--port", str(port))

    assert ended.stderr == f"gateway.port {port}: Address already in use\n"


def test_the_host_on_the_command_line_is_checked_as_in_a_profile(tmp_path: Path) -> None:
    ended = serve(write(tmp_path, port=0), "--host", "0.0.0.0")

    assert ended.returncode == 2
    assert "host 0.0.0.0 can be reached from other machines" in ended.stderr


def test_a_damaged_key_file_exits_with_2_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("oops\n", encoding="utf-8")

    ended = serve(write(tmp_path, port=0, keys={"file": str(path)}))

    assert ended.returncode == 2
    assert set(ended.stderr.splitlines()) == {f"{path}: line 1 is not a key record"}
