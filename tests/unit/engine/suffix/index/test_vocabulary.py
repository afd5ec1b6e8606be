"""Ids outside of the vocabulary: accepted in every text, and never drafted."""

from random import Random

import numpy as np
import pytest

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, SONG, answer, continued

SIZE = 49_152
UNKNOWN = [-1, -200, -(1 << 31), SIZE, 122_803, (1 << 31) - 1]
IMAGE = [SIZE + 7] * 30


def small() -> SuffixIndex:
    return SuffixIndex(MIB, vocabulary=SIZE, salt=1)


@pytest.mark.parametrize("unknown", [*UNKNOWN, 1 << 31, (1 << 32) + 1, 1 << 70, -(1 << 70)])
def test_an_unknown_id_is_accepted_everywhere_and_never_drafted(unknown: int) -> None:
    text = [*SONG, unknown, *SONG]
    index = small()
    answer(index, "acme", text)
    index.start("one", "acme", text)
    index.predict("one", [*SONG, unknown])
    index.extend("one", [unknown, *SONG[-8:]])

    assert index.propose("one", 8).tokens == []  # each of its texts goes on with the unknown id
    assert index.propose_after("one", SONG[-2:], 0.5, 8).tokens == []
    assert index.propose_after("one", [SONG[0], unknown], 0.5, 8).tokens == []
    index.extend("one", SONG[:4])
    assert index.propose("one", 8).tokens == SONG[4:12]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_an_unknown_id_in_an_array_is_accepted_too(unknown: int) -> None:
    index = small()

    index.start("one", "acme", np.array([*SONG, unknown, *SONG[:4]], np.int32))

    assert index.propose("one", 8).tokens == SONG[4:12]


@pytest.mark.parametrize("prompt", [IMAGE, [-1]], ids=["an image", "one id"])
def test_a_prompt_of_unknown_ids_alone_is_accepted(prompt: list[int]) -> None:
    index = small()

    index.start("one", "acme", prompt)

    assert index.propose("one", 8).tokens == []
    assert index.propose_after("one", SONG[:4], 0.5, 8).tokens == []
    index.extend("one", [*SONG, *SONG[:4]])
    assert index.propose("one", 8).tokens == SONG[4:12]


def test_text_around_an_image_is_drafted_and_the_image_keeps_its_place() -> None:
    index = small()
    index.start("one", "acme", [*SONG[:20], *IMAGE, *SONG[20:]])
    index.extend("one", SONG[20:24])

    assert index.propose("one", 8).tokens == SONG[24:32]
    index.finish("one", keep=False)
    answer(index, "acme", [*SONG[:20], *IMAGE, *SONG[20:]])
    assert index.stats().tokens == len(SONG) + len(IMAGE) + 1  # and the end of the answer
    assert continued(index, "acme", SONG[14:18]) == SONG[18:20]


def test_no_context_spans_an_unknown_id() -> None:
    index = small()
    index.start("one", "acme", [1, 2, -1, 3, 4, 9, 9])

    index.extend("one", [1, 2, -1])

    assert index.propose("one", 4).tokens == []


def test_all_unknown_ids_are_the_same() -> None:
    drafts = []
    for first, second in zip(UNKNOWN, reversed(UNKNOWN), strict=True):
        index = small()
        index.start("one", "acme", [*SONG, first, *SONG, second, 5])
        index.extend("one", [second, *SONG[:8]])
        draft = index.propose("one", 16)
        drafts.append((draft.tokens, draft.survival))

    assert drafts == [drafts[0]] * len(UNKNOWN)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_written_every_draft_lies_in_the_vocabulary(seed: int) -> None:
    rng = Random(seed)
    index = SuffixIndex(MIB, vocabulary=6, salt=1)
    drafted = []
    for name in map(str, range(30)):
        index.start(name, "acme", rng.choices(range(-2, 9), k=50))
        index.predict(name, rng.choices(range(-2, 9), k=20))
        for _ in range(20):
            index.extend(name, rng.choices(range(-1, 8), k=rng.randrange(1, 5)))
            drafted += index.propose(name, 8).tokens
            drafted += index.propose_after(name, rng.choices(range(-1, 8), k=2), 0.5, 8).tokens
        index.finish(name, keep=True)

    assert len(drafted) > 500
    assert set(drafted) == set(range(6))


@pytest.mark.parametrize("size", [1, 1 << 31])
def test_the_ends_of_the_range_of_vocabularies_are_accepted(size: int) -> None:
    index = SuffixIndex(MIB, vocabulary=size, salt=1)
    index.start("one", "acme", [size - 1, 0, size - 1, 0])

    assert set(index.propose("one", 2).tokens) == {0, size - 1}
