"""Without memory a head raises; the engine then decodes a step without drafts (drafting/)."""

import pytest

from tests.unit.engine.kernels.core.exhausted import run_exhausted

# The logits of two rows need 128 KiB.
SCRIPT = """
from engine.heads import DraftHead, HeadConfig
config = HeadConfig(
    kind="gated", hidden_size=64, vocab_size=16384, inner_size=64, positions=2
)
table = torch.ones(16384, 64).bfloat16()
head = DraftHead.new(config, None, embedding=table, output=table, seed=1).bfloat16().eval()
head.prepare()
core = head._drafting._head
states = torch.ones(2, 64)
core.draft(states, [0], [3], 1, None)
take_all_memory()
try:
    core.draft(states, [0, 1], [3, 3], 2, None)
except MemoryError:
    end(b"MemoryError")
end(b"drafted")
"""


@pytest.mark.timeout(60)
def test_a_draft_without_memory_raises() -> None:
    assert run_exhausted(SCRIPT) == (0, "MemoryError", "")
