"""What tenants can move for one another: memory, and nothing else."""

from pathlib import Path
from random import Random

import pytest

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB

Offer = tuple[list[int], list[float]]


def converse(index: SuffixIndex, tenant: str, *, seed: int) -> list[Offer]:
    """A request that repeats itself with changes; every draft and its survivals."""
    random = Random(seed)
    phrase = [random.randrange(100) for _ in range(30)]
    offers: list[Offer] = []
    name = f"{tenant}-{seed}"
    index.start(name, tenant, phrase)
    for token in phrase * 4:
        index.extend(name, [token if random.random() < 0.9 else random.randrange(100)])
        draft = index.propose(name, 8)
        offers.append((draft.tokens, list(draft.survival)))
    index.finish(name, keep=True)
    return offers


def mislead(index: SuffixIndex, tenant: str, *, seed: int) -> int:
    """A request of the same words that never goes on as drafted; how many tokens were refused."""
    random = Random(seed)
    phrase = [random.randrange(100) for _ in range(30)]
    refused = 0
    name = f"{tenant}-{seed}"
    index.start(name, tenant, phrase * 2)
    for token in phrase:
        index.extend(name, [token])
        draft = index.propose(name, 8)
        refused += len(draft)
        index.extend(name, [(draft.tokens[0] + 1) % 100 if draft.tokens else token])
    index.finish(name, keep=True)
    return refused


@pytest.mark.parametrize("tenant", ["umbrella", "acme "], ids=["another", "a similar name"])
def test_a_tenant_whose_drafts_are_always_wrong_changes_nothing_for_another(tenant: str) -> None:
    alone, shared = SuffixIndex(16 * MIB, salt=1), SuffixIndex(16 * MIB, salt=1)

    refused = 0
    for seed in range(20):
        refused += mislead(shared, tenant, seed=seed)
        assert converse(shared, "acme", seed=seed) == converse(alone, "acme", seed=seed)

    assert refused > 100


def test_a_tenant_whose_drafts_are_always_wrong_changes_its_own() -> None:
    alone, shared = SuffixIndex(16 * MIB, salt=1), SuffixIndex(16 * MIB, salt=1)

    for seed in range(20):
        mislead(shared, "acme", seed=seed)

    assert converse(shared, "acme", seed=99) != converse(alone, "acme", seed=99)


def test_tenants_stay_apart_in_a_snapshot(tmp_path: Path) -> None:
    alone, shared = SuffixIndex(16 * MIB, salt=1), SuffixIndex(16 * MIB, salt=1)
    for seed in range(5):
        mislead(shared, "umbrella", seed=seed)
        converse(shared, "acme", seed=seed)
        converse(alone, "acme", seed=seed)

    shared.save(tmp_path / "shared")
    loaded = SuffixIndex(16 * MIB, salt=1)
    loaded.load(tmp_path / "shared")

    assert converse(loaded, "acme", seed=9) == converse(alone, "acme", seed=9)
