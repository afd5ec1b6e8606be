"""What turns vLLM into our worker: settings, models, and the launch of its OpenAI server."""
