"""The only room that imports vllm: our settings in, vLLM's OpenAI server out."""

from engine.worker.launch import serve
from engine.worker.versions import TESTED_VLLM_VERSIONS, check_version, find_version

__all__ = ["TESTED_VLLM_VERSIONS", "check_version", "find_version", "serve"]
