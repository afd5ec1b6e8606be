"""What our hooks pass on, over a runner without a model; tests/e2e/exactness has the real one."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from vllm import SamplingParams
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.worker.gpu import model_runner as vllms

from engine.drafting import HEAD, NATIVE, InFlight, Origin, StepDrafts
from engine.drafting.origin import SUFFIX
from engine.worker.scheduler import SourcedDraftTokenIds
from engine.worker.step import NextStep, SampledStep
from engine.worker.uniform import UniformTest
from engine.worker.v2 import runner
from engine.worker.v2.runner import (
    HybridGPUModelRunner,
    _HybridDrafting,
    _V2Batch,
)
from engine.worker.v2.speculator import OwnSpeculator
from engine.worker.v2.spot_check import CheckedSampler
from tests.unit.engine.worker.v1.test_runner import Step

NEXT = NextStep(room_tokens=5)
LONGEST = 4


class Plain:
    """What we use of vLLM's V2 runner: slots of requests in another order than the batch."""

    max_model_len = 100
    max_num_reqs = 3
    model_config = SimpleNamespace(get_vocab_size=lambda: 50)

    def __init__(self, vllm_config: Any, device: Any) -> None:
        self.device = SimpleNamespace(type="cpu")
        self.execute_model_state: Any = None
        self.req_states = SimpleNamespace(
            req_id_to_index={"a": 2, "b": 0},
            draft_tokens=torch.full((3, LONGEST), 7),
            last_sampled_tokens=torch.tensor([[6], [0], [5]]),
        )
        self.speculator = cast("Any", OwnSpeculator(self.req_states.draft_tokens))
        self.speculator.draft_logits = "probabilities"
        self.seen_drafts: list[list[list[int]]] = []
        self.seen_probabilities: list[Any] = []
        self.logits_rows: list[int] = []
        self.model = SimpleNamespace(
            compute_logits=lambda hidden: self.logits_rows.append(len(hidden))
        )
        self.output: Any = None
        self.rejection_sampler = CheckedSampler.__new__(CheckedSampler)

    def load_model(self) -> None:
        pass

    def execute_model(self, scheduled: Any, **_: Any) -> None:
        self.seen_drafts.append(self.req_states.draft_tokens.tolist())

    def sample(self) -> None:
        self.seen_probabilities.append(self.speculator.draft_logits)

    def sample_tokens(self, grammar_output: Any) -> Any:
        batch, states = self.execute_model_state.input_batch, self.req_states
        if isinstance(self.speculator, OwnSpeculator):
            counts = torch.from_numpy(self.output.num_sampled_tokens_np)
            drafts = self.speculator.propose(
                batch, *[None] * 4, counts, None, states.last_sampled_tokens
            )
            states.draft_tokens[batch.idx_mapping] = drafts
        return self.output

    def take_draft_token_ids(self) -> DraftTokenIds:
        return DraftTokenIds(["vLLM's"], [[-1]])

    def _dummy_run(self, tokens: int, **_: Any) -> tuple[torch.Tensor, None]:
        return torch.zeros(tokens, 4), None


class Hooked(_HybridDrafting, Plain):
    """Our hooks over `Plain`."""

    def compute(self, scheduled: Any, batch: Any, output: Any) -> Any:
        """Compute a step, and return the drafts that we return."""
        self.launch(scheduled, batch, output)
        return self.take_draft_token_ids()

    def launch(self, scheduled: Any, batch: Any, output: Any) -> None:
        self.output = output
        self.execute_model(scheduled)
        self.execute_model_state = SimpleNamespace(
            input_batch=batch,
            hidden_states=torch.arange(12.0).view(6, 2),
            num_spec_tokens_to_schedule=scheduled.num_spec_tokens_to_schedule,
        )
        self.sample_tokens(None)


def use_vllms_drafter(hooked: Hooked) -> None:
    assert hooked.speculation is not None
    hooked.speculation.has_native = True
    hooked.speculator = SimpleNamespace()


def new(name: str) -> Any:
    return SimpleNamespace(
        req_id=name,
        prompt_len=2,
        prefill_token_ids=[1, 2],
        sampling_params=SamplingParams(max_tokens=9, temperature=0.5),
    )


@dataclass
class Scheduled:
    """What we read of vLLM's scheduler's output."""

    scheduled_new_reqs: list[Any] = field(default_factory=list)
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)
    finished_req_ids: set[str] = field(default_factory=lambda: {"x"})
    preempted_req_ids: set[str] | None = None
    num_spec_tokens_to_schedule: int = 3
    total_num_scheduled_tokens: int = 6
    specgate_all_native: bool = False
    specgate_next_step: NextStep = NEXT


