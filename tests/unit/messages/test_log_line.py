"""messages/log_line.py: every line is read as it was written, whatever stands around it."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfhet.messages import (
    UNITS,
    ContainerFailureLine,
    EpochLine,
    FirstBatchLine,
    HostLine,
    JobResultLine,
    MetricLine,
    RestartLine,
    StepPartsLine,
    epoch_pattern,
    parse_line,
)
from tfhet.messages.log_line import KINDS, read, write

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
texts = st.text(max_size=20)
counts = st.integers(0, 10**9)
hundredths = counts.map(lambda n: n / 100)
LINES: dict[type[Any], st.SearchStrategy[Any]] = {
    MetricLine: st.builds(MetricLine, counts, counts, counts.map(float), counts.map(float), st.just(2.5)),
    HostLine: st.builds(HostLine, texts, texts, texts, counts, st.dictionaries(names, texts, max_size=3)),
    FirstBatchLine: st.builds(FirstBatchLine, hundredths),
    EpochLine: st.builds(
        lambda epoch, rest: EpochLine({"epoch": epoch, **rest}),
        counts,
        st.dictionaries(names.filter("epoch".__ne__), counts | hundredths, max_size=4),
    ),
    StepPartsLine: st.builds(StepPartsLine, st.dictionaries(names, hundredths, min_size=1, max_size=4)),
    RestartLine: st.builds(RestartLine, texts, st.integers(-255, 255)),
    ContainerFailureLine: st.builds(ContainerFailureLine, texts),
    JobResultLine: st.builds(JobResultLine, st.integers(-255, 255), texts),
}
lines = st.one_of(list(LINES.values()))
before = st.sampled_from(["", "[algo-1/0] ", "[1,mpirank:0,algo-1]<stdout>:[algo-2/0] ", "12:00 "])
after = st.sampled_from(["", "\r\n", "  ", "[1,mpirank:1,algo-2]<stdout>:torn"])


@given(lines, before, after)
def test_a_line_is_read_as_it_was_written(line: Any, prefix: str, suffix: str) -> None:
    text = str(line)
    assert "\n" not in text and text.isascii()
    assert parse_line(prefix + text + suffix) == line


def test_every_kind_of_line_is_tried_above() -> None:
    assert set(KINDS.values()) == set(LINES)


def test_lines_are_as_documented() -> None:
    plane = {"workers": "4"}
    host = HostLine("heterogeneous", "data", "my group", 0, plane)
    assert str(host) == '[tfhet] host mode=heterogeneous role=data group="my group" ranks=0 plane.workers=4'
    assert str(StepPartsLine({"wait": 1.0, "copy": 0.126})) == "[tfhet] step_parts wait_ms=1.00 copy_ms=0.13"
    assert str(JobResultLine(3, "it broke")) == '[tfhet] job_result code=3 cause="it broke"'
    assert str(EpochLine({"epoch": 0, "steps": 3, "loss": 2.0})) == "[tfhet] end of epoch=0 steps=3 loss=2.0000"


DOCUMENTED = "[tfhet] step=500 epoch=2 step_ms=86.1 examples_per_s=95143 loss=2.3000 wait_pct=3.1"
METRICS = MetricLine(500, 2, 86.1, 95143.0, 3.1, 2.3)


def test_metric_line_is_as_documented() -> None:
    assert str(METRICS) == DOCUMENTED
    assert MetricLine.parse(f"12:00 [algo-1/0] {DOCUMENTED} \r\n") == METRICS
    quiet = MetricLine(500, 2, 86.1, 95143.0, 3.1)
    assert "loss" not in str(quiet) and set(quiet.numbers()) | {"loss"} == set(UNITS)


@pytest.mark.parametrize("loss", [None, math.nan, math.inf, -math.inf])
def test_any_loss_is_read_back(loss: float | None) -> None:
    read = MetricLine.parse(str(MetricLine(1, 0, 1.0, 1.0, 1.0, loss)))
    assert read is not None and str(read.loss) == str(loss)


@given(st.builds(MetricLine, *[st.integers(0, 2**53)] * 2, *[st.floats(0, 1e15)] * 3, st.none() | st.floats()))
def test_rounded_metrics_are_written_the_same(line: MetricLine) -> None:
    assert str(MetricLine.parse(str(line))) == str(line)


def test_epoch_pattern_finds_its_number() -> None:
    found = re.search(epoch_pattern("loss", "-?[0-9.]+"), str(EpochLine({"epoch": 0, "steps": 3, "loss": 2.0})))
    assert found is not None and found[1] == "2.0000"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[tfhet]",
        "[tfhet] host",
        "[tfhet] host mode",
        "[tfhet] host mode=a role=data group=b ranks=many",
        "[tfhet] host mode=a role=data group=b ranks=-1",
        "[tfhet] host mode=a role=data",
        "host mode=a role=data group=b ranks=0",
        "[tfhet] unheard_of code=3",
        "[tfhet] restart process=worker-1",
        "[tfhet] restart process=worker-1 code=x",
        "[tfhet] end of epoch=x",
        '[tfhet] job_result code=3 cause="not closed',
        "[tfhet] first_batch after_s=1e999",
        "[tfhet] first_batch after_s=-1",
        "[tfhet] training small_cnn: 3 epochs of 4 examples",
        "[tfhet] rank=0 batches=34 weights=c6eabc67",
        DOCUMENTED.replace("86.1", "8.6.1"),
        DOCUMENTED.replace("2.3000", "two"),
        DOCUMENTED.replace("500", "9" * 5000),
        DOCUMENTED.replace("epoch=2 ", ""),
        DOCUMENTED[:60],
    ],
)
def test_any_other_line_is_for_people(text: str) -> None:
    assert parse_line(text) is None


@given(st.text(), st.sampled_from(["", "[tfhet] ", "[tfhet] host ", "[tfhet] end of ", '[tfhet] x a="']))
def test_any_text_can_be_asked(text: str, begin: str) -> None:
    parse_line(begin + text)
    read(begin + text)


@given(st.dictionaries(names, texts, min_size=1, max_size=5), st.sampled_from(["", "host", "end of"]))
def test_any_fields_are_read_as_they_were_written(fields: dict[str, str], kind: str) -> None:
    assert read(f"[algo-1] {write(kind, fields)}") == (kind, fields)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["a " * 100_000, "[tfhet] " * 20_000, "[tfhet] " + "a" * 100_000 + " b", "a=" * 50_000]
)
def test_long_line_is_quick(text: str) -> None:
    parse_line(text)
    parse_line("[tfhet] " + text)
