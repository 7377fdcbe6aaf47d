from __future__ import annotations

from pathlib import Path

from tfhet.events import Event
from tfhet.record import EventTail, RunFolder


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
