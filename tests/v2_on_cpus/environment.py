"""The environment in which vLLM runs its V2 model runner on a CPU."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

TRITON = Path(sys.prefix) / "triton"
"""Where `scripts/install.sh triton` puts it: vLLM chooses other code where it can import Triton."""

SWITCH = "SPECGATE_V2_ON_CPUS"
"""Tells the processes of a server that they are to interpret Triton's kernels."""

_PATH = Path(__file__).parent / "path"


def why_not() -> str | None:
    """Return why V2 cannot run here; None if it can."""
    if (TRITON / "triton").is_dir():
        return None
    return f"Triton is not in {TRITON.name}/ of the environment: scripts/install.sh triton"


def environment() -> Mapping[str, str]:
    """Return the variables to set; they hold for child processes, too."""
    before = os.environ.get("PYTHONPATH")
    path = [str(_PATH), str(TRITON), *([before] if before else [])]
    return {
        SWITCH: "1",
        "PYTHONPATH": os.pathsep.join(path),
        # torch would compile with the Triton that it finds: an embedding over several ranks.
        "TORCHDYNAMO_DISABLE": "1",
        "TRITON_INTERPRET": "1",
    }
