"""Our scheduler over vLLM's own, without a model; tests/e2e shows that it schedules."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from prometheus_client import CollectorRegistry
from vllm import SamplingParams
from vllm.config import CacheConfig, DeviceConfig, SchedulerConfig, VllmConfig
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.metrics.stats import RequestSpecDecodeMetrics
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from engine.config import Speculation
from engine.drafting import Origin
from engine.drafting.origin import HEAD, NATIVE, SUFFIX
from engine.worker import scheduler
from engine.worker.metrics import AcceptanceMetrics
from engine.worker.scheduler import (
    HybridScheduler,
    SourcedDraftTokenIds,
    SourcedMetrics,
    prefill_of_step,
    room_in_cache,
    room_in_step,
)
from engine.worker.trace import take_accepted

BLOCKS, BLOCK_TOKENS, LONGEST_DRAFT = 4096, 16, 32

Start = Callable[..., HybridScheduler]


def no() -> bool:
    return False


MODEL = SimpleNamespace(
    is_diffusion=False,
    is_encoder_decoder=False,
    is_hybrid=False,
    max_model_len=8192,
    multimodal_config=None,
    return_sampling_mask=False,
    runner_type="generate",
    skip_tokenizer_init=True,
    supports_multimodal_inputs=False,
    uses_mrope=False,
)
"""What vLLM's scheduler reads of a model's configuration."""

SPECULATION = SimpleNamespace(
    max_num_new_slots_for_drafting=0,
    num_speculative_tokens=LONGEST_DRAFT,
    num_speculative_tokens_per_batch_size=None,
    use_dflash=no,
    use_dspark=no,
    use_eagle=no,
    use_eagle_block_drop=no,
    uses_draft_kv_cache=no,
    uses_draft_model=no,
)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Return a function that starts a scheduler with these options of vLLM's."""
    monkeypatch.setattr(
        scheduler, "AcceptanceMetrics", lambda: AcceptanceMetrics(CollectorRegistry())
    )
    monkeypatch.setattr(scheduler, "Periodic", lambda *_, **__: None)

    def start(*, blocks: int = BLOCKS, engines: int = 1, **options: Any) -> HybridScheduler:
        cache = CacheConfig(block_size=BLOCK_TOKENS, enable_prefix_caching=False)
        cache.num_gpu_blocks = blocks
        config = VllmConfig(
            scheduler_config=SchedulerConfig(
                max_model_len=MODEL.max_model_len,
                is_encoder_decoder=False,
                **{"max_num_batched_tokens": 2048, "max_num_seqs": 128, **options},
            ),
            cache_config=cache,
            device_config=DeviceConfig(device="cpu"),
            additional_config={"specgate": {"speculation": {"sources": ["suffix"]}}},
        )
        config.parallel_config.data_parallel_size = engines
        object.__setattr__(config, "model_config", MODEL)
        object.__setattr__(config, "speculative_config", SPECULATION)
        layer = FullAttentionSpec(
            block_size=BLOCK_TOKENS, num_kv_heads=1, head_size=1, dtype=torch.float32
        )
        groups = [KVCacheGroupSpec(["layer"], layer)]
        return HybridScheduler(
            config,
            KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups),
            StructuredOutputManager(config),
            block_size=BLOCK_TOKENS,
            log_stats=True,
        )

    return start


def add(
    to: HybridScheduler, *names: str, prompt: int = 3, traced: bool = False, tokens: int = 500
) -> None:
    for name in names:
        asked = {"specgate_trace": 1} if traced else None
        params = SamplingParams(max_tokens=tokens, ignore_eos=True, extra_args=asked)
        to.add_request(Request(name, list(range(prompt)), params, None))


