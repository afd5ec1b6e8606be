from bench.engine.records import Ask
from bench.rival.contest import prompts_of
from bench.rival.plan import Plan


def ask(text: str) -> Ask:
    return Ask([{"role": "user", "content": text}], 999)


def test_every_kind_gets_prompts_of_its_own() -> None:
    pools = {kind: [[ask(f"{kind} {n}")] for n in range(5)] for kind in ("chat", "math", "code")}

    found = prompts_of(pools, Plan(prompts=2, answer_tokens=64), most_tokens=8192)

    texts = {kind: [each.messages[0]["content"] for each in asks] for kind, asks in found.items()}
    assert texts == {
        "chat": ["chat 0", "chat 1"],
        "creative": ["chat 2", "chat 3"],
        "math": ["math 0", "math 1"],
        "code": ["code 0", "code 1"],
    }
    assert {each.most_tokens for asks in found.values() for each in asks} == {64}


def test_creative_answers_are_sampled() -> None:
    pools = {"chat": [[ask("one")], [ask("two")]]}

    found = prompts_of(pools, Plan(prompts=1), most_tokens=8192)

    (chat,), (creative,) = found["chat"], found["creative"]
    assert (chat.temperature, creative.temperature) == (0.0, 1.0)


def test_a_prompt_that_may_not_fit_is_left_out() -> None:
    pools = {"code": [[ask("x" * 900)], [ask("short")]]}

    found = prompts_of(pools, Plan(prompts=2, answer_tokens=64), most_tokens=1000)

    assert [each.messages[0]["content"] for each in found["code"]] == ["short"]
