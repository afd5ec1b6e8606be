"""Writes a target's hidden states to files, for training; vLLM's own connector needs CUDA."""

from typing import Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector import (
    ExampleHiddenStatesConnector,
    PendingSave,
    extract_from_kv_cache,
)


class _Done:
    """A CUDA event that has happened: copies on the CPU are complete when they return."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class HiddenStatesConnector(ExampleHiddenStatesConnector):
    """vLLM's connector, which also works on CPUs.

    Each request leaves a safetensors file: `hidden_states`, [tokens, layers, hidden size] in the
    model's dtype, and `token_ids`, [tokens], int64.
    """

    def _submit_async_write(self, pending: PendingSave) -> None:
        cache = self._kv_cache
        assert cache is not None
        if cache.device.type != "cpu":
            super()._submit_async_write(pending)
            return
        if not self._is_tp_rank_zero:
            return
        blocks = torch.tensor(pending.block_ids)[:, None]
        slots = (blocks * self._block_size + torch.arange(self._block_size)).flatten()
        states = extract_from_kv_cache(cache, slots, len(pending.token_ids))
        tensors = {"hidden_states": states.contiguous(), "token_ids": pending.token_ids}
        done: Any = _Done()
        lock = self._lock_fds.pop(pending.req_id, None)
        self._write_tensors(tensors, done, pending.filename, lock)
        self._req_copy_events[pending.req_id] = done
