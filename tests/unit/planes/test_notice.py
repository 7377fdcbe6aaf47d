from __future__ import annotations

import io

import pytest

from tfhet.planes.notice import notify, understood


class Pipe(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


def test_a_notice_is_one_marked_line_in_one_write(monkeypatch):
    pipe = Pipe()
    monkeypatch.setattr("sys.stdout", pipe)
    notify("ready", port=7)
    assert pipe.writes == ['@tfhet {"event": "ready", "port": 7}\n']


def test_a_notice_is_understood_as_it_was_said(capsys):
    notify("reads", endlessly=True, names=["a", "b"])
    assert understood(capsys.readouterr().out) == ("reads", {"endlessly": True, "names": ["a", "b"]})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step=3",
        ' @tfhet {"event": "ready"}',
        "@tfhet ",
        "@tfhet {}",
        "@tfhet []",
        "@tfhet 7",
        '@tfhet "event"',
        '@tfhet {"port": 7}',
        '@tfhet {"event": "rea@tfhet {"event": "ready"}',
        "@tfhet " + "[" * 100_000,
    ],
)
def test_any_other_line_is_none(line):
    assert understood(line) is None
