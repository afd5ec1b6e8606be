"""Prompts generated from a seed: nothing to download, the same text in every run. Pure.

They have the structure of real ones (a question, code to change, an agent's tool results), on which
a server's work depends; their content is arbitrary.
"""

from random import Random

from loadtest.conversations import Conversation, Turn
from loadtest.load.scenario import Range, Traffic

_NOUNS = [
    "river",
    "city",
    "market",
    "engine",
    "garden",
    "letter",
    "bridge",
    "winter",
    "signal",
    "doctor",
    "forest",
    "budget",
    "museum",
    "harbour",
    "recipe",
    "teacher",
    "planet",
    "window",
    "contract",
    "battery",
]
_VERBS = [
    "carries",
    "follows",
    "changes",
    "explains",
    "protects",
    "divides",
    "repeats",
    "measures",
    "supports",
    "hides",
]
_ADVERBS = [
    "slowly",
    "often",
    "because",
    "however",
    "although",
    "quietly",
    "together",
    "again",
    "rarely",
    "almost",
]
_ASKED = (
    "Explain how the {0} and the {1} depend on each other.",
    "Write a short story about a {0} near a {1}.",
    "What should I know about a {0} before I buy a {1}?",
    "Compare a {0} with a {1} and give three examples.",
    "Summarise this for a child: the {0} {2} the {1}.",
)
_AGENT = (
    "You are an agent that works in a repository. Call one tool at a time with "
    "<tool_call>{json}</tool_call> and wait for its <tool_response>."
)


class MadeUpPrompts:
    """Generates conversations of every kind."""

    def draw(self, traffic: Traffic, random: Random) -> Conversation:
        """A conversation of this kind; the same for the same state of `random`."""
        words = draw_whole(traffic.prompt_words, random)
        match traffic.prompts:
            case "chat":
                return _single(f"{_question(random)} {_sentences(words, random)}")
            case "code":
                return _single(f"Write this Python function, with tests.\n\n{_stub(random)}")
            case "edit":
                return _single(_edit(words, random))
            case "document":
                text = _sentences(words, random)
                return _single(f"Read this text.\n\n{text}\n\nNow answer: {_question(random)}")
            case "session":
                return _session(traffic.turns, words, random)


def draw_whole(range_: Range, random: Random) -> int:
    """Draw a whole number from a range."""
    return random.randint(round(range_.low), round(range_.high))


def _single(text: str) -> Conversation:
    return Conversation((Turn(({"role": "user", "content": text},), reply=""),))


def _question(random: Random) -> str:
    nouns = random.sample(_NOUNS, 2)
    return random.choice(_ASKED).format(*nouns, random.choice(_VERBS))


def _sentences(words: int, random: Random) -> str:
    found: list[str] = []
    while len(found) < words:
        first, second = random.sample(_NOUNS, 2)
        sentence = f"The {first} {random.choice(_VERBS)} {random.choice(_ADVERBS)} the {second}."
        found += sentence.split()
    return " ".join(found)


def _stub(random: Random) -> str:
    first, second = random.sample(_NOUNS, 2)
    return (
        f"def count_{first}s({second}s: list[str], limit: int = {random.randint(2, 99)}) -> int:\n"
        f'    """Count each {first} that a {second} of the list {random.choice(_VERBS)}."""\n'
    )


def _edit(words: int, random: Random) -> str:
    lines = [f"def {random.choice(_NOUNS)}_{index}(x):\n    return x" for index in range(3)]
    while sum(len(line.split()) for line in lines) < words:
        name, number = random.choice(_NOUNS), random.randint(1, 999)
        lines.append(f"def {name}_{len(lines)}(x):\n    y = x + {number}\n    return y * {number}")
    code = "\n\n\n".join(lines)
    return (
        f"Rename the argument of the function number {random.randrange(len(lines))} to `value`. "
        f"Return all of the code and change nothing else.\n\n```python\n{code}\n```"
    )


def _session(most_turns: int, words: int, random: Random) -> Conversation:
    task = f"{_question(random)} Look into the files first."
    opening = ({"role": "system", "content": _AGENT}, {"role": "user", "content": task})
    turns = [Turn(opening, _tool_call(random))]
    while len(turns) < most_turns:
        result = f"<tool_response>\n{_sentences(words, random)}\n</tool_response>"
        turns.append(Turn(({"role": "user", "content": result},), _tool_call(random)))
    return Conversation(turns)


def _tool_call(random: Random) -> str:
    path = "/".join(random.sample(_NOUNS, 2))
    return f'<tool_call>{{"name": "read_file", "arguments": {{"path": "{path}.py"}}}}</tool_call>'
