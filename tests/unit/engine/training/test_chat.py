from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.errors import TrainingError
from engine.training.chat import ChatTemplate

TEMPLATE = (
    "{{ '<s>system' }}{% for m in messages %}{{ '<s>' + m['role'] + ':' + m['content'] + '</s>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}"
)


def write_tokenizer(folder: Path, template: str | None) -> str:
    """Write a tokenizer with two special tokens and one token per byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: number for number, text in enumerate(("<s>", "</s>", *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        chat_template=template,
    )
    wrapped.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def template(tmp_path: Path) -> ChatTemplate:
    return ChatTemplate(write_tokenizer(tmp_path, TEMPLATE))


def test_a_conversation_follows_the_template(template: ChatTemplate) -> None:
    asked = template.ask("hi é")

    assert template.decode(asked) == "systemuser:hi éassistant:"
    assert asked.count(0) == 3
    assert asked.count(1) == 1


def test_a_begun_turn_ends_with_the_users_text(template: ChatTemplate) -> None:
    begun, bare = template.begin_prompt("What is"), template.begin_prompt("")

    assert template.decode(begun) == "systemuser:What is"
    assert begun[: len(bare)] == bare
    assert begun.count(0) == 2
    assert begun.count(1) == 0


def test_a_template_that_changes_the_text_is_rejected(tmp_path: Path) -> None:
    twice = "{{ messages[0]['content'] + messages[0]['content'] }}"

    with pytest.raises(TrainingError, match="must contain the user's text once"):
        ChatTemplate(write_tokenizer(tmp_path, twice))
