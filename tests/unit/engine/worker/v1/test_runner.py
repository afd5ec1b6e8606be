"""What our hooks pass on, over a runner without a model; tests/e2e/exactness has the real one."""

import inspect
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from engine.drafting import Origin, StepDrafts
from engine.drafting.origin import SUFFIX
from engine.worker.step import BatchView, NextStep, SampledStep
from engine.worker.uniform import UniformTest
from engine.worker.v1 import runner
from engine.worker.v1.runner import HybridGPUModelRunner, NoDrafts, _HybridDrafting, _V1Batch
from tests.unit.engine.worker.v1.test_verification import sampling

NEXT = NextStep(room_tokens=5)


class Plain:
    """What we use of vLLM's V1 runner."""

    effective_drafter_max_model_len = 100
    is_pooling_model = True
    max_model_len = 100
    model_config = SimpleNamespace(get_vocab_size=lambda: 50)

    def __init__(self, vllm_config: Any, device: Any) -> None:
        self.device = SimpleNamespace(type="cpu")
        self.speculative_config: Any = None
        self._draft_probs: Any = None
        self._draft_prob_req_ids: Any = None
        self.rejection_sampler: Any = SimpleNamespace(synthetic_mode=False)
        self.logits_rows: list[int] = []
        self.model = SimpleNamespace(
            compute_logits=lambda hidden: self.logits_rows.append(len(hidden))
        )
        self.sampled: list[list[int]] = []
        self.proposed: DraftTokenIds | None = None
        params = SamplingParams(max_tokens=7, temperature=0.5)
        state = SimpleNamespace(
            num_prompt_tokens=4, output_token_ids=[8, 9], sampling_params=params
        )
        self.requests = {"a": state, "b": state}
        self.input_batch = SimpleNamespace(
            req_ids=["a", "b"],
            req_id_to_index={"a": 0, "b": 1},
            token_ids_cpu=np.array([[1, 2, 3, 4, 8, 9, 0, 0]] * 2, np.int32),
            num_tokens_no_spec=np.array([6, 6]),
        )

    def _update_states(self, scheduler_output: Any) -> None:
        pass

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
        return spec_decode_metadata

    def _bookkeeping_sync(self) -> tuple[Any, ...]:
        return None, None, None, self.sampled

    def propose_draft_token_ids(self, scheduler_output: Any, *_: Any) -> int:
        tokens: int = scheduler_output.num_spec_tokens_to_schedule
        return tokens

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        return self.proposed

    def _dummy_run(self, tokens: int, **_: Any) -> tuple[torch.Tensor, None]:
        return torch.zeros(tokens, 4), None

    def _sync_device(self) -> None:
        pass


class Step:
    """Our step; keeps what it is told and drafts as the test says."""

    head = None

    def __init__(self) -> None:
        self.gone: list[tuple[set[str], set[str]]] = []
        self.told: list[tuple[SampledStep, Any]] = []
        self.drafts = StepDrafts.nothing(2)
        self.goes_ahead = False
        self.on_device: Any = None

    def begin(self, finished: Any, preempted: Any) -> None:
        self.gone.append((set(finished), set(preempted)))

    def draft(self, step: SampledStep, native: Any) -> StepDrafts:
        self.told.append((step, native))
        return self.drafts

    def head_on_device(self) -> Any:
        return self.on_device


@dataclass
class Scheduled:
    """What we read of vLLM's scheduler's output."""

    finished_req_ids: set[str] = field(default_factory=lambda: {"x"})
    num_spec_tokens_to_schedule: int = 3
    preempted_req_ids: set[str] | None = None
    scheduled_new_reqs: list[str] = field(default_factory=list)
    specgate_all_native: bool = True
    specgate_next_step: NextStep = NEXT
    total_num_scheduled_tokens: int = 6


class Hooked(_HybridDrafting, Plain):
    """Our hooks over `Plain`; vLLM's own sampler samples and verifies, unless a test has logits."""

    def _sample_ourselves(self, logits: Any, drafted: Any) -> Any:
        return None if logits is None else super()._sample_ourselves(logits, drafted)

    def _choose_place(self, logits: Any, drafted: Any) -> Any:
        return None if logits is None else super()._choose_place(logits, drafted)

    def compute(self, sampled: list[list[int]], verified: list[int] | None = None) -> Any:
        """Compute a step; return what the sampler was given and the drafts that we return."""
        metadata = None if verified is None else SimpleNamespace(num_draft_tokens=verified)
        self.sampled = sampled
        self._update_states(Scheduled())
        given = self._sample(None, metadata)
        self._bookkeeping_sync()
        return given, self.take_draft_token_ids()


