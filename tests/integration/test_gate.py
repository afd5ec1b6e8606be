"""What operators are told of the gate, over HTTP: from several workers, one of which is gone."""

from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway


async def test_an_operator_sees_the_gate_of_each_worker(worker: FakeWorker) -> None:
    async with FakeWorker() as other:
        name = f"127.0.0.1:{other.port}"
        async with running_gateway(worker, other) as gateway:
            await other.stop()
            answer = await gateway.client.get("/speculation")
            keyless = answer.status_code

    found = {entry.pop("worker"): entry for entry in answer.json()["workers"]}
    (engine,) = found[f"127.0.0.1:{worker.port}"]["engines"]
    assert keyless == 200
    assert engine["gate"]["step_cost_ms"] == [[1, 15.6], [2, 16.0]]
    assert engine["acceptance"]["suffix"] == {"drafted": 10, "accepted": 6}
    assert found[name] == {"error": "The engine could not be reached."}
