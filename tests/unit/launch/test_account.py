"""The reports of the scripts of all ranks, and the summary that follows from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tfhet.launch.account import Account
from tfhet.messages import link, rank
from tfhet.record import RunSummary
from tfhet.schema import MessageError, to_json

SUMMARY = RunSummary(wait_pct=10.0, epochs=[{"epoch": 0, "steps": 3, "examples": 12}])


def say(account: Account, number: int, report: rank.Report) -> None:
    account.heard(link.ScriptReport(number, to_json(report)))


def deliver(account: Account, number: int, epoch: int, ids: Sequence[int], over: int = 0) -> None:
    text = rank.packed(np.array(ids, np.int64))
    say(account, number, rank.Delivered(epoch, text, 8, over))


def stand(account: Account, number: int, delivered: int, wait_pct: float = 10.0) -> None:
    say(account, number, rank.Standing(3, 20.0 + number, wait_pct, delivered))


def counts(summary: RunSummary, epoch: int = 0) -> tuple:
    found = summary.epochs[epoch]
    return tuple(found[name] for name in ("seen", "once", "repeated", "missing", "left", "by_rank"))


def test_ids_are_counted_over_all_ranks():
    account = Account(2)
    deliver(account, 0, 0, [0, 1, 2, 3])
    deliver(account, 1, 0, [4, 5, 6])
    deliver(account, 1, 0, [3, 3])  # one that rank 0 was given, too
    stand(account, 0, 4)
    stand(account, 1, 5, wait_pct=30.0)
    done = account.completed(SUMMARY)
    assert counts(done) == (9, 6, 1, 0, 1, [4, 5])
    assert (done.epochs[0]["steps"], done.not_counted) == (3, None)
    assert done.wait_pct == 20.0 and [each["step_ms"] for each in done.by_rank] == [20.0, 21.0]


def test_examples_are_missing_after_the_last_rank():
    account = Account(2)
    deliver(account, 0, 0, range(7), over=1)
    deliver(account, 0, 1, [9], over=1)
    stand(account, 0, 8)
    stand(account, 1, 0)
    assert counts(account.completed(SUMMARY))[3:5] == (0, 1)
    deliver(account, 1, 2, [10], over=1)
    stand(account, 1, 1)
    done = account.completed(SUMMARY)
    assert counts(done)[3:5] == (1, 0)
    assert [each["epoch"] for each in done.epochs] == [0, 1, 2] and counts(done, 1)[3:5] == (0, 7)


@pytest.mark.parametrize(("ranks", "delivered"), [(1, 8), (2, 6)], ids=["lost reports", "silent rank"])
def test_incomplete_reports_make_nothing_missing(ranks, delivered):
    account = Account(ranks)
    deliver(account, 0, 0, range(6), over=1)
    stand(account, 0, delivered)
    done = account.completed(SUMMARY)
    assert counts(done)[3:5] == (0, 2) and ("1 of 2" if ranks > 1 else "2 examples") in str(done.not_counted)


def test_summaries_of_others_are_unchanged():
    assert Account(1).completed(SUMMARY) is SUMMARY
    account = Account(1)
    stand(account, 0, 0, wait_pct=30.0)
    assert account.completed(SUMMARY).wait_pct == 10.0


def test_values_are_gathered_from_all_ranks():
    account = Account(2)
    reports = [("b", 1, 7), ("a", 1, 5), ("a", 1, 5), ("b", 0, 0), ("a", 0, 3), ("a", 0, 4), ("a", 1, 4)]
    found = [account.heard(link.ScriptReport(at, to_json(rank.Contribution(key, n)))) for key, at, n in reports]
    assert [(each.key, each.values) for each in found if each] == [("b", (0, 7)), ("a", (3, 5)), ("a", (4, 4))]


READING = {"type": "reading", "endless": True}
DELIVERED = {"type": "delivered", "epoch": 0, "ids": "?", "expected": 1, "over": 0}


@pytest.mark.parametrize(("number", "facts"), [(0, {}), (0, DELIVERED), (1, READING)])
def test_a_wrong_report_is_refused(number, facts):
    with pytest.raises(MessageError):
        Account(1).heard(link.ScriptReport(number, facts))
