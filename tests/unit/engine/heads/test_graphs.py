import pytest
import torch

from engine.heads import HeadMemory
from engine.heads.graphs import MOST_ROWS, round_up
from tests.unit.engine.heads.conftest import HIDDEN, VOCAB, MakeHead


@pytest.mark.parametrize(
    ("rows", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (256, 256)]
)
def test_rows_are_rounded_up(rows: int, expected: int) -> None:
    assert round_up(rows) == expected


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["mlp", "lstm", "gated"])
@pytest.mark.parametrize("rows", [0, 1, 3, 8, MOST_ROWS + 1])
def test_graphs_draft_like_the_cpu(make_head: MakeHead, rows: int, kind: str) -> None:
    head = make_head(kind=kind, draft_vocab_size=20)
    hidden, tokens = torch.randn(rows, HIDDEN), torch.arange(rows) % VOCAB
    expected, expected_confidence = head.propose(hidden, tokens, 3)

    graphed = head.cuda()
    first, confidence = graphed.propose(hidden.cuda(), tokens.cuda(), 3)
    graphed.propose(hidden.cuda().neg(), tokens.cuda(), 3)

    assert first.tolist() == expected.tolist()
    torch.testing.assert_close(confidence.cpu(), expected_confidence, atol=1e-3, rtol=1e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("rows", [1, 3])
def test_graphs_look_back_like_the_cpu(make_head: MakeHead, rows: int) -> None:
    head = make_head(kind="gated", window=4, attention_head_size=16, draft_vocab_size=20)
    names = [str(row) for row in range(rows)]
    steps = [(torch.randn(rows, HIDDEN), torch.arange(rows) + step) for step in range(6)]

    def draft(device: str) -> tuple[list[list[int]], torch.Tensor]:
        on = head.to(device)
        memory = HeadMemory(on, requests=rows, device=torch.device(device))
        for hidden, tokens in steps:
            memory.note(names, [[token] for token in tokens.tolist()], hidden.to(device))
            context = memory.view(names).context()
            drafted, sure = on.propose(hidden.to(device), tokens.to(device), 3, context)
        return drafted.tolist(), sure.cpu()

    expected, expected_confidence = draft("cpu")
    found, confidence = draft("cuda")

    assert found == expected
    torch.testing.assert_close(confidence, expected_confidence, atol=1e-3, rtol=1e-2)
