import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gateway.admission.limits import Standing
from gateway.admission.local_limits import Ledger, LedgerFullError, create_shared_ledger

ADD_MANY = """
import sys
from gateway.admission.local_limits import Ledger

ledger = Ledger(int(sys.argv[1]), process=int(sys.argv[2]))
with ledger.account("started") as started:
    started.add_running(1)
running = 1
while running < 2:
    with ledger.account("started") as started:
        running = started.standing.running
for _ in range(5000):
    with ledger.account("k") as account:
        before = account.standing
        account.set_arrivals(before.requests_at + 1, before.tokens_at + 2)
        account.add_running(1)
"""


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = create_shared_ledger()
    yield made
    os.close(made)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = Ledger()
    yield made
    made.close()


def test_a_new_account_is_empty(ledger: Ledger) -> None:
    with ledger.account("k") as account:
        assert account.standing == Standing(0.0, 0.0, 0)


def test_accounts_are_independent(ledger: Ledger) -> None:
    with ledger.account("a") as account:
        account.set_arrivals(1.5, 2.5)
        account.add_running(3)

    with ledger.account("b") as account:
        assert account.standing == Standing(0.0, 0.0, 0)
    with ledger.account("a") as account:
        assert account.standing == Standing(1.5, 2.5, 3)


def test_processes_share_an_account(descriptor: int) -> None:
    first, second = Ledger(descriptor, process=0), Ledger(descriptor, process=63)

    with first.account("k") as account:
        account.set_arrivals(1.0, 2.0)
        account.add_running(2)
    with second.account("k") as account:
        account.add_running(1)

        assert account.standing == Standing(1.0, 2.0, 3)


def test_requests_of_a_process_that_died_are_not_counted(descriptor: int) -> None:
    survivor, dead = Ledger(descriptor, process=0), Ledger(descriptor, process=1)
    for each, count in ((survivor, 2), (dead, 5)):
        with each.account("k") as account:
            account.add_running(count)

    Ledger(descriptor, process=1)

    with survivor.account("k") as account:
        assert account.standing.running == 2


def test_a_restarted_process_keeps_the_used_limits(descriptor: int) -> None:
    with Ledger(descriptor, process=1).account("k") as account:
        account.set_arrivals(7.0, 8.0)

    with Ledger(descriptor, process=1).account("k") as account:
        assert account.standing == Standing(7.0, 8.0, 0)


def test_processes_do_not_overwrite_each_other(descriptor: int) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", ADD_MANY, str(descriptor), str(number)],
            pass_fds=(descriptor,),
        )
        for number in (1, 2)
    ]

    statuses = [child.wait(30) for child in children]

    assert statuses == [0, 0]
    with Ledger(descriptor, process=0).account("k") as account:
        assert account.standing == Standing(10_000.0, 20_000.0, 10_000)


def test_a_full_ledger_is_an_error() -> None:
    ledger = Ledger(entries=500)
    for number in range(500):
        with ledger.account(f"k{number}") as account:
            account.add_running(number)

    with ledger.account("k77") as account:
        assert account.standing.running == 77
    with pytest.raises(LedgerFullError), ledger.account("one-more"):
        pass
