"""report/verdict.py: whether a run waited for its input, and what to do first."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfhet.record import Figure, RunSummary
from tfhet.report.utilisation import HostUse
from tfhet.report.verdict import BOUND_PCT, FREE_PCT, verdict

CLUSTER = {"data_group": {"hosts": ["algo-1"], "role": "data"}, "dnn_group": {"hosts": ["algo-2"], "role": "dnn"}}


def host(used_pct: float) -> HostUse:
    return HostUse("algo-1", "data_group", 1.0, 1.0, used_pct / 100, 1.0, used_pct, None, None)


def costs(*values: float) -> list[tuple[str, Figure]]:
    return [(f"part {place}", Figure.single(value, unit="us")) for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("share", "kind", "words"),
    [
        (
            75.0,
            "bound",
            "Input-bound: 75.0 % of the step is waiting for data, without which it would be 4.00 times faster",
        ),
        (100.0, "bound", "100.0 % of the step is waiting for data, all of it"),
        (5.0, "partly", "Hardly input-bound: waiting for data is 5.0 % of the step"),
        (0.0, "free", "a perfect input would make it 1.00 times faster; first shorten the training step itself."),
        (None, "unknown", "not known: no step of it was measured"),
        (math.nan, "unknown", "not known"),
    ],
)
def test_the_share_of_waiting_decides(share, kind, words) -> None:
    found = verdict(RunSummary(wait_pct=share))
    assert found.kind == kind
    assert words in found.sentence


def test_the_dearest_part_is_named_first() -> None:
    bound = RunSummary(wait_pct=50.0)
    assert "first make part 2 cheaper, which is 60 % of" in verdict(bound, costs=costs(1.0, 3.0, 6.0)).sentence
    assert "first look at part 0, which is 90 %" in verdict(bound, costs=costs(9.0, 1.0)).sentence
    assert "first measure the pipeline with `tfhet profile`" in verdict(bound, costs=costs(0.0)).sentence


def test_data_hosts_that_are_idle_change_the_advice() -> None:
    waiting, free = RunSummary(wait_pct=50.0, cluster=CLUSTER), RunSummary(wait_pct=1.0, cluster=CLUSTER)
    assert (
        "find out why, since the busiest data host, algo-1, used 20.0 % of its CPUs"
        in verdict(waiting, hosts=[host(20.0)], costs=costs(1.0, 2.0)).sentence
    )
    assert "try fewer data CPUs, since" in verdict(free, hosts=[host(20.0)]).sentence
    for busy in (waiting, free):
        assert "algo-1" not in verdict(busy, hosts=[host(90.0)]).sentence


def test_what_a_plan_says_stands_behind_the_advice() -> None:
    found = verdict(RunSummary(wait_pct=50.0), costs=costs(1.0, 9.0), decision="So take two.")
    assert found.sentence.endswith("CPU; the plan says: take two.")


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_the_verdict_is_one_sentence_and_more_waiting_is_never_called_less(share: float) -> None:
    kinds = ["free", "partly", "bound"]
    found = verdict(RunSummary(wait_pct=share))
    assert found.sentence.endswith(".") and found.sentence.count(". ") == 0
    assert kinds.index(found.kind) == (share >= FREE_PCT) + (share >= BOUND_PCT)
