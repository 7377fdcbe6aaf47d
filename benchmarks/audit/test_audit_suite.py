"""The needs of a host, from costs of accounts that are made up here, and real accounts of few examples."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks.audit import account
from benchmarks.audit import suite as audit
from tfhet.errors import JobFailed, UsageError
from tfhet.events import ignore


def phases(cpu_s: float, peak_bytes: float, *names: str) -> dict[str, Any]:
    return {name: {"cpu_s": cpu_s, "peak_bytes": peak_bytes} for name in names}


FIRST = phases(0.5, 30e6, "exchange", "visits", "rest", "standing", "ledger")
OTHER = phases(0.25, 10e6, "exchange", "visits", "rest", "standing")


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    audit.SUITE.options(parser)
    return parser.parse_args(words)


def test_a_host_is_rank_0_and_seven_others():
    assert audit.host_of(FIRST, OTHER) == {"cpu_s": 7 * 1.0 + 2.5, "peak_mb": 100.0, "stop_cpu_s": 7 * 0.75 + 2.0}


@pytest.mark.parametrize(("cpu_s", "peak_bytes", "kept"), [(0.5, 30e6, True), (9.0, 30e6, False), (0.5, 950e6, False)])
def test_the_promise_is_about_the_large_job(monkeypatch, cpu_s: float, peak_bytes: float, kept: bool):
    def made(who: str, case: str, examples: int, index: int) -> Any:
        of_rank_0 = phases(cpu_s, peak_bytes, *FIRST) if case == "half" else FIRST
        return {"rank-0": of_rank_0, "rank-1": OTHER}.get(who, phases(99.0, 9e9, "exchange", "visits"))

    monkeypatch.setattr(audit, "account", made)
    given = options("--millions", "1,2", "--large", "3")
    record = audit.SUITE.run(given, ignore, ("tfhet",))
    assert record.figures["audit.host.1m.whole.cpu_s"].value == 198.0
    assert record.figures["audit.host.2m.half.peak_mb"].n == 3
    assert audit.SUITE.is_kept(record) is kept and bool(audit.SUITE.notes(record)) is not kept


@pytest.mark.parametrize("words", [["--millions", "x"], ["--millions", "0"], ["--large", "0"]])
def test_options_that_measure_nothing_are_refused(words):
    with pytest.raises(UsageError, match="--millions"):
        audit.SUITE.run(options(*words), ignore, ())


def test_an_account_that_fails_says_why():
    with pytest.raises(JobFailed, match="the account nobody whole 1 failed: .*nobody"):
        audit.account("nobody", "whole", 1, 0)


@pytest.mark.parametrize("case", account.CASES)
def test_small_accounts_have_all_phases_and_the_right_visits(case: str, monkeypatch):
    monkeypatch.setattr(account, "MOST", 1000)
    job = account.Job(case, 2_000_000)
    assert len(set(job.of_rank(3, 256).tolist())) == pytest.approx(job.delivered / 256, rel=0.1)
    assert list(account.host(job)) == list(FIRST)  # which looks at the visits too
    assert list(account.one_rank(job, 0)) == list(FIRST)
    assert list(account.one_rank(job, 1)) == list(OTHER)
