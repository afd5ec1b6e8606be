from loadtest.load.conversation import Conversation, Turn


def test_every_turn_sends_the_history_with_the_replies_that_were_fixed() -> None:
    first, second = {"role": "user", "content": "a"}, {"role": "user", "content": "c"}
    conversation = Conversation((Turn((first,), reply="b"), Turn((second,), reply="d")))

    prompts = [list(messages) for messages in conversation.prompts()]

    assert prompts == [[first], [first, {"role": "assistant", "content": "b"}, second]]
