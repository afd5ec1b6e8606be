"""Hostile requests are the same for the same seed, and the good ones among them are good."""

from bench.fuzz.http import count_requests
from bench.fuzz.requests import Wire, at_every_byte, random_requests, valid_requests

_KEY = "sg-key"


def test_valid_requests_are_valid() -> None:
    for request, answers in valid_requests(Wire(_KEY, "r0000000")):
        assert count_requests(request) == answers


def test_requests_are_cut_and_split_at_every_byte() -> None:
    cases = list(at_every_byte(_KEY))

    lengths = [len(request) for request, _ in valid_requests(Wire(_KEY, "rcut-00-00000"))]
    assert len(cases) == 2 * sum(length - 1 for length in lengths)
    assert len({case.tag for case in cases}) == len(cases)
    assert {case.answers for case in cases if case.tag.startswith("rtwo")} == {1, 2}
    assert {case.ending for case in cases if case.tag.startswith("rcut")} == {"eof", "reset"}


def test_a_seed_and_a_number_make_a_case() -> None:
    every = list(random_requests(_KEY, seed=7, first=0, count=50))

    assert list(random_requests(_KEY, seed=7, first=20, count=1)) == [every[20]]
    assert [case.data for case in random_requests(_KEY, seed=8, first=0, count=50)] != [
        case.data for case in every
    ]


def test_random_requests_are_tagged() -> None:
    for case in random_requests(_KEY, seed=1, first=3, count=5):
        assert case.tag.startswith("r000000")
        assert case.answers is None
