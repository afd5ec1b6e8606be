import pytest
import torch

from engine.errors import TrafficError
from engine.traffic import Segment
from tests.unit.engine.traffic.segments import segment


def test_a_segment_comes_back() -> None:
    written = segment()

    read = Segment.unpack(written.pack())

    assert (read.tenant, read.request, read.target) == (
        written.tenant,
        written.request,
        written.target,
    )
    assert (read.prompt_rows, read.answer_tokens) == (4, 16)
    torch.testing.assert_close(read.tokens, written.tokens)
    torch.testing.assert_close(read.hidden, written.hidden)


def test_what_is_no_segment_is_refused() -> None:
    whole = segment().pack()
    uneven = Segment("t", "r", "m", 0, torch.zeros(3, dtype=torch.int32), torch.zeros(2, 8))
    all_prompt = segment(prompt_rows=21)

    for content in (b"", b"nothing", whole[:50], whole[:-1], uneven.pack(), all_prompt.pack()):
        with pytest.raises(TrafficError):
            Segment.unpack(content)
