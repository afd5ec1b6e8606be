"""The processes of a gateway share what the canary found."""

from pathlib import Path

from gateway.assembly import ProcessContext
from gateway.settings import GatewaySettings
from tests.integration.waiting import eventually
from tests.unit.gateway.application import started


async def test_a_source_is_shut_in_all_processes(tmp_path: Path) -> None:
    settings = GatewaySettings.model_validate(
        {"workers": ["http://127.0.0.1:1"], "canary": {"shut_after": 1}}
    )
    first, second = (ProcessContext(index=index, socket_dir=tmp_path) for index in (0, 1))

    async with started(settings, process=first) as here, started(settings, process=second) as there:
        here.canary.defects.add("m", "suffix")
        await eventually(lambda: there.canary.defects.shut("m") == {"suffix"})
        there.canary.defects.open(None)
        await eventually(lambda: here.canary.defects.shut("m") == frozenset())
