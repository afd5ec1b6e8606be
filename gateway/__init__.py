"""The HTTP gateway: it accepts OpenAI calls, chooses a worker and streams its answer.

It never imports torch, vllm or `engine`. `app.py` shows how the packages are connected, and
`serving.py` how one request is served.
"""

__version__ = "0.2.0"
