import hashlib
import hmac
from contextlib import suppress
from typing import Any

import pytest

from gateway.admission import keys
from gateway.admission.keys import Caller, KeyLimits, KeyRing, new_key
from gateway.errors import AuthenticationError

TEXT, RECORD = new_key(tenant="acme", name="laptop", created="today", limits=KeyLimits())
OTHER_TEXT, OTHER = new_key(tenant="other", name="", created="today", limits=KeyLimits())
RING = KeyRing([RECORD, OTHER], defaults=KeyLimits())
SECRET = TEXT.rpartition(f"{RECORD.key_id}-")[2]

UNKNOWN = [
    pytest.param(f"Bearer sg-{'0' * 12}-{SECRET}", id="unknown-id"),
    pytest.param(f"Bearer sg-{OTHER.key_id}-{SECRET}", id="secret-of-another"),
    pytest.param(f"Bearer {TEXT[:-1]}{'A' if TEXT[-1] != 'A' else 'B'}", id="wrong-secret"),
    pytest.param(f"Bearer {TEXT}x", id="too-long"),
    pytest.param(f"Bearer {TEXT[:-1]}", id="too-short"),
    pytest.param(f"Basic {TEXT}", id="other-scheme"),
    pytest.param(TEXT, id="no-scheme"),
    pytest.param("Bearer ", id="empty-key"),
    pytest.param("Bearer", id="scheme-alone"),
    pytest.param("", id="empty"),
    pytest.param("Bearer \xff\xfe", id="not-ascii"),
    pytest.param(f"Bearer sg-{RECORD.key_id}-{RECORD.secret_sha256[:43]}", id="its-hash"),
    pytest.param("Bearer " + "x" * 100_000, id="huge"),
]


def test_a_key_is_stored_as_a_hash() -> None:
    assert f"sg-{RECORD.key_id}-{SECRET}" == TEXT
    assert len(SECRET) == 43
    assert SECRET not in repr(RECORD)
    assert hashlib.sha256(SECRET.encode()).hexdigest() == RECORD.secret_sha256


def test_keys_are_unique() -> None:
    issued = [new_key(tenant="a", name="", created="", limits=KeyLimits())[0] for _ in range(100)]

    assert len(set(issued)) == 100


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_an_issued_key_finds_its_tenant(scheme: str) -> None:
    caller = RING.recognise(f"{scheme} {TEXT}")

    assert caller == Caller("acme", RECORD.key_id, KeyLimits())


def test_spaces_around_a_key_are_ignored() -> None:
    assert RING.recognise(f"Bearer  {TEXT} ").tenant == "acme"


@pytest.mark.parametrize("authorization", UNKNOWN)
def test_an_unknown_key_is_refused(authorization: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        RING.recognise(authorization)

    assert caught.value.message == "Incorrect API key provided."
    assert caught.value.headers == {"www-authenticate": "Bearer"}


def test_a_missing_key_is_requested() -> None:
    with pytest.raises(AuthenticationError, match="must provide"):
        RING.recognise(None)


@pytest.mark.parametrize(
    "authorization", [*UNKNOWN, pytest.param(f"Bearer {TEXT}", id="right-key")]
)
def test_every_key_is_checked_with_one_hash_and_one_constant_time_comparison(
    authorization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    def compare(presented: str, stored: str) -> bool:
        compared.append((len(presented), len(stored)))
        return hmac.compare_digest(presented, stored)

    monkeypatch.setattr(keys, "hmac", type("Counted", (), {"compare_digest": compare}))
    with suppress(AuthenticationError):
        RING.recognise(authorization)

    assert compared == [(64, 64)]


@pytest.mark.parametrize(
    ("own", "effective"),
    [
        (KeyLimits(), KeyLimits(10, 20, 30)),
        (KeyLimits(requests_per_minute=1), KeyLimits(1, 20, 30)),
        (KeyLimits(1, 2, 3), KeyLimits(1, 2, 3)),
    ],
    ids=["none-of-its-own", "one", "all"],
)
def test_the_limits_of_a_key_override_the_defaults(own: KeyLimits, effective: Any) -> None:
    text, record = new_key(tenant="t", name="", created="", limits=own)
    ring = KeyRing([record], defaults=KeyLimits(10, 20, 30))

    assert ring.recognise(f"Bearer {text}").limits == effective


@pytest.mark.parametrize(
    ("models", "asked", "may"),
    [
        (None, "m", True),
        (None, None, True),
        (("m", "n"), "m", True),
        (("m",), "n", False),
        (("m",), None, False),
        ((), "m", False),
    ],
    ids=["all", "all-unnamed", "one-of-them", "another", "unnamed", "none"],
)
def test_a_key_may_use_the_models_that_it_names(
    models: tuple[str, ...] | None, asked: str | None, may: bool
) -> None:
    text, record = new_key(tenant="t", name="", created="", limits=KeyLimits(), models=models)
    ring = KeyRing([record], defaults=KeyLimits())

    assert ring.recognise(f"Bearer {text}").may_use(asked) == may


def test_the_length_of_a_ring_is_its_number_of_keys() -> None:
    assert (len(RING), len(KeyRing([], defaults=KeyLimits()))) == (2, 0)
