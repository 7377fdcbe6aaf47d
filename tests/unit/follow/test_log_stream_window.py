"""follow/log_line.py: lines in the order of their times, if they come not too late."""

from __future__ import annotations

from fake_clock import FakeClock
from hypothesis import given, strategies as st

from tfhet.follow.log_line import LogLine, LogWindow


def line(at_s: float, text: str = "", host: str = "algo-1") -> LogLine:
    return LogLine(host, round(1000 * at_s), text or f"at {at_s:g}")


def test_lines_of_several_hosts_come_in_the_order_of_their_times() -> None:
    clock = FakeClock()
    window = LogWindow(clock, 5.0)
    window.add([line(2), line(4)])
    window.add([line(1, host="algo-2"), line(3, host="algo-2")])
    assert window.due() == []
    clock.sleep(5)
    assert [each.at_ms for each in window.due()] == [1000, 2000, 3000, 4000]
    assert window.due() == [] and window.rest() == []


def test_a_line_that_is_late_by_less_than_the_window_still_comes_in_its_place() -> None:
    clock = FakeClock()
    window = LogWindow(clock, 5.0)
    window.add([line(10)])
    clock.sleep(4.9)
    window.add([line(9)])
    clock.sleep(0.1)
    assert [each.at_ms for each in window.due()] == [9000, 10000]


def test_a_line_that_is_later_than_the_window_is_given_at_once() -> None:
    clock = FakeClock()
    window = LogWindow(clock, 5.0)
    window.add([line(10)])
    clock.sleep(5)
    assert window.due() == [line(10)]
    window.add([line(9)])
    assert window.due() == [line(9)]


def test_no_line_waits_longer_than_the_window_however_many_come() -> None:
    clock = FakeClock()
    window = LogWindow(clock, 5.0)
    given_s: dict[int, float] = {}
    for second in range(30):
        window.add([line(second)])
        given_s.update({each.at_ms // 1000: clock.monotonic() for each in window.due()})
        clock.sleep(1)
    assert given_s == {second: second + 5.0 for second in range(25)}


def test_lines_of_one_time_keep_their_order() -> None:
    window = LogWindow(FakeClock())
    window.add([line(1, "b"), line(1, "a")])
    assert [each.text for each in window.rest()] == ["b", "a"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=40))
def test_every_line_comes_once_and_those_that_are_not_too_late_in_order(arrivals: list[tuple[int, int]]) -> None:
    """Each arrival: the line's time, and the pause behind it. Late is who comes long after a younger line."""
    clock, given_lines, window_s = FakeClock(), [], 5
    window = LogWindow(clock, float(window_s))
    added: list[tuple[float, int]] = []
    for number, (at_s, pause_s) in enumerate(arrivals):
        window.add([line(at_s, str(number))])
        added.append((clock.monotonic(), at_s))
        given_lines += window.due()
        clock.sleep(pause_s)
    given_lines += window.rest()
    assert sorted(int(each.text) for each in given_lines) == list(range(len(arrivals)))
    places = {int(each.text): place for place, each in enumerate(given_lines)}
    for one, (added_s, at_s) in enumerate(added):
        younger = [other for other, (_, its_s) in enumerate(added) if its_s > at_s]
        if all(added_s - added[other][0] < window_s for other in younger):
            assert all(places[one] < places[other] for other in younger)
