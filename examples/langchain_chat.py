"""Stream a chat through LangChain."""

import os

from langchain_openai import ChatOpenAI

chat = ChatOpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
    model=os.environ.get("MODEL", "smollm2-135m"),
    temperature=0,
    max_tokens=64,
    stream_usage=True,
)

answer = None
for chunk in chat.stream("Count to twenty, in words."):
    print(chunk.content, end="", flush=True)
    answer = chunk if answer is None else answer + chunk
print(f"\n{answer.usage_metadata['output_tokens']} tokens")
