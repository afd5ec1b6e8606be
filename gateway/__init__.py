"""The HTTP front: take an OpenAI call, choose a worker, stream its answer back.

CPU only; never imports torch, vllm or `engine`. `app.py` shows how the rooms are joined,
`serving.py` shows the life of one request.
"""

__version__ = "0.2.0"
