"""record/folder.py: the events of a run, written by its hosts and by who simulates them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

from tfhet.events import Event
from tfhet.record import EventTail, RunFolder

events = st.builds(
    Event,
    st.sampled_from(["host.ended", "rank.ended", "fault.injected"]),
    st.floats(0, 1e9) | st.just(1.0),
    st.dictionaries(st.sampled_from(["host", "code"]), st.integers() | st.text(max_size=3), max_size=2),
)


def chief(folder: RunFolder) -> RunFolder:
    return RunFolder(folder.path / "hosts" / "algo-2" / "output" / "data" / "tfhet")


def test_a_run_has_the_events_of_its_hosts_while_it_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    chief(folder).write_event(Event("training.started", 2.0))
    assert [event["event"] for event in folder.events()] == ["training.started"]
    folder.write_event(Event("hosts.started", 1.0))
    assert [event["event"] for event in folder.events()] == ["hosts.started", "training.started"]
    assert list(folder.host_events()) == ["algo-2"]


def test_a_run_without_events_gets_no_file_of_them(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).join_events() is None
    assert not RunFolder(tmp_path).events_path.exists()


@settings(max_examples=20)
@given(st.lists(events, max_size=6), st.lists(events, max_size=6))
def test_joining_changes_no_event_and_puts_them_in_order_of_time(own: list[Event], of_chief: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = RunFolder(Path(directory))
        for event in own:
            folder.write_event(event)
        for event in of_chief:
            chief(folder).write_event(event)
        before = folder.events()
        folder.join_events()
        assert folder.events() == before
        times = [event["time_s"] for event in before]
        assert times == sorted(times)
        for event in (*own, *of_chief):
            assert event.as_json() in before
        for path in folder.host_events().values():
            path.unlink()
        assert folder.events() == before, "the hosts' files are needed no more"


def test_events_are_read_as_they_come_and_half_of_one_is_left_for_later(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    tail = EventTail(folder.events_path)
    assert tail.read() == {}
    folder.write_event(Event("training.started", 1.0, {"command": ["training.reading"]}))
    assert set(tail.read()) == {"training.started"}
    with open(folder.events_path, "a", encoding="utf-8") as file:
        file.write('{"event": "training.rea')
        file.flush()
        assert set(tail.read()) == {"training.started"}
        file.write('ding", "time_s": 2.0}\nrubbish\n[]\n{"event": 3}\n')
    assert set(tail.read()) == {"training.started", "training.reading"}


def test_the_first_event_of_a_name_stays(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for number in range(3):
        folder.write_event(Event("rank.ended", float(number), {"rank": number}))
    assert EventTail(folder.events_path).read()["rank.ended"]["rank"] == 0
