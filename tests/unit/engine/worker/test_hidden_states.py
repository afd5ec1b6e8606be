from pathlib import Path

import torch
from safetensors.torch import load_file
from vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector import PendingSave

from engine.worker.hidden_states import HiddenStatesConnector

BLOCKS, LAYERS, BLOCK_SIZE, WIDTH = 5, 3, 4, 2


def test_a_requests_states_are_written_in_the_order_of_its_blocks(tmp_path: Path) -> None:
    cache = torch.randn(BLOCKS, LAYERS, BLOCK_SIZE, WIDTH)
    connector = HiddenStatesConnector.__new__(HiddenStatesConnector)  # the rest needs an engine
    connector._is_tp_rank_zero = True
    connector._kv_cache, connector._block_size = cache, BLOCK_SIZE
    connector._lock_fds, connector._req_copy_events = {}, {}
    path = tmp_path / "r.safetensors"

    connector._submit_async_write(PendingSave("r", str(path), torch.arange(6), [3, 1]))

    written = load_file(path)
    assert torch.equal(written["token_ids"], torch.arange(6))
    rows = [cache[3, :, row] for row in range(4)] + [cache[1, :, row] for row in range(2)]
    assert torch.equal(written["hidden_states"], torch.stack(rows))
    assert connector._req_copy_events["r"].query()