def compute(
    of: HybridScheduler, output: Any, accepted: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Have each request whose prompt is read get a token, and so many of its draft's.

    Returns what the API server is told of each.
    """
    names = list(output.num_scheduled_tokens)
    sampled = [
        [] if of.requests[name].is_prefill_chunk else [7] * (1 + (accepted or {}).get(name, 0))
        for name in names
    ]
    outputs = of.update_from_output(
        output,
        ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: at for at, name in enumerate(names)},
            sampled_token_ids=sampled,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        ),
    )
    return {output.request_id: output for batch in outputs.values() for output in batch.outputs}


def draft(to: HybridScheduler, lengths: Mapping[str, int], origin: Origin) -> None:
    drafts = [[9] * length for length in lengths.values()]
    to.update_draft_token_ids(
        SourcedDraftTokenIds(list(lengths), drafts, [origin] * len(lengths), None)
    )


@pytest.mark.parametrize(
    ("free", "sequences", "room"),
    [(12, 4, None), (11, 4, 112), (4, 4, 0), (3, 4, 0), (0, 0, None)],
)
def test_room_in_the_cache(free: int, sequences: int, room: int | None) -> None:
    """Drafts of 32 tokens in blocks of 16: each sequence may need three blocks."""
    assert room_in_cache(free, 16, sequences=sequences, most=32) == room


@pytest.mark.parametrize(
    ("sequences", "prefill", "room"),
    [
        (128, 0, 1920),
        (62, 0, None),
        (63, 0, 1985),
        (8, 2040, 0),
        (8, 1784, None),
        (8, 1785, 255),
        (0, 2048, None),
    ],
)
def test_room_in_a_step_of_2048_tokens(sequences: int, prefill: int, room: int | None) -> None:
    found = room_in_step(2048, sequences=sequences, prefill_tokens=prefill, most=32)

    assert found == room


@pytest.mark.parametrize(
    ("unread", "longest", "in_pieces", "read"),
    [
        ([], 1000, True, 0),
        ([300, 400], 1000, True, 700),
        ([300, 9000, 5], 1000, True, 1000),
        ([300, 9000, 5], 256, True, 517),
        ([300, 800, 5], 1000, False, 300),
        ([800, 200, 1], 1000, False, 1000),
    ],
    ids=["none", "all fit", "cut", "in pieces of 256", "one waits", "full"],
)
def test_prompt_tokens_of_a_step(
    unread: list[int], longest: int, in_pieces: bool, read: int
) -> None:
    found = prefill_of_step(unread, room_tokens=1000, longest_piece=longest, in_pieces=in_pieces)

    assert found == read


class TestNextStep:
    @pytest.mark.parametrize(("more", "behind"), [(0, 0), (1, 25)])
    def test_drafts_that_fit_the_room_leave_a_token_for_each(
        self, start: Start, more: int, behind: int
    ) -> None:
        """128 requests of 512 tokens a step: 3 draft tokens for each, or 25 get nothing."""
        scheduler = start(max_num_batched_tokens=512)
        names = [f"r{number}" for number in range(128)]
        add(scheduler, *names)
        output = scheduler.schedule()
        compute(scheduler, output)
        room = output.specgate_next_step.room_tokens
        assert room == 384

        draft(scheduler, dict.fromkeys(names, room // 128 + more), Origin(SUFFIX))

        assert len(scheduler.schedule().num_scheduled_tokens) == 128 - behind

    def test_a_step_verifies_no_more_than_the_memory_profile_saw(self, start: Start) -> None:
        """512 rows of logits: 384 draft tokens and the next token of each request."""
        scheduler = start()
        add(scheduler, *(f"r{number}" for number in range(128)))

        assert scheduler.schedule().specgate_next_step.room_tokens == 384

    @pytest.mark.parametrize(
        ("options", "prefill", "room"),
        [
            ({}, 2047, 0),
            ({"long_prefill_token_threshold": 512}, 512, None),
            ({"long_prefill_token_threshold": 2030}, 2030, 17),
            ({"enable_chunked_prefill": False, "max_num_batched_tokens": 8192}, 6000, None),
            (
                {"enable_chunked_prefill": False, "max_num_batched_tokens": 8192, "prompt": 8192},
                0,
                None,
            ),
        ],
        ids=[
            "chunked",
            "threshold",
            "threshold that leaves few",
            "whole",
            "too long to fit beside",
        ],
    )
    def test_a_waiting_prompt_takes_the_room_of_drafts(
        self, start: Start, options: dict[str, Any], prefill: int, room: int | None
    ) -> None:
        options = dict(options)
        prompt = options.pop("prompt", 6000)
        scheduler = start(**options)
        add(scheduler, "decoding")
        compute(scheduler, scheduler.schedule())
        scheduler.max_num_active_reqs = 1  # the second must wait for the step after this one
        add(scheduler, "waiting", prompt=prompt)

        found = scheduler.schedule().specgate_next_step

        assert (found.prefill_tokens, found.room_tokens) == (prefill, room)
        assert (found.waiting, found.read_tokens, found.context_tokens) == (1, 0, 0)

    def test_a_partly_read_prompt_goes_on(self, start: Start) -> None:
        scheduler = start()
        add(scheduler, "decoding")
        compute(scheduler, scheduler.schedule())
        add(scheduler, "reading", prompt=3000)

        found = scheduler.schedule().specgate_next_step

        assert (found.prefill_tokens, found.room_tokens) == (953, None)
        assert (found.waiting, found.read_tokens, found.context_tokens) == (1, 2046, 2047)

    def test_the_scarcer_room_counts(self, start: Start) -> None:
        """Three decode beside a prompt of 2,000 tokens: 45 tokens of the step, or one block."""
        rooms = []
        for blocks in (BLOCKS, 5):
            scheduler = start(blocks=blocks)
            add(scheduler, "a", "b", "c")
            compute(scheduler, scheduler.schedule())
            scheduler.max_num_active_reqs = 3
            add(scheduler, "waiting", prompt=2000)
            rooms.append(scheduler.schedule().specgate_next_step.room_tokens)

        assert rooms == [45, 0]


def test_a_request_with_one_token_to_compute_gets_no_placeholders(start: Start) -> None:
    """vLLM 0.32 would give it 32 of them, verify and reject them all."""
    scheduler = start()
    add(scheduler, "decoding")
    compute(scheduler, scheduler.schedule())
    add(scheduler, "short", prompt=1)

    output = scheduler.schedule()

    assert output.num_scheduled_tokens == {"decoding": 1, "short": 1}
    assert output.scheduled_spec_decode_tokens == {}


class TestAccounting:
    def test_only_tokens_that_were_verified_count_as_drafted(self, start: Start) -> None:
        """The step takes 20 tokens: the second draft is cut to nine of its twelve."""
        scheduler = start(max_num_batched_tokens=20, max_num_seqs=2)
        add(scheduler, "a", "b")
        compute(scheduler, scheduler.schedule())
        draft(scheduler, {"a": 9, "b": 12}, Origin(HEAD, SUFFIX, 4))

        output = scheduler.schedule()
        compute(scheduler, output, accepted={"a": 9, "b": 9})

        assert output.num_scheduled_tokens == {"a": 10, "b": 10}
        assert scheduler._acceptance.by_source() == {
            "head": {"drafted": 8, "accepted": 8},
            "suffix": {"drafted": 10, "accepted": 10},
        }

    def test_tokens_that_a_grammar_forbids_were_not_verified(self, start: Start) -> None:
        scheduler = start()

        scheduler.make_spec_decoding_stats(None, 5, 1, {"a": 3}, "a")

        (counts,) = scheduler._acceptance.by_source().values()
        assert counts == {"drafted": 2, "accepted": 1}


class TestTrace:
    def test_steps_tell_who_drafted_the_accepted_tokens(self, start: Start) -> None:
        scheduler = start()
        add(scheduler, "a", "b", traced=True)
        add(scheduler, "untraced")
        first = compute(scheduler, scheduler.schedule())
        draft(scheduler, {"a": 5, "b": 5, "untraced": 5}, Origin(HEAD, SUFFIX, 2))

        second = compute(scheduler, scheduler.schedule(), {"a": 3, "untraced": 3})
        third = compute(scheduler, scheduler.schedule())

        assert sources(first) == {"a": [], "b": [], "untraced": []}
        assert sources(second) == {"a": ["head", "head", "suffix"], "b": [], "untraced": []}
        assert sources(third) == {"a": [], "b": [], "untraced": []}
        assert second["untraced"].kv_transfer_params is None

    def test_the_last_step_has_vllms_metrics_besides(self, start: Start) -> None:
        scheduler = start()
        scheduler.spec_decode_metrics_level = "detailed"  # as our option sets it
        add(scheduler, "a", traced=True, tokens=4)
        compute(scheduler, scheduler.schedule())
        draft(scheduler, {"a": 3}, Origin(SUFFIX))

        (last,) = compute(scheduler, scheduler.schedule(), {"a": 3}).values()

        assert len(last.new_token_ids) == 3  # of the four
        assert sources({"a": last}) == {"a": ["suffix"] * 3}
        assert last.spec_decode_metrics.per_step_accepted == [3]
        assert scheduler._traced == set()

    def test_a_request_that_was_aborted_is_forgotten(self, start: Start) -> None:
        scheduler = start()
        add(scheduler, "a", traced=True)
        assert scheduler._traced == {"a"}

        scheduler.finish_requests("a", RequestStatus.FINISHED_ABORTED)

        assert scheduler._traced == set()


def sources(told: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: take_accepted(output.kv_transfer_params)[0] for name, output in told.items()}


def test_each_step_encodes_the_source_of_its_draft() -> None:
    metrics = SourcedMetrics.new(8)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(5, 2, detailed=True)

    assert metrics.per_step_drafted == [0x1_0005]
    assert metrics.per_step_accepted == [2]
    assert metrics.num_draft_tokens == 5
    assert metrics.histogram[2] == 1


def test_only_fields_of_vllm_are_sent_to_the_server() -> None:
    metrics = SourcedMetrics.new(2)
    metrics.expect(Origin(SUFFIX))
    metrics.observe(2, 1, detailed=True)

    sent = msgspec.msgpack.encode(metrics)

    assert set(msgspec.msgpack.decode(sent)) == set(RequestSpecDecodeMetrics.__dataclass_fields__)
    received = msgspec.msgpack.decode(sent, type=RequestSpecDecodeMetrics)
    assert received.per_step_drafted == [0x1_0002]


def test_engines_that_wait_for_each_other_refuse_a_native_drafter(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM itself tells only engines of a model with experts that there are several."""
    native = {"method": "eagle", "num_speculative_tokens": 2}
    section = Speculation.model_validate({"sources": ["native"], "native": {"config": native}})
    monkeypatch.setattr(scheduler, "read_settings", lambda _: section)
    monkeypatch.setattr(SPECULATION, "uses_draft_kv_cache", lambda: True)
    start(engines=1)

    with pytest.raises(ValueError, match="engines of a model with experts"):
        start(engines=2)


@pytest.mark.parametrize(
    ("origins", "all_native"),
    [
        ({"a": None, "b": None}, True),
        ({"a": Origin(NATIVE), "b": None}, True),
        ({"a": Origin(NATIVE), "b": Origin(SUFFIX)}, False),
        ({"a": Origin(NATIVE, SUFFIX, 1), "b": None}, False),
    ],
    ids=["no source", "native", "suffix beside", "suffix behind"],
)
def test_all_ranks_learn_whether_the_native_drafter_made_every_draft(
    start: Start, origins: dict[str, Origin | None], all_native: bool
) -> None:
    scheduler = start()
    add(scheduler, *origins)
    compute(scheduler, scheduler.schedule())
    scheduler.update_draft_token_ids(
        SourcedDraftTokenIds(list(origins), [[7, 7]] * 2, list(origins.values()))
    )

    assert scheduler.schedule().specgate_all_native is all_native


def drafts_of(scheduler: HybridScheduler, *, ahead: bool, length: int = 2) -> None:
    names = [request.request_id for request in scheduler.running]
    scheduler.update_draft_token_ids(
        SourcedDraftTokenIds(
            names, [[9] * length for _ in names], [Origin(SUFFIX)] * len(names), None, ahead
        )
    )


def test_a_step_waits_for_the_tokens_of_the_last_one(start: Start) -> None:
    scheduler = start()
    add(scheduler, "a")

    output = scheduler.schedule()

    assert not scheduler.has_requests()
    assert not scheduler.take_known()
    compute(scheduler, output)
    assert (scheduler.take_known(), scheduler.take_known()) == (True, False)
    assert scheduler.has_requests()


def test_a_step_that_is_launched_ahead_counts_on_all_drafts_before_it(start: Start) -> None:
    scheduler = start()
    add(scheduler, "a")
    compute(scheduler, scheduler.schedule())
    drafts_of(scheduler, ahead=True)
    first = scheduler.schedule()
    assert first.scheduled_spec_decode_tokens == {"a": [9, 9]}
    assert scheduler.has_requests()

    second = scheduler.schedule()

    assert second.scheduled_spec_decode_tokens == {}  # nothing was drafted for it yet
    assert scheduler.requests["a"].num_computed_tokens == 3 + 3 + 1
    compute(scheduler, first, {"a": 1})
    drafts_of(scheduler, ahead=True, length=3)
    third = scheduler.schedule()
    compute(scheduler, second)
    compute(scheduler, third, {"a": 3})
    assert scheduler.requests["a"].num_output_placeholders == 0
    assert len(scheduler.requests["a"].output_token_ids) == 1 + 2 + 1 + 4


def test_a_draft_counts_for_its_source_though_the_next_one_is_scheduled(start: Start) -> None:
    scheduler = start()
    add(scheduler, "a")
    compute(scheduler, scheduler.schedule())
    drafts_of(scheduler, ahead=True)
    first = scheduler.schedule()
    scheduler.update_draft_token_ids(
        SourcedDraftTokenIds(["a"], [[9]], [Origin(NATIVE)], None, ahead=True)
    )
    second = scheduler.schedule()

    compute(scheduler, first, {"a": 1})
    compute(scheduler, second)

    counts = scheduler._acceptance.by_source()
    assert counts["suffix"] == {"drafted": 2, "accepted": 1}
    assert counts["native"] == {"drafted": 1, "accepted": 0}


def test_no_step_goes_ahead_of_a_grammar(start: Start) -> None:
    scheduler = start()
    add(scheduler, "a", "b")
    compute(scheduler, scheduler.schedule())
    drafts_of(scheduler, ahead=True)
    scheduler.schedule()
    assert scheduler.has_requests()

    scheduler.running[0].structured_output_request = object()

    assert not scheduler.has_requests()


def test_a_failed_draft_ends_going_ahead(start: Start) -> None:
    scheduler = start()
    add(scheduler, "a")
    compute(scheduler, scheduler.schedule())
    drafts_of(scheduler, ahead=True)
    scheduler.update_draft_token_ids(DraftTokenIds(["a"], [[]]))

    assert not scheduler.may_go_ahead()
