from engine.policy import ForwardDrafter


def test_it_runs_while_it_pays() -> None:
    drafter = ForwardDrafter(3, calibrated=False)

    assert all(drafter.runs(pays=True) for _ in range(200))


def test_where_it_does_not_pay_it_runs_now_and_then() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=64)

    ran = [step for step in range(1, 193) if drafter.runs(pays=False)]

    assert ran == [64, 128, 192]


def test_what_never_pays_is_tried_ever_more_seldom_but_never_given_up() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=16)

    ran = [step for step in range(1, 1000) if drafter.runs(pays=False)]
    drafter.runs(pays=True)
    again = [step for step in range(1, 20) if drafter.runs(pays=False)]

    assert [later - step for step, later in zip([0, *ran], ran, strict=False)] == [
        *[16] * 4,
        *[32] * 4,
        *[48] * 16,
    ]
    assert again == [16]


def test_a_try_has_a_few_rows_and_all_in_turn() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=1)
    tried: list[list[int]] = []
    while len(tried) < 3:
        if drafter.runs(pays=False):
            tried.append(drafter.trial(20))

    assert drafter.trial(0) == []
    assert drafter.trial(3) == [0, 1, 2]
    assert [len(rows) for rows in tried] == [7, 6, 7]
    assert all(rows == sorted(rows) for rows in tried)
    assert {row for rows in tried for row in rows} == set(range(20))


def test_a_step_that_pays_begins_the_count_again() -> None:
    drafter = ForwardDrafter(3, calibrated=False, probe_steps=64)
    for _ in range(63):
        drafter.runs(pays=False)
    drafter.runs(pays=True)

    assert not any(drafter.runs(pays=False) for _ in range(63))
    assert drafter.runs(pays=False)


def test_a_new_request_sees_what_others_were_given() -> None:
    drafter = ForwardDrafter(2, calibrated=True)
    for _ in range(100):
        other = drafter.guesser()
        other.propose([1, 2], [0.9, 0.9])
        other.learn([9])

    assert drafter.guesser().expected()[0] < 0.1
