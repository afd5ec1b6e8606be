from gateway.routing.groups import Groups


def test_a_new_group_needs_one_worker() -> None:
    assert Groups().size(7, 256) == 1


def test_the_size_is_the_share_as_a_power_of_two() -> None:
    groups = Groups()
    for at in range(4000):
        groups.note(at % 4 == 0, 1.0)

    assert groups.size(True, 64) == 16
    assert groups.size(False, 64) == 64


def test_more_work_counts_more() -> None:
    groups = Groups()
    for _ in range(1000):
        groups.note(1, 7.5)
        groups.note(2, 1.0)

    assert groups.size(1, 16) == 16
    assert groups.size(2, 16) == 2


def test_the_latest_requests_decide_however_many_there_were() -> None:
    groups = Groups()
    for _ in range(20_000):
        groups.note(1, 1e95)
    for _ in range(40_000):
        groups.note(2, 1e95)

    assert groups.size(1, 64) == 1
    assert groups.size(2, 64) == 64


def test_few_groups_are_kept() -> None:
    groups = Groups()
    for group in range(70_000):
        groups.note(group, 1.0)

    assert len(groups._amounts) == 65_536
