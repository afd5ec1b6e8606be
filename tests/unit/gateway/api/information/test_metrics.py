from tests.unit.gateway.application import running


async def test_metrics_have_the_format_that_is_accepted() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        plain = await gateway.client.get("/metrics")
        opened = await gateway.client.get(
            "/metrics", headers={"accept": "application/openmetrics-text"}
        )

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'gateway_worker_up{worker="127.0.0.1:1"} 0.0' in plain.text
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert opened.text.endswith("# EOF\n")


async def test_scrapes_are_not_counted() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        await gateway.client.get("/metrics")
        text = (await gateway.client.get("/metrics")).text

    assert 'endpoint="/metrics"' not in text


async def test_metrics_of_remote_workers_are_not_forwarded() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        answer = await gateway.client.get("/metrics/worker")

    assert answer.status_code == 404
    assert "remote" in answer.json()["error"]["message"]
