"""Who asks for it is told the origin of each token, and gets the same answer as without."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import pytest

from engine.drafting import TOKEN_SOURCE_NAMES, Origin
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import RUNNER, Worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROMPTS = make_prompts(6, seed=90)
EMOJI = "🙂 🎉 你好,世界 👩‍👩‍👧 Grüße 🇩🇪\n" * 6
SAMPLED = {"temperature": 0.8, "ignore_eos": True}
CASES: dict[str, dict[str, Any]] = {
    "one token": {"prompt": PROMPTS[0], "max_tokens": 1},
    "repetition": {"prompt": "one two three four five six " * 8, "max_tokens": 48},
    "emoji": {"prompt": EMOJI, "max_tokens": 60},
    "emoji, sampled": {"prompt": EMOJI, "max_tokens": 60, **SAMPLED},
    "nonsense": {"prompt": PROMPTS[1], "temperature": 2.0, "max_tokens": 60, "ignore_eos": True},
    "special tokens": {"prompt": "<|im_start|><|im_end|>" * 6, "skip_special_tokens": False},
    "special tokens, skipped": {"prompt": "<|im_start|><|im_end|>" * 6, "ignore_eos": True},
    "log probabilities": {"prompt": PROMPTS[2], "logprobs": 2},
    "chat": {"messages": [{"role": "user", "content": PROMPTS[3]}]},
    "seeded": {"prompt": PROMPTS[4], "temperature": 0.9, "seed": 7},
}
STREAMED: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "every five tokens": {"stream_interval": 5},
}


@dataclass(frozen=True)
class Traced:
    """An answer as a client sees it.

    Attributes:
        accepted: Accepted tokens by source, of each step with a draft.
    """

    text: str
    tokens: int
    entries: Sequence[tuple[str, int]]
    accepted: Sequence[Counter[str]]

    @property
    def drafted(self) -> Counter[str]:
        """How many tokens of the trace are from each source."""
        return Counter(source for source, _ in self.entries if source != "target")


def ask(worker: Worker, body: Mapping[str, Any], **arguments: Any) -> Traced:
    answer = worker.post(path_of(body), full(body, **arguments))
    (choice,) = answer["choices"]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    tokens = answer["usage"]["completion_tokens"]
    return Traced(text, tokens, entries_of(answer), accepted_in(answer["metrics"]))


def stream(worker: Worker, body: Mapping[str, Any], **arguments: Any) -> Traced:
    options = {"stream_options": {"include_usage": True}}
    with worker.streaming(full({**body, **options}, **arguments)) as chunks:
        frames = list(chunks)
    pieces = [piece for frame in frames for piece in frame["choices"]]
    text = "".join(one["text"] if "text" in one else one["delta"]["content"] for one in pieces)
    entries = [entry for frame in frames for entry in entries_of(frame)]
    tokens = frames[-1]["usage"]["completion_tokens"]
    return Traced(text, tokens, entries, accepted_in(frames[-1]["metrics"]))


def full(body: Mapping[str, Any], **arguments: Any) -> dict[str, Any]:
    xargs = {f"specgate_{name}": value for name, value in {"trace": 1, **arguments}.items()}
    return {"model": MODEL, "temperature": 0, "max_tokens": 24, **body, "vllm_xargs": xargs}


def path_of(body: Mapping[str, Any]) -> str:
    return "/v1/chat/completions" if "messages" in body else "/v1/completions"


def entries_of(answer: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(source, length) for source, length in answer.get("speculation", {}).get("trace", [])]


def accepted_in(metrics: Mapping[str, Any]) -> list[Counter[str]]:
    """Accepted tokens by source in each step, from vLLM's lists with our codes."""
    found = metrics.get("speculative_decoding") or {}
    drafted, accepted = (found.get(f"per_step_{what}") or () for what in ("drafted", "accepted"))
    return [
        Counter(
            {
                TOKEN_SOURCE_NAMES[source]: tokens
                for source, _, tokens in Origin.decode(code)[0].split(count)
            }
        )
        for code, count in zip(drafted, accepted, strict=True)
    ]


def pieces(answer: Traced) -> list[str]:
    """The text of each token."""
    ends = accumulate((length for _, length in answer.entries), initial=0)
    return [answer.text[begin:end] for begin, end in pairwise(ends)]


def is_whole(answer: Traced) -> bool:
    """Whether the entries are all tokens, all text and all accepted drafts.

    Accepted tokens behind the end of the answer are not in it.
    """
    *before, _ = answer.accepted or [Counter[str]()]
    return (
        len(answer.entries) == answer.tokens
        and sum(length for _, length in answer.entries) == len(answer.text)
        and sum(before, Counter[str]()) <= answer.drafted <= sum(answer.accepted, Counter[str]())
    )


