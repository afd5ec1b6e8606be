"""Edit a function with OpenAI's SDK, predicting that most of the file stays as it is."""

import os

from openai import OpenAI

CODE = '''\
def area(width, height):
    """Return the area of a rectangle."""
    return width * height


def perimeter(width, height):
    """Return the perimeter of a rectangle."""
    return 2 * (width + height)
'''

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
)
model = client.models.list().data[0].id

answer = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": f"Repeat this code, with `width` named `w`:\n\n{CODE}"}],
    prediction={"type": "content", "content": CODE},
    max_tokens=120,
    temperature=0,
)

print(answer.choices[0].message.content)
details = answer.usage.completion_tokens_details
print(
    f"{answer.usage.completion_tokens} tokens; of the prediction "
    f"{details.accepted_prediction_tokens} accepted, {details.rejected_prediction_tokens} rejected"
)
