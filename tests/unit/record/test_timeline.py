from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.errors import DataError, UsageError
from tfhet.record import ClockOffset, Pause, RunFolder, StepTime, Timeline, TimelineFile, UsageSample, natural


def step(host: str, at_s: float, rank: int = 0, number: int = 1) -> StepTime:
    return StepTime(
        host=host, rank=rank, step=number, epoch=0, at_s=at_s, dur_s=0.5, wait_s=0.125, copy_s=0.0, allreduce_s=0.0
    )


def parts(folder: Path, **content: list) -> list[Path]:
    for name, found in content.items():
        TimelineFile(folder / f"{name}.jsonl").append(found)
    return sorted(folder.glob("*.jsonl"))


def test_what_several_processes_wrote_stands_in_the_order_of_time(tmp_path):
    found = Timeline.join(
        parts(
            tmp_path,
            first=[step("algo-1", 10.0), step("algo-1", 12.0, number=2)],
            second=[step("algo-2", 11.0, rank=1), UsageSample("algo-2", 9.0, 1.0, "rank-1", {"rank-1": 0.5})],
        )
    )
    assert [(each.rank, each.at_s) for each in found.steps] == [(0, 10.0), (1, 11.0), (0, 12.0)]
    assert found.usage[0].processes == {"rank-1": 0.5}
    assert (found.began_s, found.hosts) == (9.0, ["algo-1", "algo-2"])


def test_a_host_whose_clock_is_off_is_put_right_and_one_within_the_error_is_left(tmp_path):
    found = Timeline.join(
        parts(
            tmp_path,
            chief=[step("algo-1", 10.0), ClockOffset("algo-1", 10.0, 0.0, 0.0, 0.0)],
            late=[step("algo-2", 7.0, 1), Pause(host="algo-2", rank=1, name="validation", at_s=8.0, dur_s=0.5)],
            clock=[ClockOffset("algo-2", 7.5, 0.0, 3.0, 0.25)],
            right=[step("algo-3", 10.25, 2), ClockOffset("algo-3", 10.0, 0.0, 0.125, 0.25)],
        )
    )
    assert {each.host: each.at_s for each in found.steps} == {"algo-1": 10.0, "algo-2": 10.0, "algo-3": 10.25}
    assert found.pauses[0].at_s == 11.0


def test_of_two_comparisons_of_a_clock_the_closer_one_counts(tmp_path):
    told = [
        ClockOffset("a", 1.0, 0.0, 5.0, 0.5),
        ClockOffset("a", 2.0, 0.0, 4.0, 0.25),
        ClockOffset("a", 3.0, 0.0, 9.0, 1),
    ]
    found = Timeline.join(parts(tmp_path, a=[step("a", 10.0), *told]))
    assert found.steps[0].at_s == 14.0
    assert [clock.offset_s for clock in found.clocks] == [4.0]


def test_a_timeline_comes_back_from_its_file_and_is_not_put_right_twice(tmp_path):
    clock = ClockOffset("a", 1.0, 0.0, 5.0, 0.5)
    found = Timeline.join(parts(tmp_path, a=[step("a", 10.0), UsageSample("a", 9.0, 1.0, "a", {}), clock]))
    assert Timeline.read(found.write(tmp_path / "run" / "timeline.jsonl")) == found


def test_lines_that_cannot_be_read_are_left_out(tmp_path):
    (path,) = parts(tmp_path, a=[step("a", 10.0), step("a", 11.0, number=2)])
    path.write_bytes(b'{"kind": \xff}\n[]\n\n' + path.read_bytes() + b'{"kind": "step", "host"')
    assert [each.step for each in Timeline.join([path]).steps] == [1, 2]


@pytest.mark.parametrize("first", ["", "{", "[]", '{"kind": "step"}'])
def test_a_file_that_is_no_timeline_is_refused(tmp_path, first):
    path = tmp_path / "timeline.jsonl"
    path.write_text(first)
    with pytest.raises(DataError, match="is no timeline"):
        Timeline.read(path)


def test_a_timeline_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "timeline.jsonl"
    path.write_text('{"kind": "timeline", "schema": 99}\n')
    with pytest.raises(UsageError, match="schema 99"):
        Timeline.read(path)


@pytest.mark.parametrize("where", ["timeline", "tfhet/timeline", "hosts/algo-1/output/data/tfhet/timeline"])
def test_a_run_folder_finds_what_its_hosts_noted(tmp_path, where):
    folder = RunFolder(tmp_path)
    assert folder.timeline().is_empty and folder.join_timeline() is None and not folder.timeline_path.exists()
    parts(tmp_path / where, one=[step("a", 10.0)])
    found = folder.timeline()
    assert [each.at_s for each in found.steps] == [10.0]
    assert folder.join_timeline() == folder.timeline_path
    parts(tmp_path / where, two=[step("a", 12.0)])
    assert folder.timeline() == found  # as it was when it was joined


def test_a_part_is_added_to_and_nothing_makes_no_file(tmp_path):
    part = TimelineFile(tmp_path / "deep" / "a.jsonl")
    part.append([])
    assert not part.path.parent.exists()
    part.append([step("a", 1.0)])
    part.append([step("a", 2.0)])
    assert len(part.path.read_text().splitlines()) == 2


def test_hosts_are_counted_as_people_count_them():
    assert sorted(["algo-10", "algo-2", "x", "algo-1"], key=natural) == ["algo-1", "algo-2", "algo-10", "x"]
