"""The only room that imports vllm: our settings in, vLLM's OpenAI server out."""

from engine.worker.launch import serve
from engine.worker.preflight import Preflight, check_profile
from engine.worker.versions import TESTED_VLLM_VERSIONS, check_version, find_version

__all__ = [
    "TESTED_VLLM_VERSIONS", "Preflight", "check_profile", "check_version", "find_version", "serve",
]  # fmt: skip
