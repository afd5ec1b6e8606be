from engine.policy import ForwardDrafter


def test_it_runs_while_it_pays() -> None:
    drafter = ForwardDrafter(3, calibrated=False)

    assert all(drafter.runs(pays=True) for _ in range(200))


def test_while_it_does_not_pay_tries_become_rarer_but_never_stop() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=16)

    ran = [step for step in range(1, 1000) if drafter.runs(pays=False)]
    drafter.runs(pays=True)
    again = [step for step in range(1, 20) if drafter.runs(pays=False)]

    gaps = [later - step for step, later in zip([0, *ran], ran, strict=False)]
    assert gaps == [*[1] * 8, *[16] * 4, *[32] * 4, *[48] * 16]
    assert again == [16]


def test_a_try_covers_a_few_sequences_and_all_in_turn() -> None:
    drafter = ForwardDrafter(3, calibrated=False)
    tried: list[list[int]] = []
    while len(tried) < 3:
        if drafter.runs(pays=False):
            tried.append(drafter.trial(20))

    assert drafter.trial(0) == []
    assert drafter.trial(3) == [0, 1, 2]
    assert [len(sequences) for sequences in tried] == [7, 6, 7]
    assert all(sequences == sorted(sequences) for sequences in tried)
    assert {at for sequences in tried for at in sequences} == set(range(20))


def test_a_step_that_pays_restarts_the_count() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=64)
    for _ in range(8 + 63):
        drafter.runs(pays=False)
    drafter.runs(pays=True)

    assert not any(drafter.runs(pays=False) for _ in range(63))
    assert drafter.runs(pays=False)
