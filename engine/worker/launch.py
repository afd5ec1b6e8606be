"""Runs vLLM's OpenAI server in this process with our settings and environment."""

import logging
import signal
import stat
import tempfile
from pathlib import Path

from engine.config import (
    PINNED_ENVIRONMENT,
    USUAL_ENVIRONMENT,
    EngineSettings,
    export_environment,
    process_environment,
)
from engine.errors import ConfigError
from engine.models import ResolvedModel
from engine.processor import multiplies_bfloat16
from engine.worker.openmp import find_openmp, preload
from engine.worker.options import build_options, to_arguments
from engine.worker.runner import choose_runner

_log = logging.getLogger(__name__)


def serve(settings: EngineSettings, model: ResolvedModel) -> None:
    """Serve until SIGTERM or SIGINT; vLLM stops its own child processes.

    Raises:
        ConfigError: vLLM rejects an option, or the socket path exists and is not a socket.
    """
    # Beside the socket, so that removing the socket's folder also removes the metrics.
    beside = None if settings.uds is None else settings.uds.parent
    with tempfile.TemporaryDirectory(prefix="metrics-", dir=beside) as metrics:
        _serve(settings, model, {"PROMETHEUS_MULTIPROC_DIR": metrics})


def _serve(settings: EngineSettings, model: ResolvedModel, shared: dict[str, str]) -> None:
    offline = {"HF_HUB_OFFLINE": "1"} if model.is_local else {}
    openmp = preload(find_openmp(), before=process_environment().get("LD_PRELOAD"))
    forced = {**PINNED_ENVIRONMENT, **offline, **openmp, **shared}
    export_environment({**USUAL_ENVIRONMENT, **settings.environment}, forced=forced)

    # vLLM reads the environment when it is imported.
    import uvloop
    from vllm.logger import configure_logging_from_args
    from vllm.triton_utils import HAS_TRITON

    from engine.worker import head_route, report
    from engine.worker.logs import log_as_vllm_does
    from engine.worker.resumed_server import resume_answers
    from engine.worker.sampling import accept_all_requests
    from engine.worker.server import parse_arguments, run_server
    from engine.worker.tools import accept_all_schemas
    from engine.worker.traced_server import trace_tokens

    choice = choose_runner(settings, has_triton=HAS_TRITON)
    export_environment({}, forced=choice.environment())
    has_bfloat16 = is_good_at_bfloat16(settings)
    options = build_options(settings, model, has_bfloat16=has_bfloat16, is_v2=choice.runner == "v2")
    parsed = parse_arguments(to_arguments(options))
    if settings.uds is not None:
        clear_socket(settings.uds)
    configure_logging_from_args(parsed)
    log_as_vllm_does()
    _log.info("vLLM's model runner is %s: %s", choice.runner.upper(), choice.reason)
    if not has_bfloat16:
        _log.info(
            "this processor has no fast bfloat16 arithmetic: the model runs in %s",
            parsed.dtype,
        )
    accept_all_schemas()
    trace_tokens()
    resume_answers()
    if choice.runner == "v2":
        from engine.worker.v2.limits import refuse_longer_lists

        refuse_longer_lists()
    parsed.middleware = [*parsed.middleware, report.MIDDLEWARE]
    if settings.speculation.sources:
        accept_all_requests()
    if "head" in settings.speculation.sources:
        parsed.middleware = [*parsed.middleware, head_route.MIDDLEWARE]
    # Until vLLM installs its own handlers, signals end this process at once, and the kernel then
    # ends the children (see plugin.py).
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        uvloop.run(run_server(parsed))
    finally:
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)


def is_good_at_bfloat16(settings: EngineSettings) -> bool:
    """Tell whether bfloat16 products are no slower here than float32 ones (docs/adr/0028)."""
    # vLLM reads the environment when it is imported, which `_serve` prepares first.
    from vllm.platforms import current_platform

    from engine.kernels import is_supported

    if not current_platform.is_cpu() or multiplies_bfloat16():
        return True
    ours = settings.cpu_kernels and bool(settings.vllm.get("enforce_eager"))
    return ours and is_supported()


def clear_socket(path: Path) -> None:
    """Remove the stale socket of a killed worker, so that vLLM can bind the path.

    Raises:
        ConfigError: The path exists and is not a socket.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError([f"engine.uds: {path} exists and is not a socket"])
    path.unlink()
