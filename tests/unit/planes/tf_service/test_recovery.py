"""Recovery of the leader's launcher after a loss, with a fleet that counts renewals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tfhet.messages.rank import ServingHosts
from tfhet.planes.tf_service.recovery import RENEWALS, Recovery


class Fleet:
    def __init__(self, error: OSError | None = None) -> None:
        self.workers_registered = 4
        self.renewed = 0
        self._error = error

    def renew_dispatcher(self) -> None:
        if self._error:
            raise self._error
        self.renewed += 1
        self.workers_registered = 0


class Case:
    """The recovery of a job with the hosts a and b, two workers on each."""

    def __init__(self, error: OSError | None = None) -> None:
        self.sent: list[ServingHosts] = []
        self.failures: list[str] = []
        self.fleet = Fleet(error)
        self.gone: list[tuple[list[str], Callable[[], None]]] = []
        """Hosts, and the function to call when a worker of one of them is gone."""
        self.recovery = Recovery(self.fleet, {"a": 2, "b": 2}, self._send, self.failures.append, self._when_gone)

    def _when_gone(self, hosts: Sequence[str], then: Callable[[], None]) -> None:
        self.gone.append((list(hosts), then))

    def _send(self, hosts: ServingHosts) -> None:
        if not hosts.is_complete:
            assert self.fleet.workers_registered
        self.sent.append(hosts)

    def know(self, workers: int) -> None:
        self.fleet.workers_registered = workers
        self.recovery.expect_workers()


def test_script_learns_of_remaining_workers():
    case = Case()
    case.recovery.lost("b")
    assert case.fleet.renewed == 1
    for known, complete in ((0, False), (1, False), (2, True)):
        case.know(known)
        assert case.sent[-1] == ServingHosts(("a",), complete)
    assert case.fleet.renewed == 1


def test_returning_workers_are_accepted_in_the_end():
    case = Case()
    case.recovery.lost("b")
    for _ in range(RENEWALS):
        case.know(3)
        assert case.sent[-1] == ServingHosts(("a",), False)
    assert case.fleet.renewed == 1 + RENEWALS
    assert not case.gone
    case.know(4)
    assert case.fleet.renewed == 1 + RENEWALS
    assert case.sent[-1] == ServingHosts(("a",))


def test_accepted_worker_that_ends_causes_a_renewal():
    case = Case()
    case.recovery.lost("b")
    for known in (3, 3, 3, 3, 4):  # by then its launcher is frozen, and it serves
        case.know(known)
    ((hosts, worker_gone),) = case.gone
    assert hosts == ["b"] and case.fleet.renewed == 1 + RENEWALS
    worker_gone()
    assert case.fleet.renewed == 2 + RENEWALS and case.sent[-1] == ServingHosts(("a",), False)
    case.know(2)
    assert case.sent[-1] == ServingHosts(("a",)) and len(case.gone) == 1
    case.know(3)  # another of its workers has come again
    assert len(case.gone) == 2


def test_renewals_for_an_unseen_worker_are_limited():
    case = Case()
    case.recovery.lost("b")
    for _ in range(3 * RENEWALS):
        case.know(4)
        while case.gone:  # the leader does not see it where it looks
            case.gone.pop()[1]()
    assert case.fleet.renewed == 1 + 2 * RENEWALS
    case.know(4)
    assert case.sent[-1] == ServingHosts(("a",))


@pytest.mark.parametrize(("reads", "renewed"), [((), 1), ((True, True), 0), ((True, False), 1)])
def test_endless_data_keep_their_dispatcher(reads, renewed):
    case = Case()
    for endlessly in reads:
        case.recovery.reads(endlessly)
    case.recovery.lost("b")
    case.know(2)
    assert case.fleet.renewed == renewed


def test_no_renewal_before_a_loss():
    case = Case()
    case.know(9)
    assert case.fleet.renewed == 0
    assert case.sent == []


def test_failed_renewal_ends_the_job():
    case = Case(OSError("no space left"))
    case.recovery.lost("b")
    assert "no space left" in case.failures[0]
