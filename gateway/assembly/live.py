"""Build the sampler behind `GET /live`, and start it."""

from gateway.assembly.process import ProcessContext, Tasks
from gateway.live import Links, Reading, Sampler
from gateway.settings import GatewaySettings, shared_metrics_dir
from gateway.supervisor import Supervisor, SupervisorFacts, read_facts, write_facts
from gateway.telemetry import GatewayMetrics, read_totals
from gateway.upstream import Pool


def start_sampler(
    settings: GatewaySettings,
    process: ProcessContext,
    pool: Pool,
    supervisor: Supervisor | None,
    metrics: GatewayMetrics,
    tasks: Tasks,
) -> Sampler:
    """Sample in the background."""
    folder = shared_metrics_dir() if settings.processes > 1 else None

    def supervised() -> SupervisorFacts | None:
        """The supervisor's facts; one process has it, and writes them for the others."""
        file = None if process.socket_dir is None else process.socket_dir / "supervisor.json"
        if supervisor is not None:
            facts = supervisor.facts()
            if file is not None and settings.processes > 1:
                write_facts(file, facts)
            return facts
        return None if file is None or settings.workers else read_facts(file)

    def read() -> Reading:
        return Reading(read_totals(metrics.registry, folder), supervised())

    sampler = Sampler(
        pool,
        read,
        every_seconds=settings.live.sample_seconds,
        links=Links(settings.live.dashboards_url, settings.live.runbook_url),
    )
    tasks.own(sampler.run(), name="live")
    return sampler
