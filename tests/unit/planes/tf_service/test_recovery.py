"""The leader's launcher after a loss, with a fleet that only counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.planes.tf_service.recovery import RENEWALS, Recovery
from tfhet.planes.tf_service.serving import Serving


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

    def __init__(self, record: Path, error: OSError | None = None) -> None:
        self.said: list[str] = []
        self.failures: list[str] = []
        self.fleet = Fleet(error)
        self.recovery = Recovery(record, {"a": 2, "b": 2}, self.said.append, self.failures.append)

    def know(self, workers: int) -> None:
        self.fleet.workers_registered = workers
        self.recovery.expect_workers(self.fleet)


def test_the_script_is_told_when_the_workers_that_are_left_are_all_there(tmp_path):
    case = Case(tmp_path)
    case.recovery.lost(case.fleet, "b")
    assert case.fleet.renewed == 1
    for known, complete in ((0, False), (1, False), (2, True)):
        case.know(known)
        assert Serving.read(tmp_path) == Serving(("a",), complete)
    assert case.fleet.renewed == 1


def test_workers_of_the_lost_host_that_come_back_are_refused_and_at_last_accepted(tmp_path):
    case = Case(tmp_path)
    case.recovery.lost(case.fleet, "b")
    for _ in range(RENEWALS):
        case.know(3)
        assert Serving.read(tmp_path) == Serving(("a",), False)
    assert case.fleet.renewed == 1 + RENEWALS
    case.know(4)
    assert case.fleet.renewed == 1 + RENEWALS
    assert Serving.read(tmp_path) == Serving(("a",))


@pytest.mark.parametrize(("reads", "renewed"), [((), 1), ((True, True), 0), ((True, False), 1)])
def test_endless_data_sets_go_on_with_the_dispatcher_that_there_is(tmp_path, reads, renewed):
    case = Case(tmp_path)
    for endlessly in reads:
        case.recovery.reads(endlessly)
    case.recovery.lost(case.fleet, "b")
    case.know(2)
    assert case.fleet.renewed == renewed


def test_before_a_loss_any_number_of_workers_is_right(tmp_path):
    case = Case(tmp_path)
    case.know(9)
    assert case.fleet.renewed == 0
    assert Serving.read(tmp_path) is None


def test_a_dispatcher_that_cannot_begin_anew_ends_the_job(tmp_path):
    case = Case(tmp_path, OSError("no space left"))
    case.recovery.lost(case.fleet, "b")
    assert case.failures == ["the dispatcher cannot begin anew: no space left"]


def test_a_record_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    case = Case(tmp_path / "file")
    case.recovery.tell()
    assert "cannot learn who serves data" in case.said[0]
