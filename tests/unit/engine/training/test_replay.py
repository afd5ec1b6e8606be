"""Compared with a slow loop that decodes an answer token by token."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.training.context import Before
from engine.training.replay import count_matches, replay
from engine.training.shard import Shard
from tests.unit.engine.training.tiny import shard_of, some_shard

answers = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=12), min_size=1, max_size=4)


def told(
    texts: list[list[int]], kinds: list[str] | None = None, prompts: list[int] | None = None
) -> Shard:
    tokens = torch.tensor([token for text in texts for token in text])
    hidden = torch.arange(len(tokens))[:, None].to(torch.bfloat16)
    lengths = [len(text) for text in texts]
    return shard_of(hidden, tokens, lengths, prompts=prompts, kinds=kinds or ["a"] * len(texts))


def draft(token: int, positions: int) -> list[int]:
    """Draft by counting on from the last token."""
    return [(token + 1 + ahead) % 3 for ahead in range(positions)]


def propose(_hidden: Tensor, tokens: Tensor, _before: Before | None) -> Tensor:
    return torch.tensor([draft(int(token), 3) for token in tokens])


def decode_slowly(text: list[int], positions: int) -> tuple[list[int], list[int]]:
    drafted, accepted = [0] * positions, [0] * positions
    written = [text[0]]
    while len(written) < len(text):
        is_alive = True
        for offset, token in enumerate(draft(written[-1], positions)):
            if len(written) + offset >= len(text):
                break
            drafted[offset] += 1
            is_alive = is_alive and token == text[len(written) + offset]
            accepted[offset] += is_alive
        ahead = draft(written[-1], positions)
        for token in ahead:
            if len(written) < len(text) and token == text[len(written)]:
                written.append(token)
            else:
                break
        if len(written) < len(text):
            written.append(text[len(written)])
    return drafted, accepted


@given(answers)
def test_acceptance_matches_decoding_step_by_step(texts: list[list[int]]) -> None:
    found = replay(propose, [told(texts)], positions=3)["a"]

    slow = [decode_slowly(text, 3) for text in texts]
    assert found.drafted.tolist() == np.sum([drafted for drafted, _ in slow], axis=0).tolist()
    assert found.accepted.tolist() == np.sum([accepted for _, accepted in slow], axis=0).tolist()


def test_nothing_is_drafted_in_a_prompt() -> None:
    texts = [[0, 1, 2, 0, 1], [2, 2, 0, 1]]

    found = replay(propose, [told(texts, prompts=[2, 1])], positions=3)["a"]

    alone = replay(propose, [told([texts[0][2:], texts[1][1:]])], positions=3)["a"]
    assert found.drafted.tolist() == alone.drafted.tolist()
    assert found.accepted.tolist() == alone.accepted.tolist()


def test_runs_within_prompts_are_skipped() -> None:
    shard = some_shard(200, 100, prompts=[190, 0])
    drafted = []

    def count_on(hidden: Tensor, tokens: Tensor, before: Before | None) -> Tensor:
        assert before is not None
        assert before.tokens.shape == (3, 5 + 64)
        drafted.extend(tokens.tolist())
        return tokens[:, None] + 1

    matched = count_matches(count_on, shard, positions=1, window=5)

    # Runs have 64 rows; the first two contain no answer.
    assert drafted[0] == 10 + 128
    assert matched[190:].tolist() == [1] * 9 + [0] + [1] * 99 + [0]
