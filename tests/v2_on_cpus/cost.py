"""Measure the CPU time of our own code in a step on V2, with vLLM's part left out.

usage: python -m tests.v2_on_cpus.cost

The hooks of `engine.worker.v2.runner` run over stand-ins of what they read; drafter, gate and
suffix index are real. The texts are half new and half copied from what they said before, so drafts
are accepted and refused; a step has at most 512 rows of logits. The price is fixed, since these
steps take no time from which the gate could learn. Prints one JSON line: microseconds of a step by
number of sequences, the median of 200 steps.
"""

import json
import os
import random
import sys
import tempfile
import time
from itertools import takewhile
from multiprocessing import get_context
from operator import eq
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from vllm import SamplingParams

from engine.config import Speculation
from engine.worker.report import ReportPart
from engine.worker.speculation import RankSpeculation
from engine.worker.step import NextStep
from engine.worker.v2 import runner
from engine.worker.v2.runner import _HybridDrafting

_VOCABULARY, _PROMPT, _LONGEST, _STEPS = 49_152, 400, 8_192, 230
_PIECE = 30  # tokens that are new, or a copy
_ROWS = 512
_SEQUENCES = (1, 16, 64, 256)


class _Vllms:
    """What our hooks use of vLLM's runner."""

    max_model_len = _LONGEST

    def __init__(self, settings: Speculation, names: list[str]) -> None:
        self.device = SimpleNamespace(type="cpu")
        self.model_config = SimpleNamespace(get_vocab_size=lambda: _VOCABULARY)
        self.speculator = SimpleNamespace(draft_logits=None)
        self.execute_model_state: Any = None
        self.req_states = SimpleNamespace(
            req_id_to_index={name: slot for slot, name in enumerate(names)},
            draft_tokens=torch.zeros(len(names), settings.max_draft_tokens, dtype=torch.int64),
        )
        self.output: Any = None

    def execute_model(self, scheduled: Any) -> None:
        pass

    def sample_tokens(self, grammar_output: Any) -> Any:
        return self.output


class _Hooked(_HybridDrafting, _Vllms):
    pass


def measure(sequences: int, folder: Path) -> float:
    """Return the microseconds of a step."""
    source = random.Random(sequences)
    names = [f"request-{number}" for number in range(sequences)]
    texts = {name: _make_text(source) for name in names}
    settings = Speculation(sources=("suffix",), fixed_price=0.01)

    def start(_: Any, batch: Any) -> RankSpeculation:
        return RankSpeculation(
            settings,
            batch,
            lambda part: ReportPart(folder, part, 0),
            most_rows=sequences,
            edges=(),
            vocabulary=_VOCABULARY,
            snapshot=None,
        )

    with (
        patch.object(runner, "get_tp_group", lambda: SimpleNamespace(rank_in_group=0)),
        patch.object(runner, "most_verified_rows", lambda _: _ROWS),
        patch.object(runner, "RankSpeculation", SimpleNamespace(start=start)),
    ):
        hooked = _make(settings, names)
    done = dict.fromkeys(names, _PROMPT)
    params = SamplingParams(max_tokens=_LONGEST, temperature=0.0)
    joining = [
        SimpleNamespace(
            req_id=name,
            prompt_len=_PROMPT,
            prefill_token_ids=texts[name][:_PROMPT],
            sampling_params=params,
        )
        for name in names
    ]
    drafts: dict[str, list[int]] = {}
    spent, drafted = [], 0
    for _ in range(_STEPS):
        sampled = [_sample(texts[name][done[name] :], drafts.get(name, [])) for name in names]
        verified = np.array([len(drafts.get(name, ())) for name in names], np.int32)
        counts = np.array(list(map(len, sampled)), np.int32)
        width = int(counts.max())
        hooked.output = SimpleNamespace(
            copy_event=SimpleNamespace(synchronize=lambda: None),
            num_sampled_tokens_np=counts,
            sampled_token_ids=np.array([row + [0] * (width - len(row)) for row in sampled]),
        )
        scheduled = SimpleNamespace(
            scheduled_new_reqs=joining,
            scheduled_spec_decode_tokens=drafts,
            finished_req_ids=set(),
            preempted_req_ids=None,
            total_num_scheduled_tokens=int(verified.sum()) + sequences,
            # As the scheduler tells: a step has at most so many rows of logits.
            specgate_next_step=NextStep(room_tokens=_ROWS - sequences),
        )
        hooked.execute_model_state = SimpleNamespace(
            input_batch=SimpleNamespace(req_ids=names, num_draft_tokens_per_req=verified),
            num_spec_tokens_to_schedule=0,
        )
        began = time.thread_time()
        hooked.execute_model(scheduled)
        hooked.sample_tokens(None)
        found = hooked.take_draft_token_ids()
        spent.append(time.thread_time() - began)
        drafts = {
            name: draft for name, draft in zip(names, found.draft_token_ids, strict=True) if draft
        }
        drafted += sum(map(len, drafts.values()))
        for name, tokens in zip(names, sampled, strict=True):
            done[name] += len(tokens)
        joining = []
    assert drafted > _STEPS * sequences // 2, "more should be drafted"
    hooked.speculation.stop()
    return 1e6 * median(spent[30:])


def _make_text(source: random.Random) -> list[int]:
    text: list[int] = []
    while len(text) < _LONGEST:
        begin = source.randrange(max(1, len(text) - _PIECE))
        text += text[begin : begin + _PIECE]
        text += [source.randrange(_VOCABULARY) for _ in range(_PIECE)]
    return text


def _sample(text: list[int], draft: list[int]) -> list[int]:
    """Return the text's next tokens: as many as the draft has right, and one."""
    right = sum(takewhile(bool, map(eq, draft, text)))
    return text[: right + 1]


def _make(settings: Speculation, names: list[str]) -> Any:
    hooked = _Hooked.__new__(_Hooked)
    _Vllms.__init__(hooked, settings, names)
    with patch.object(_Vllms, "__init__", lambda *_: None):
        _HybridDrafting.__init__(hooked, None, None)
    return hooked


def main() -> int:
    """Measure, and print the line."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        # Metrics are registered once in a process.
        with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            jobs = [(count, Path(folder)) for count in _SEQUENCES]
            times = pool.starmap(measure, jobs, chunksize=1)
        found = {str(count): round(us, 1) for count, us in zip(_SEQUENCES, times, strict=True)}
    sys.stdout.write(json.dumps({"own_cpu_us": found, "steps": _STEPS - 30}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