FIRST = Scheduled([new("a"), new("b")])


def batch(drafted: list[int] | None = None) -> Any:
    return SimpleNamespace(
        req_ids=["a", "b"],
        idx_mapping=torch.tensor([2, 0]),
        logits_indices=torch.tensor([1, 3, 5]),
        cu_num_logits=torch.tensor([0, 2, 3]),
        num_draft_tokens_per_req=None if drafted is None else np.array(drafted, np.int32),
        num_computed_tokens_np=np.array([0, 1], np.int32),
        num_scheduled_tokens=np.array([2, 1], np.int32),
    )


def output(*sampled: list[int]) -> Any:
    width = max(map(len, sampled))
    return SimpleNamespace(
        copy_event=SimpleNamespace(synchronize=lambda: None),
        num_sampled_tokens_np=np.array(list(map(len, sampled))),
        sampled_token_ids=np.array([row + [99] * (width - len(row)) for row in sampled]),
    )


@pytest.fixture
def step() -> Step:
    return Step()


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch, step: Step) -> Hooked:
    speculation = SimpleNamespace(
        step=step,
        has_native=False,
        sampling=UniformTest(),
        drafter=SimpleNamespace(native_tokens=lambda: 2, fail_head=lambda _: None),
    )
    for name in ("init_speculator", "RejectionSampler"):
        monkeypatch.setattr(vllms, name, None)  # undone after the test
    group = SimpleNamespace(rank_in_group=0, world_size=1)
    monkeypatch.setattr(runner, "get_tp_group", lambda: group)
    monkeypatch.setattr(runner, "most_verified_rows", lambda _: 512)
    monkeypatch.setattr(runner, "RankSpeculation", SimpleNamespace(start=lambda *_: speculation))
    return Hooked(None, None)


def test_our_step_is_told_what_was_sampled_and_verified(hooked: Hooked, step: Step) -> None:
    hooked.compute(FIRST, batch(), output([5], [6]))
    hooked.compute(Scheduled(), batch([1, 2]), output([7, 8], [9]))

    (first, _), (second, _) = step.told
    assert first == SampledStep(["a", "b"], [[5], [6]], [0, 0], 6, has_new=True, next_step=NEXT)
    assert second == SampledStep(["a", "b"], [[7, 8], [9]], [1, 2], 6, next_step=NEXT)
    assert step.gone == [({"x"}, set())] * 2
    assert hooked.requests.text("a").tolist() == [1, 2, 5, 7, 8]


def test_a_prompt_that_is_being_read_gets_no_tokens(hooked: Hooked, step: Step) -> None:
    hooked.compute(FIRST, batch(), output([], [6]))

    assert step.told[0][0].sampled == [[], [6]]


def test_drafts_travel_with_their_sources(hooked: Hooked, step: Step) -> None:
    step.drafts = StepDrafts([[1, 2], []], [Origin(SUFFIX), None])

    drafts = hooked.compute(FIRST, batch(), output([5], [6]))

    assert (drafts.req_ids, drafts.draft_token_ids) == (["a", "b"], [[1, 2], []])
    assert (drafts.origins, drafts.native_tokens) == ([Origin(SUFFIX), None], None)


@pytest.mark.parametrize("drafts", [True, False], ids=["drafting rank", "other rank"])
def test_every_rank_writes_the_scheduled_drafts_to_their_slots(
    hooked: Hooked, drafts: bool
) -> None:
    if not drafts:
        hooked.speculation = None
    hooked.execute_model(Scheduled(scheduled_spec_decode_tokens={"b": [3, 4, 5], "a": [6]}))

    # Beyond a draft there is a token of the vocabulary: it is read as input, though not verified.
    assert hooked.seen_drafts == [[[3, 4, 5, 7], [7] * LONGEST, [6, 0, 0, 7]]]


def test_placeholders_never_become_input(hooked: Hooked) -> None:
    """vLLM marks drafts that a grammar forbids with -1."""
    hooked.execute_model(Scheduled(scheduled_spec_decode_tokens={"b": [3, -1]}))

    assert hooked.seen_drafts[0][0][:2] == [3, 0]


def test_an_empty_run_is_no_step(hooked: Hooked, step: Step) -> None:
    hooked.execute_model(Scheduled(), dummy_run=True)

    assert step.gone == []
    assert hooked.take_draft_token_ids() == DraftTokenIds(["vLLM's"], [[-1]])
    assert step.told == []


