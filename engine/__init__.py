"""The engine: a vLLM worker with hybrid speculative decoding behind vLLM's OpenAI server."""
