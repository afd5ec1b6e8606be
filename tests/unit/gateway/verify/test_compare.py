import pytest

from gateway.verify.ask import Asked, Token, VerifyError
from gateway.verify.compare import Outcome, compare


def token(text: str, logprob: float = -0.1, **alternatives: float) -> Token:
    return Token(text.encode(), logprob, {name.encode(): one for name, one in alternatives.items()})


def answer(*tokens: Token, reason: str = "stop", **message: object) -> Asked:
    text = b"".join(one.text for one in tokens).decode()
    return Asked(tokens, message or {"content": text}, reason, len(tokens), 1.0)


A, B, C = token("a"), token("b"), token("c")


def test_equal_answers_are_the_same() -> None:
    assert compare(answer(A, B), answer(A, B), margin=0.5).outcome is Outcome.SAME


@pytest.mark.parametrize(("margin", "outcome"), [(0.5, Outcome.NEAR_TIE), (0.1, Outcome.DIFFERS)])
def test_the_margin_decides_what_a_near_tie_is(margin: float, outcome: Outcome) -> None:
    plain = answer(A, token("b", -0.7, b=-0.7, c=-1.0))

    found = compare(plain, answer(A, token("c", -0.7)), margin=margin)

    assert found.outcome is outcome
    assert found.place == 1
    assert found.margin == pytest.approx(0.3)


def test_an_unlikely_token_is_a_defect_whatever_the_margin() -> None:
    plain = answer(A, token("b", -0.7, b=-0.7, d=-1.0))

    found = compare(plain, answer(A, C), margin=100.0)

    assert found.outcome is Outcome.DIFFERS
    assert found.margin is None


def test_a_likelier_token_was_forbidden_and_is_no_near_tie() -> None:
    plain = answer(A, token("b", -2.0, b=-2.0, c=-0.2))

    found = compare(plain, answer(A, C), margin=0.5)

    assert found.outcome is Outcome.DIFFERS
    assert found.margin == pytest.approx(-1.8)
    assert found.why == "a likelier token that was forbidden"


@pytest.mark.parametrize(
    ("drafted", "place"),
    [
        (answer(A, B, C), 2),
        (answer(A), 1),
        (answer(A, B, reason="length"), 2),
        (answer(A, B, content="a b"), 2),
        (answer(A, B, tool_calls=[{"name": "ab"}]), 2),
        (Asked(), 0),
    ],
)
def test_lengths_reasons_and_messages_count(drafted: Asked, place: int) -> None:
    found = compare(answer(A, B), drafted, margin=0.5)

    assert (found.outcome, found.place) == (Outcome.DIFFERS, place)


def test_refused_prompts() -> None:
    refused = Asked(refusal="no grammars here")

    assert compare(refused, refused, margin=0.5).outcome is Outcome.SKIPPED
    assert compare(refused, answer(A), margin=0.5).outcome is Outcome.DIFFERS
    assert compare(answer(A), refused, margin=0.5).why == "refused once: no grammars here"


def test_no_text_of_an_answer_is_in_a_result() -> None:
    plain, drafted = answer(token("SECRET", b=-9.0)), answer(token("OTHER"))

    assert "SECRET" not in repr(compare(plain, drafted, margin=0.5))
    assert "OTHER" not in repr(compare(plain, drafted, margin=0.5))


def test_a_server_without_logprobs_cannot_be_compared() -> None:
    silent = Asked((), {"content": "a"}, "stop", 1, 1.0)

    with pytest.raises(VerifyError, match="no log-probabilities"):
        compare(silent, answer(A), margin=0.5)