def is_exact(answer: Traced) -> bool:
    """Whether, besides, it did not end inside an accepted draft."""
    return is_whole(answer) and answer.drafted == sum(answer.accepted, Counter[str]())


@pytest.mark.parametrize("case", CASES)
def test_every_token_has_an_origin_and_its_text(case: str, speculating: Worker) -> None:
    whole = ask(speculating, CASES[case])
    streamed = [stream(speculating, {**CASES[case], **way}) for way in STREAMED.values()]

    for answer in (whole, *streamed):
        # A step that is launched ahead does not know how many tokens are left.
        assert is_exact(answer) or (is_whole(answer) and RUNNER == "v2")


def test_drafted_tokens_are_named_by_who_drafted_them(speculating: Worker) -> None:
    (prompt,) = make_prose(1, seed=91)
    body = {"prompt": prompt, "max_tokens": 40}

    cold = ask(speculating, body, tenant="trace", mode="suffix")
    warm = ask(speculating, body, tenant="trace", mode="suffix")
    plain = ask(speculating, body, mode="off")

    assert all(map(is_whole, (cold, warm, plain)))
    assert pieces(cold) == pieces(warm) == pieces(plain)
    assert warm.drafted["suffix"] > max(15, cold.drafted["suffix"])
    assert not plain.drafted


def test_tokens_of_the_head_are_named(speculating: Worker) -> None:
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in PROMPTS]

    answers = [ask(speculating, body, mode="head", price=0) for body in bodies]

    assert all(map(is_whole, answers))
    assert set().union(*(answer.drafted for answer in answers)) == {"head"}


def test_tokens_of_a_prediction_are_named(plain: Worker, speculating: Worker) -> None:
    (prompt,) = make_prose(1, seed=92)
    body = {"prompt": prompt, "max_tokens": 40}
    right = plain.ask(body).token_ids

    answer = stream(speculating, body, tenant="predicted", mode="suffix", prediction=right)

    assert is_whole(answer)
    assert answer.drafted["prediction"] > 15


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_a_stop_string_cuts_the_last_entries(kept: bool, speculating: Worker) -> None:
    (prompt,) = make_prose(1, seed=93)
    free = ask(speculating, {"prompt": prompt, "max_tokens": 32})
    for at in range(20, 80, 7):
        stop = {"stop": [free.text[at : at + 5]], "include_stop_str_in_output": kept}
        body = {"prompt": prompt, "max_tokens": 32, **stop}

        whole, streamed = ask(speculating, body), stream(speculating, body)

        assert sum(length for _, length in whole.entries) == len(whole.text)
        assert len(whole.entries) == whole.tokens
        assert len(streamed.entries) == streamed.tokens
        # Some may have been sent before it turned out that their text is not.
        assert "".join(pieces(streamed)) == streamed.text == whole.text


def test_a_stop_token_inside_an_accepted_draft_ends_the_trace(speculating: Worker) -> None:
    prompt = "alpha beta gamma delta epsilon " * 8
    cycle = speculating.ask({"prompt": prompt}).token_ids[4:14]
    for token in dict.fromkeys(cycle):
        body = {"prompt": prompt, "stop_token_ids": [token]}

        assert is_whole(ask(speculating, body))
        assert is_whole(stream(speculating, body))


def test_many_at_once_are_kept_apart(speculating: Worker) -> None:
    bodies = [{"prompt": prompt, "max_tokens": 32} for prompt in make_prompts(16, seed=94)]
    untraced = [{**body, "stream_options": {"include_usage": True}} for body in bodies]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda body: stream(speculating, body), bodies))
    others = speculating.stream_all(untraced)

    assert all(map(is_whole, answers))
    assert [one.text for one in answers] == [one.choice.text for one in others]
    assert sum(sum(one.drafted.values()) for one in answers) > 16


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": PROMPTS[0]},
        {"prompt": PROMPTS[0], "vllm_xargs": {"specgate_trace": 0}},
        {"prompt": PROMPTS[0], "vllm_xargs": {"specgate_trace": 1}, "n": 2, "temperature": 1},
        {"prompt": PROMPTS[:2], "vllm_xargs": {"specgate_trace": 1}},
    ],
    ids=["not asked", "off", "two choices", "two prompts"],
)
def test_others_get_not_a_byte_of_it(body: dict[str, Any], speculating: Worker) -> None:
    whole = speculating.post("/v1/completions", {"model": MODEL, "max_tokens": 16, **body})
    with speculating.streaming({"max_tokens": 16, **body}) as chunks:
        frames = list(chunks)

    for answer in (whole, *frames):
        assert "speculation" not in answer
        assert "specgate" not in str(answer)