def test_the_head_gets_the_states_that_were_sampled(hooked: Hooked, step: Step) -> None:
    step.head = object()  # type: ignore[assignment]

    hooked.compute(FIRST, batch([1, 0]), output([5], [6]))

    states = step.told[0][0].states
    assert states is not None
    assert states.hidden.tolist() == [[2.0, 3.0], [6.0, 7.0], [10.0, 11.0]]
    assert states.first == [0, 2, 3]


def test_an_error_in_our_hooks_costs_the_drafts(
    hooked: Hooked, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[tuple[str, list[str]]] = []
    assert hooked.speculation is not None
    monkeypatch.setattr(
        hooked.speculation,
        "drafter",
        SimpleNamespace(fail=lambda exc, requests: failed.append((str(exc), requests))),
    )

    drafts = hooked.compute(Scheduled(), batch(), output([5], [6]))  # nobody told of "a" and "b"

    assert drafts == DraftTokenIds(["a", "b"], [[], []])
    assert failed == [("'a'", ["a", "b"])]
    assert step.told == []


def test_our_step_is_told_what_vllms_drafter_proposed(hooked: Hooked, step: Step) -> None:
    use_vllms_drafter(hooked)
    hooked.req_states.draft_tokens = torch.tensor([[1, 2, 3, 4], [0] * 4, [5, 6, 7, 8]])

    drafts = hooked.compute(FIRST, batch(), output([5], [6]))

    assert step.told[0][1] == [[5, 6, 7], [1, 2, 3]]
    assert drafts.native_tokens == 2


def test_where_vllms_drafter_proposes_nothing_its_old_tokens_are_not_read(
    hooked: Hooked, step: Step
) -> None:
    use_vllms_drafter(hooked)

    hooked.compute(
        Scheduled([new("a"), new("b")], num_spec_tokens_to_schedule=0),
        batch(),
        output([5], [6]),
    )

    assert step.told[0][1] is None


@pytest.mark.parametrize("all_native", [True, False])
def test_probabilities_of_drafts_that_are_not_used_do_not_count(
    hooked: Hooked, all_native: bool
) -> None:
    hooked.execute_model(Scheduled(specgate_all_native=all_native))

    hooked.sample()

    assert hooked.seen_probabilities == ["probabilities" if all_native else None]
    assert hooked.speculator.draft_logits == "probabilities"


def test_our_step_reads_the_requests(hooked: Hooked) -> None:
    hooked.compute(FIRST, batch(), output([5], [6]))
    view = _V2Batch(hooked)

    assert view.text("b").tolist() == [1, 2, 6]
    assert view.left("b") == 8
    assert view.control("b").temperature == 0.5


def test_positions_are_those_of_the_step(hooked: Hooked) -> None:
    hooked.compute(FIRST, batch(), output([5], [6]))

    found = hooked.positions()

    assert (found.requests, found.computed, found.scheduled) == (["a", "b"], [0, 1], [2, 1])
    assert found.known == [2, 2]
    assert found.tokens(1, 1, 3) == [2, 6]


@pytest.mark.parametrize(("tokens", "rows"), [(100, 100), (2048, 512)])
def test_profiled_steps_compute_no_more_logits_than_real_ones(
    hooked: Hooked, tokens: int, rows: int
) -> None:
    hooked.run_empty_step(tokens)

    assert hooked.logits_rows == [rows]


def test_the_memory_profile_sees_the_largest_verification(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(
        vllms.GPUModelRunner, "_dummy_sampler_run", lambda _, hidden: seen.append(len(hidden))
    )
    on_gpu = HybridGPUModelRunner.__new__(HybridGPUModelRunner)
    on_gpu.most_rows, on_gpu.vocab_size = 512, 50

    def compute_logits(hidden: torch.Tensor) -> torch.Tensor:
        seen.append(len(hidden))
        return torch.zeros(len(hidden), 50)

    on_gpu.model = SimpleNamespace(compute_logits=compute_logits)

    on_gpu._dummy_sampler_run(torch.zeros(8, 4))

    assert seen == [512, 8]


def test_a_step_of_vllms_warm_up_knows_nothing_of_us(hooked: Hooked, step: Step) -> None:
    """vLLM warms kernels up with outputs of no scheduler of ours."""
    scheduled = SimpleNamespace(
        **{name: value for name, value in vars(FIRST).items() if not name.startswith("specgate")}
    )

    drafts = hooked.compute(scheduled, batch(), output([5], [6]))
    hooked.sample()

    assert drafts == DraftTokenIds(["vLLM's"], [[-1]])
    assert step.told == []
    assert hooked.seen_probabilities == ["probabilities"]


def test_drafts_follow_the_oldest_step_and_know_what_the_one_in_flight_verifies(
    hooked: Hooked, step: Step
) -> None:
    step.head = object()  # type: ignore[assignment]
    step.goes_ahead = True
    hooked.launch(FIRST, batch(), output([5], [6]))
    hooked.launch(Scheduled(), batch([1, 2]), output([7, 8], [9]))

    first = hooked.take_draft_token_ids()
    second = hooked.take_draft_token_ids()

    assert isinstance(first, SourcedDraftTokenIds)
    assert first.ahead
    (told, _), (after, _) = step.told
    assert (told.sampled, told.in_flight) == ([[5], [6]], InFlight([1, 2]))
    assert not told.is_latest  # the step in flight overwrites states of other positions
    assert (after.sampled, after.in_flight) == ([[7, 8], [9]], None)
    assert after.is_latest
    assert second is not None
    assert hooked.requests.text("a").tolist() == [1, 2, 5, 7, 8]


def test_requests_that_left_while_a_step_was_in_flight_draft_nothing(
    hooked: Hooked, step: Step
) -> None:
    hooked.launch(FIRST, batch(), output([5], [6]))
    gone = Scheduled([new("b")], finished_req_ids={"a"}, preempted_req_ids={"b"})
    hooked.launch(gone, batch(), output([7], [8]))

    drafts = hooked.take_draft_token_ids()

    assert drafts is not None
    assert drafts.req_ids == []
    assert step.told[0][0].requests == []


def test_a_request_that_ended_while_its_last_step_was_in_flight_does_not_begin_again(
    hooked: Hooked, step: Step
) -> None:
    step.head = object()  # type: ignore[assignment]
    hooked.launch(FIRST, batch(), output([5], [6]))
    hooked.take_draft_token_ids()
    hooked.launch(Scheduled(), batch([1, 2]), output([7, 8], [9]))
    hooked._begin(Scheduled(finished_req_ids={"a"}))  # an empty step: nothing is launched

    hooked.take_draft_token_ids()

    told = step.told[-1][0]
    assert (told.requests, told.sampled, told.verified) == (["b"], [[9]], [2])
    assert told.states is not None
    assert (told.states.first, told.is_latest) == ([2], False)


def test_a_sequence_that_the_step_in_flight_lacks_is_told(hooked: Hooked, step: Step) -> None:
    hooked.launch(FIRST, batch(), output([5], [6]))
    alone = batch()
    alone.req_ids = ["b"]
    hooked.launch(Scheduled(), alone, output([6]))

    hooked.take_draft_token_ids()

    assert step.told[0][0].in_flight == InFlight([-1, 0])


def test_tokens_that_are_on_the_device_are_left_there(hooked: Hooked, step: Step) -> None:
    use_vllms_drafter(hooked)
    hooked.launch(FIRST, batch(), output([5], [6]))
    hooked.launch(
        Scheduled(scheduled_spec_decode_tokens={"a": [-1, -1], "b": [3]}), batch(), output([7], [8])
    )

    hooked.take_draft_token_ids()

    assert hooked.seen_drafts[1] == [[3, 7, 7, 7], [7] * LONGEST, [7] * LONGEST]
    told, native = step.told[0]
    assert native is None
    assert told.in_flight == InFlight([0, 0], (NATIVE, 3))


class Head:
    """Drafts the newest token and what is in its state; keeps what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.states: list[list[float]] = []

    def propose(self, states: torch.Tensor, newest: torch.Tensor, n: int) -> Any:
        if self.error is not None:
            raise self.error
        self.states = states.tolist()
        return torch.stack([newest, states[:, 0].long()], 1)[:, :n], None


def launch_ahead(hooked: Hooked, step: Step, head: Head) -> None:
    """Launch a step that is told of the head, and one behind it."""
    step.head = head  # type: ignore[assignment]
    step.goes_ahead, step.on_device = True, (head, 2)
    hooked.compute(FIRST, batch(), output([5], [6]))
    hooked.launch(Scheduled(), batch([1, 0]), output([7], [8]))
    hooked.launch(Scheduled(), batch([1, 0]), output([7], []))


def test_ahead_the_head_drafts_on_the_device(hooked: Hooked, step: Step) -> None:
    head = Head()

    launch_ahead(hooked, step, head)
    hooked.take_draft_token_ids()

    # "a" kept no draft, so its first of two states counts; "b" reads its prompt.
    assert head.states == [[2.0, 3.0], [6.0, 7.0]]
    assert hooked.req_states.draft_tokens.tolist() == [[6, 6, 7, 7], [7] * LONGEST, [5, 2, 7, 7]]
    assert step.told[-1][0].in_flight == InFlight([1, 0], (HEAD, 2))


def test_the_head_drafts_no_more_once_steps_wait(hooked: Hooked, step: Step) -> None:
    launch_ahead(hooked, step, Head())
    step.on_device = None

    hooked.take_draft_token_ids()
    hooked.launch(Scheduled(), batch(), output([7], [8]))
    hooked.take_draft_token_ids()

    assert step.told[-1][0].in_flight == InFlight([0, 0])


def test_a_head_that_fails_on_the_device_costs_its_drafts(hooked: Hooked, step: Step) -> None:
    failed: list[str] = []
    assert hooked.speculation is not None
    drafter: Any = hooked.speculation.drafter
    drafter.fail_head = lambda exc: failed.append(str(exc))

    launch_ahead(hooked, step, Head(RuntimeError("broken head")))
    hooked.take_draft_token_ids()

    assert failed == ["broken head"] * 2
    assert step.told[-1][0].in_flight == InFlight([1, 0])


def test_several_ranks_do_not_draft_with_the_head_on_the_device(hooked: Hooked, step: Step) -> None:
    hooked._is_alone = False

    launch_ahead(hooked, step, Head())
    hooked.take_draft_token_ids()

    assert step.told[-1][0].in_flight == InFlight([1, 0])


class Unknown:
    """What a step in flight will have; to read any of it is an error."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a step in flight was read")


def test_nothing_of_a_step_in_flight_is_read_but_what_was_scheduled(
    hooked: Hooked, step: Step
) -> None:
    step.head = object()  # type: ignore[assignment]
    hooked.launch(FIRST, batch(), output([5], [6]))
    ahead = batch([1, 2])
    ahead.num_computed_tokens_np = Unknown()
    hooked.launch(Scheduled(), ahead, output([7], [8]))
    ahead.idx_mapping = Unknown()
    hooked._steps[-1].output = hooked._steps[-1].checked = Unknown()

    hooked.take_draft_token_ids()

    assert step.told[0][0].in_flight == InFlight([1, 2])


class Copies(TorchDispatchMode):
    """Records copies between a device and the CPU; meta tensors stand for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.to_device: list[bool] = []  # whether each lets the CPU go on
        self.to_cpu = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default:
            is_there = args[0].device.type == "meta"
            goes_there = kwargs.get("device", args[0].device).type == "meta"
            if goes_there and not is_there:
                self.to_device.append(bool(kwargs.get("non_blocking")))
            self.to_cpu += is_there and not goes_there
        self.to_cpu += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **kwargs)


def test_a_step_launched_ahead_neither_waits_nor_reads_from_the_device(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that the CPU waits for would end the overlap; vLLM's function copies without that."""
    copied: list[list[int]] = []

    def vllms_copy(data: Any, device: Any) -> torch.Tensor:
        copied.append(data.tolist())
        return torch.empty(data.shape, dtype=torch.int64, device=device)

    monkeypatch.setattr(runner, "async_tensor_h2d", vllms_copy)
    hooked.launch(FIRST, batch(), output([5], [6]))
    hooked.req_states.draft_tokens = torch.zeros(3, LONGEST, dtype=torch.int64, device="meta")
    ahead = Scheduled(scheduled_spec_decode_tokens={"a": [3, 4], "b": [5]})

    with Copies() as copies:
        hooked._begin(ahead)
        hooked.take_draft_token_ids()

    assert copied == [[2, 0], [[3, 4], [5, 0]]]  # slots and tokens
    assert (copies.to_device, copies.to_cpu) == ([], 0)


def test_a_check_is_read_with_the_tokens_of_its_step(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "load_head", lambda *_, **__: None)
    hooked.vllm_config = None
    hooked.load_model()
    check = hooked.rejection_sampler.check
    assert check is not None
    check._value = torch.tensor([0.25])
    hooked.launch(FIRST, batch(), output([5], [6]))
    check._value = torch.tensor([0.75])
    hooked.launch(Scheduled(), batch([1, 2]), output([7, 8], [9]))
    assert hooked.speculation is not None
    counts = hooked.speculation.sampling.counts
    assert sum(counts) == 0

    hooked.take_draft_token_ids()
    assert (counts[2], sum(counts)) == (1, 1)
    hooked.take_draft_token_ids()
    assert (counts[7], sum(counts)) == (1, 2)


def test_a_rank_that_does_not_draft_checks_nothing(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "load_head", lambda *_, **__: None)
    monkeypatch.setattr(
        runner, "get_tp_group", lambda: SimpleNamespace(rank_in_group=1, world_size=2)
    )
    other = Hooked(None, None)
    other.vllm_config = None

    other.load_model()

    assert other.rejection_sampler.check is None
