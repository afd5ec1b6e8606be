from gateway.protocol.tenant import TenantDigests


def test_a_callers_salt_splits_its_own_cache_and_reaches_no_other() -> None:
    digests = TenantDigests(b"secret")
    callers = [("a", ""), ("a", "b"), ("ab", ""), ("b", "a"), ('a", "b', ""), ("\ud800", "")]

    names = {digests.of(*caller) for caller in callers}

    assert len(names) == 6
    assert all(len(name) == 32 and name.isalnum() for name in names)


def test_a_name_needs_the_secret() -> None:
    names = [TenantDigests(secret).of("acme") for secret in (b"one", b"one", b"two")]

    assert names[0] == names[1] != names[2]
    assert "one" not in repr(TenantDigests(b"one"))
