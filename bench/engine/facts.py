"""What was measured, and where: facts for the JSON lines of benchmarks on real workers."""

from importlib import metadata

from bench.engine.plan import KV_GIB
from bench.rounds import Json
from engine.config import EngineSettings
from engine.worker.versions import find_version
from loadtest.machine import Machine


def facts_of(settings: EngineSettings, machine: Machine) -> Json:
    """The model, the workers' memory for keys and values, versions and the machine."""
    return {
        "model": settings.model,
        "kv_gib": KV_GIB,
        "versions": {"vllm": find_version(), "torch": metadata.version("torch")},
        "machine": machine.as_json(),
    }
