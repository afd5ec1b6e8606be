from itertools import groupby, pairwise

from bench.routing.traffic import make_traffic

TRAFFIC = make_traffic(3, tenants=20, requests_per_second=10, seconds=300)


def test_requests_come_in_order_and_at_the_rate() -> None:
    times = [request.at for request in TRAFFIC]

    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 300
    assert 0.6 < len(TRAFFIC) / 3000 < 1.5


def test_conversations_grow_and_keep_their_opening() -> None:
    ordered = sorted(TRAFFIC, key=lambda request: (request.conversation, request.turn))
    for _, turns in groupby(ordered, key=lambda request: request.conversation):
        talk = list(turns)
        assert len({(turn.tenant, turn.system, turn.system_tokens) for turn in talk}) == 1
        for before, after in pairwise(talk):
            assert after.turn == before.turn + 1
            assert after.prompt_tokens > before.prompt_tokens + before.answer_tokens


def test_few_tenants_have_most_of_the_traffic() -> None:
    counts = sorted((sum(r.tenant == t for r in TRAFFIC) for t in range(20)), reverse=True)

    assert sum(counts[:5]) > 0.5 * len(TRAFFIC)
