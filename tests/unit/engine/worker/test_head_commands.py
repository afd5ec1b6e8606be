"""Commands as files: in order, whole, and none lost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.worker.head_commands import HeadCommand, read_commands, write_command

UNLOAD = HeadCommand(action="unload")


def test_commands_are_read_in_their_order(tmp_path: Path) -> None:
    commands = [HeadCommand(action="load", folder=Path("/heads/a")), UNLOAD]

    ids = [write_command(tmp_path, command) for command in commands]

    assert ids == ["1", "2"]
    assert list(read_commands(tmp_path, after=0)) == list(enumerate(commands, start=1))
    assert list(read_commands(tmp_path, after=1)) == [(2, UNLOAD)]


def test_none_overwrites_another(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: write_command(tmp_path, UNLOAD), range(40)))

    assert sorted(map(int, ids)) == list(range(1, 41))
    assert [number for number, _ in read_commands(tmp_path, after=0)] == list(range(1, 41))


def test_there_are_none_before_the_first(tmp_path: Path) -> None:
    assert list(read_commands(tmp_path, after=0)) == []


@pytest.mark.parametrize(
    "body",
    [
        '{"action": "load"}',
        '{"action": "load", "folder": "relative/head"}',
        '{"action": "unload", "folder": "/head"}',
        '{"action": "swap"}',
        '{"action": "unload", "more": 1}',
    ],
)
def test_other_commands_are_refused(body: str) -> None:
    with pytest.raises(ValidationError):
        HeadCommand.model_validate_json(body)