@pytest.fixture
def step() -> Step:
    return Step()


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch, step: Step) -> Hooked:
    speculation = SimpleNamespace(
        step=step,
        has_native=False,
        drafter=SimpleNamespace(native_tokens=lambda: 2),
        sampling=UniformTest(),
    )
    group = SimpleNamespace(rank_in_group=0)
    monkeypatch.setattr(runner, "get_tp_group", lambda: group)
    monkeypatch.setattr(runner, "most_verified_rows", lambda _: 512)
    monkeypatch.setattr(runner, "RankSpeculation", SimpleNamespace(start=lambda *_: speculation))
    return Hooked(None, None)


def test_our_step_is_told_what_was_verified(hooked: Hooked, step: Step) -> None:
    given, _ = hooked.compute([[5, 6], [7]], verified=[1, 2])
    hooked.compute([[5], []])

    assert given.num_draft_tokens == [1, 2]
    (first, _), (second, _) = step.told
    assert first == SampledStep(["a", "b"], [[5, 6], [7]], [1, 2], 6, next_step=NEXT)
    assert second == SampledStep(["a", "b"], [[5], []], [0, 0], 6, next_step=NEXT)
    assert step.gone == [({"x"}, set())] * 2


def test_a_sampled_place_is_tested(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Spot:
        def begin(self, *step: Any) -> str | None:
            seen.append(step)
            return "place" if step[0].num_draft_tokens == [1, 0] else None

        def end(self, *step: Any) -> None:
            seen.append(step)

    monkeypatch.setattr(hooked, "_spot_check", Spot())
    output = SimpleNamespace(sampled_token_ids="tokens", num_draft_tokens=[1, 0])
    monkeypatch.setattr(hooked, "_sample_ourselves", lambda *_: output)
    hooked.input_batch.sampling_metadata = "sampling"
    logits = torch.zeros(3, 4)

    hooked._sample(logits, SimpleNamespace(num_draft_tokens=[0, 1]))
    hooked._sample(logits, output)
    hooked._sample(logits, None)
    hooked._sample(logits.to("meta"), output)  # as on a GPU
    hooked._draft_probs = "left by vLLM's drafter"  # by which a token is accepted, too
    hooked._sample(logits, output)

    assert [step[1:] for step in seen] == [
        (logits, "sampling"), (logits, "sampling"), ("tokens",)
    ]  # fmt: skip


def test_if_nothing_is_verified_the_ordinary_sampler_samples(hooked: Hooked) -> None:
    """vLLM 0.32's rejection sampler ends the engine on a CPU if a request has `top_k`."""
    given, _ = hooked.compute([[5], [7]], verified=[0, 0])

    assert given is None


@pytest.mark.parametrize("verified", [None, [0, 0]], ids=["plain", "cut"])
@pytest.mark.parametrize(
    ("asked", "is_ours"),
    [({}, True), ({"all_greedy": False}, False), ({"max_num_logprobs": 3}, False)],
    ids=["greedy", "sampled", "logprobs"],
)
def test_a_greedy_step_without_drafts_is_sampled_by_us(
    hooked: Hooked, verified: list[int] | None, asked: dict[str, Any], is_ours: bool
) -> None:
    hooked.input_batch.sampling_metadata = sampling(**asked)
    metadata = None if verified is None else SimpleNamespace(num_draft_tokens=verified)

    given = hooked._sample(torch.eye(20)[3:5], metadata)

    assert (given is not None) is is_ours
    if given is not None:
        assert given.sampled_token_ids.tolist() == [[3], [4]]


def test_drafts_travel_with_their_sources(hooked: Hooked, step: Step) -> None:
    step.drafts = StepDrafts([[1, 2], []], [Origin(SUFFIX), None])

    _, drafts = hooked.compute([[5], [7]])

    assert (drafts.req_ids, drafts.draft_token_ids) == (["a", "b"], [[1, 2], []])
    assert (drafts.origins, drafts.native_tokens) == ([Origin(SUFFIX), None], None)


def test_without_sampled_tokens_nothing_is_drafted(hooked: Hooked, step: Step) -> None:
    _, drafts = hooked.compute([])

    assert (drafts, step.told) == (None, [])


def test_our_step_is_told_what_vllms_drafter_proposed(hooked: Hooked, step: Step) -> None:
    assert hooked.speculation is not None
    hooked.speculation.has_native = True
    hooked.proposed = DraftTokenIds(["a", "b"], [[1], [2]])

    _, drafts = hooked.compute([[5], [7]])

    assert step.told[0][1] == [[1], [2]]
    assert drafts.native_tokens == 2


@pytest.mark.parametrize("drafts", [True, False], ids=["drafting rank", "other rank"])
@pytest.mark.parametrize("all_native", [True, False])
def test_every_rank_drops_the_probabilities_of_drafts_that_are_not_used(
    hooked: Hooked, all_native: bool, drafts: bool
) -> None:
    if not drafts:
        hooked.speculation = None
    hooked._draft_probs, hooked._draft_prob_req_ids = "left by vLLM's drafter", ["a", "b"]

    hooked._update_states(Scheduled(specgate_all_native=all_native))

    assert (hooked._draft_probs is not None) is all_native
    assert (hooked._draft_prob_req_ids is not None) is all_native


@pytest.mark.parametrize(
    ("requests", "most_rows", "expected"),
    [(128, 512, 384), (4, 132, 128), (400, 800, 400), (8, 8, 8)],
    ids=["bounded", "all drafts", "vLLM's own", "no drafts"],
)
def test_the_memory_profile_sees_the_largest_verification(
    requests: int, most_rows: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(GPUModelRunner, "_dummy_sampler_run", lambda _, hidden: seen.append(hidden))
    on_gpu = HybridGPUModelRunner.__new__(HybridGPUModelRunner)
    on_gpu.most_rows, on_gpu.max_num_reqs = most_rows, requests

    on_gpu._dummy_sampler_run(torch.zeros(requests, 4))

    assert [torch.rand_like(hidden).shape for hidden in seen] == [(expected, 4)]


def test_vllm_sizes_its_sampler_run_by_the_states() -> None:
    """The contract on which our `_dummy_sampler_run` stands: a draft token for each state."""
    source = inspect.getsource(GPUModelRunner._dummy_sampler_run)

    assert "num_reqs = logits.size(0)" in source
    assert "draft_token_ids = [[0] for _ in range(num_reqs)]" in source


@pytest.mark.parametrize(("tokens", "rows"), [(100, 100), (2048, 512)])
def test_profiled_steps_compute_no_more_logits_than_real_ones(
    hooked: Hooked, tokens: int, rows: int
) -> None:
    hooked.run_empty_step(tokens)

    assert hooked.logits_rows == [rows]


@pytest.mark.parametrize(
    ("has_cache", "longest", "runs", "tokens"),
    [(False, 99, True, 3), (True, 97, True, 3), (True, 98, True, 0), (True, 100, False, 0)],
)
def test_a_request_near_the_models_length_does_not_spoil_all_drafts(
    hooked: Hooked, has_cache: bool, longest: int, runs: bool, tokens: int
) -> None:
    """Of 100 tokens. A drafter with a KV cache goes on without proposing, as long as it can."""
    hooked.speculative_config = SimpleNamespace(uses_draft_kv_cache=lambda: has_cache)
    hooked._update_states(Scheduled())

    assert hooked._input_fits_in_drafter(SimpleNamespace(max_seq_len=longest)) is runs
    assert hooked.propose_draft_token_ids(Scheduled(), *[None] * 5) == tokens


def test_our_step_reads_the_batch(hooked: Hooked) -> None:
    batch: BatchView = _V1Batch(hooked)

    assert batch.text("b").tolist() == [1, 2, 3, 4, 8, 9]
    assert batch.left("b") == 5
    assert batch.control("b").temperature == 0.5


def test_the_models_length_limits_a_request_too(hooked: Hooked) -> None:
    hooked.max_model_len = 9

    assert _V1Batch(hooked).left("a") == 3


def test_vllm_gets_a_drafter_that_proposes_nothing() -> None:
    assert NoDrafts(None).propose([[1], [2]], None, None) == [[], []]
