from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.prefix import Prefix, block_ends, hash_prefix

TEXT = bytes(range(256)) * 64


def prefix(text: bytes, *, salt: str = "s", opening: bytes = b"") -> Prefix:
    return hash_prefix((salt,), (text,), (opening,))


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_prompts_share_the_hashes_of_what_they_share(shared: int, length: int) -> None:
    one = prefix(TEXT)
    two = prefix(TEXT[:shared] + b"\xff\x00" * (length // 2))
    same = [a == b for a, b in zip(one.hashes, two.hashes, strict=False)]
    within = sum(end <= shared for end in two.ends)

    assert all(same[:within])
    assert not any(same[within + 1 :])


@given(st.lists(st.binary(max_size=3000), max_size=8))
def test_where_a_prompt_is_cut_into_parts_does_not_matter(parts: list[bytes]) -> None:
    assert hash_prefix(("s",), parts, ()) == prefix(b"".join(parts))


@given(st.integers(0, 2**20))
def test_blocks_grow_with_what_lies_before_them(length: int) -> None:
    ends = block_ends(length)

    assert ends == sorted(set(ends))
    assert all(end <= length for end in ends)
    assert len(ends) <= 70
    assert length - (ends[-1] if ends else 0) <= max(1024, length / 8 + 1)


def test_hashes_end_where_blocks_end() -> None:
    assert list(prefix(TEXT).ends) == block_ends(len(TEXT))


def test_another_salt_is_another_prompt() -> None:
    assert not set(prefix(TEXT).hashes) & set(prefix(TEXT, salt="t").hashes)
    assert hash_prefix(("a", "b"), (TEXT,), ()) != hash_prefix(("ab", ""), (TEXT,), ())


def test_the_key_depends_on_the_opening_alone() -> None:
    one, two = prefix(TEXT, opening=b"hi"), prefix(TEXT[1:], opening=b"hi")

    assert one.key == two.key != prefix(TEXT, opening=b"ho").key


def test_prompts_that_open_alike_are_a_group() -> None:
    assert prefix(TEXT).group == prefix(TEXT[:1024] + b"other").group
    assert prefix(b"short", opening=b"short").group == prefix(b"short", opening=b"short").key
