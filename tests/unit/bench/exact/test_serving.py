import pytest

from bench.exact.plan import BLOCK_TOKENS, FULL, STEP_TOKENS, Drafter, Kernels, Serving
from bench.exact.serving import method_of, settings_of
from bench.suffix.corpus import CONFIG

SERVINGS = list(dict.fromkeys(one.serving for one in FULL.passes))


@pytest.mark.parametrize("serving", SERVINGS, ids=lambda serving: serving.name)
def test_a_worker_computes_and_drafts_as_its_setting_says(serving: Serving) -> None:
    settings = settings_of(CONFIG, serving)
    method = method_of(settings, serving)

    assert settings.cpu_kernels is (serving.kernels == "ours")
    assert settings.vllm["dtype"] == serving.dtype
    assert settings.vllm["block_size"] == BLOCK_TOKENS
    assert (settings.vllm["max_num_batched_tokens"] == STEP_TOKENS) is serving.cuts
    assert method.is_ours is (serving.drafter == "specgate")
    if serving.drafter == "specgate":
        assert method.speculation["fixed_price"] == pytest.approx(0.01)
        assert method.speculation["sources"] == ["suffix", "head"]


@pytest.mark.parametrize(
    ("kernels", "baseline"),
    [("ours", None), ("vllm", {})],
    ids=["a worker without sources", "unmodified vLLM"],
)
def test_a_reference_cannot_draft(kernels: Kernels, baseline: object) -> None:
    serving = Serving("bfloat16", kernels, "none")

    method = method_of(settings_of(CONFIG, serving), serving)

    assert method.speculation["sources"] == []
    assert method.baseline == baseline


@pytest.mark.parametrize(("peer", "named"), [("ngram", "ngram"), ("arctic_suffix", "suffix")])
def test_a_peer_is_vllms_drafter(peer: Drafter, named: str) -> None:
    serving = Serving("bfloat16", "vllm", peer)

    method = method_of(settings_of(CONFIG, serving), serving)

    assert method.baseline is not None
    assert method.baseline["method"] == named
