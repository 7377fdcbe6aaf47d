"""The chief's launcher after a loss, with a fleet that only counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfhet.cluster import Serving
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


def chief(lost: tuple[str, ...] = ("b",)) -> Any:
    """Of a job with the data hosts a and b, two workers on each."""
    settings = SimpleNamespace(data_host_workers=2)
    place = SimpleNamespace(roles=SimpleNamespace(data_hosts=("a", "b")), workers=4, settings=settings)
    reports: list[dict] = []
    return SimpleNamespace(
        lost_hosts=dict.fromkeys(lost, "silent"),
        serving=tuple(host for host in ("a", "b") if host not in lost),
        place=place,
        report=reports.append,
        reports=reports,
    )


@pytest.fixture
def said() -> list[str]:
    return []


def test_the_script_is_told_when_the_workers_that_are_left_are_all_there(tmp_path, said):
    recovery, fleet = Recovery(tmp_path, said.append), Fleet()
    recovery.go_on_without(chief(), fleet, "b")
    assert fleet.renewed == 1
    assert said == ["b was lost: silent; training goes on, a serves data"]
    for known, complete in ((0, False), (1, False), (2, True)):
        fleet.workers_registered = known
        recovery.expect_workers(chief(), fleet)
        assert Serving.read(tmp_path) == Serving(("a",), complete)
    assert fleet.renewed == 1


def test_workers_of_the_lost_host_that_come_back_are_put_out_and_at_last_welcome(tmp_path, said):
    recovery, fleet = Recovery(tmp_path, said.append), Fleet()
    recovery.go_on_without(chief(), fleet, "b")
    for _ in range(RENEWALS):
        fleet.workers_registered = 3
        recovery.expect_workers(chief(), fleet)
        assert Serving.read(tmp_path) == Serving(("a",), False)
    assert fleet.renewed == 1 + RENEWALS
    fleet.workers_registered = 4
    recovery.expect_workers(chief(), fleet)
    assert fleet.renewed == 1 + RENEWALS
    assert Serving.read(tmp_path) == Serving(("a",))


@pytest.mark.parametrize(("reads", "renewed"), [((), 1), ((True, True), 0), ((True, False), 1)])
def test_data_sets_without_end_go_on_with_the_dispatcher_that_there_is(tmp_path, said, reads, renewed):
    recovery, fleet = Recovery(tmp_path, said.append), Fleet()
    for endlessly in reads:
        recovery.reads(endlessly)
    recovery.go_on_without(chief(), fleet, "b")
    recovery.expect_workers(chief(), fleet)
    assert fleet.renewed == renewed


def test_before_a_loss_any_number_of_workers_is_right(tmp_path, said):
    fleet = Fleet()
    fleet.workers_registered = 9
    Recovery(tmp_path, said.append).expect_workers(chief(lost=()), fleet)
    assert fleet.renewed == 0
    assert Serving.read(tmp_path) is None


def test_a_dispatcher_that_cannot_begin_anew_ends_the_job(tmp_path, said):
    found = chief()
    Recovery(tmp_path, said.append).go_on_without(found, Fleet(OSError("no space left")), "b")
    assert [report["type"] for report in found.reports] == ["failed"]
    assert "no space left" in found.reports[0]["cause"]


def test_a_record_that_cannot_be_written_is_said(tmp_path, said):
    (tmp_path / "file").touch()
    Recovery(tmp_path / "file", said.append).tell(Serving(("a",)))
    assert "cannot be told who serves data" in said[0]
