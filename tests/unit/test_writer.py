from __future__ import annotations

import os
import threading
from functools import partial

from tfhet.writer import Writer, write_whole


class Stalled:
    """A function that stalls until it is released."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, entry: str) -> None:
        self.begun.set()
        assert self.released.wait(30)
        self.written.append(entry)


def test_entries_are_written_in_order():
    written: list[int] = []
    writer = Writer("test", written.append)
    for number in range(1000):
        writer.put(number)
    assert writer.close(30) and written == list(range(1000))


def test_stalled_writer_drops_oldest_entries():
    place = Stalled()
    writer = Writer("test", place, on_dropped=lambda count: f"{count} dropped", most=3)
    writer.put("first")
    assert place.begun.wait(30)
    for number in range(10):
        writer.put(str(number))
    assert not writer.flush(0.01)
    place.released.set()
    assert writer.close(30)
    assert place.written == ["first", "7 dropped", "7", "8", "9"]


def test_gathered_entries_are_written_on_close(monkeypatch):
    monkeypatch.setattr("tfhet.writer.GATHER_S", 600.0)
    batches: list[list[str]] = []
    written: list[str] = []
    writer = Writer(
        "test", written.append, gather=lambda entries: batches.append(list(entries)) or sorted(set(entries))
    )
    for entry in "abab":
        writer.put(entry)
    assert writer.close(30) and written == ["a", "b"] and batches == [["a", "b", "a", "b"]]


def test_full_queue_is_written_early(monkeypatch):
    monkeypatch.setattr("tfhet.writer.GATHER_S", 600.0)
    heard = threading.Event()
    writer = Writer("test", lambda entry: heard.set(), most=10, gather=list)
    for number in range(6):
        writer.put(number)
    assert heard.wait(30) and writer.close(30)


def test_close_has_a_limit():
    place = Stalled()
    writer = Writer("test", place)
    for entry in "abc":
        writer.put(entry)
    assert place.begun.wait(30)
    assert not writer.close(0.01)
    writer.put("late")
    place.released.set()
    writer._thread.join(30)
    assert place.written == ["a"]


def test_failed_write_loses_one_entry():
    written: list[int] = []

    def write(entry: int) -> None:
        if entry == 1:
            raise OSError("No space left on device")
        written.append(entry)

    writer = Writer("test", write)
    for number in range(3):
        writer.put(number)
    assert writer.close(30) and written == [0, 2]


def test_pipe_receives_every_byte():
    end, start = os.pipe()
    writer = Writer("test", partial(write_whole, start))
    writer.put(b"x" * 500_000)
    writer.put(b"end")
    got = b""
    while not got.endswith(b"end"):
        got += os.read(end, 1 << 16)
    assert writer.close(30) and len(got) == 500_003
    os.close(end), os.close(start)
