"""Write engine/worker/vllm_options.json, which `check-config` reads, from the installed vLLM.

usage: python scripts/write_vllm_options.py

Run it when a new version of vLLM is tested. A test compares the file with the installed vLLM.
"""

import sys
from pathlib import Path

from engine.worker.describe import describe_vllm

if __name__ == "__main__":
    path = Path(__file__).parent.parent / "engine" / "worker" / "vllm_options.json"
    path.write_text(describe_vllm(), encoding="utf-8")
    sys.stdout.write(f"wrote {path}\n")
