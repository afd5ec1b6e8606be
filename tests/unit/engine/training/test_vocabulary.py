from engine.training.documents import Document
from engine.training.vocabulary import choose_vocabulary


def document(*answer: int) -> Document:
    return Document(0, "chat", [9, 9, 9, 9], answer)


def test_the_most_frequent_answer_tokens_are_chosen() -> None:
    documents = [document(5, 7, 7), document(7, 2, 5, 6)]

    chosen, coverage = choose_vocabulary(documents, size=2, vocab_size=10)

    assert chosen == [5, 7]
    assert coverage == 5 / 7


def test_ties_go_to_low_ids() -> None:
    chosen, coverage = choose_vocabulary([document(5, 5)], size=4, vocab_size=10)

    assert chosen == [0, 1, 2, 5]
    assert coverage == 1
