"""The edit loop of a coding agent: read a file, ask for its edited version, write that back.

usage: python edit_loop.py FILE INSTRUCTION

The file is sent as `prediction`: parts that stay are drafted from it and verified many tokens
at a time. The answer is what the model would have written anyway.
"""

import os
import re
import sys
import time
from pathlib import Path

from openai import OpenAI

_BLOCK = re.compile(r"```\w*\n(.*?)(?:```|\Z)", re.DOTALL)


def edited(client: OpenAI, path: Path, instruction: str) -> str:
    """Ask for the whole file after the edit; prints what the prediction saved."""
    before = path.read_text(encoding="utf-8")
    began = time.perf_counter()
    answer = client.chat.completions.create(
        model=client.models.list().data[0].id,
        messages=[
            {"role": "system", "content": "You edit files. Answer with the whole file only."},
            {"role": "user", "content": f"{instruction}\n\n```\n{before}```"},
        ],
        prediction={"type": "content", "content": before},
        max_tokens=512,
        temperature=0,
    )
    seconds = time.perf_counter() - began
    usage = answer.usage
    accepted = usage.completion_tokens_details.accepted_prediction_tokens
    print(f"{usage.completion_tokens} tokens in {seconds:.1f} s, {accepted} from the prediction")
    text = answer.choices[0].message.content
    found = _BLOCK.search(text)
    return found[1] if found else text


def main() -> None:
    """Edit the file that the command line names."""
    path, instruction = Path(sys.argv[1]), sys.argv[2]
    client = OpenAI(
        base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
    )
    path.write_text(edited(client, path, instruction), encoding="utf-8")


if __name__ == "__main__":
    main()
