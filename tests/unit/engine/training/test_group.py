"""One process; two are tested in tests/integration/test_training.py."""

import torch

from engine.training.group import joined_group


def test_a_process_that_torchrun_did_not_start_is_alone() -> None:
    with joined_group({}) as group:
        values = torch.tensor([1.0, 2.0])

        assert (group.rank, group.processes, group.is_first) == (0, 1, True)
        assert group.sum(values).tolist() == [1, 2]
        assert group.broadcast(values, owner=0).tolist() == [1, 2]
        group.wait()


def test_one_process_of_torchrun_is_alone_too() -> None:
    with joined_group({"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}) as group:
        assert group.processes == 1
