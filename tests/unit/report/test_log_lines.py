"""report/log_lines.py: equal lines of ranks once, hosts in colours, errors marked."""

from __future__ import annotations

import io

import pytest

from tfhet.messages import JobResultLine, parse_line
from tfhet.report import gathered, has_colours, painted, place_of
from tfhet.report.log_lines import hue, is_error


def test_a_line_of_several_ranks_stands_once_and_none_is_lost() -> None:
    lines = ["[a/0] Epoch 1", "[b] Epoch 1", "[a/1] Epoch 1", "[a/0] Epoch 1", "[a/1] other", "Epoch 1", "Epoch 1"]
    assert gathered(lines) == {
        0: "[a/0] Epoch 1 (2 ranks)",
        1: "[b] Epoch 1",
        3: "[a/0] Epoch 1",
        4: "[a/1] other",
        5: "Epoch 1",
        6: "Epoch 1",
    }


def test_lines_that_each_host_has_merged_are_merged_again() -> None:
    lines = ["[a/0] Epoch 1 (8 ranks)", "b | [b/8] Epoch 1 (7 ranks)", "[1,15]<stdout>:[b/15] Epoch 1"]
    assert gathered(lines) == {0: "[a/0] Epoch 1 (16 ranks)"}
    ends = [f"[a/{rank}] {JobResultLine(1, 'it ended')}" for rank in range(2)]
    assert parse_line(gathered(ends)[0]) == JobResultLine(1, "it ended"), "programs read it as before"
    assert gathered(["[a/0] made of parts (3 ranks)"]) == {0: "[a/0] made of parts (3 ranks)"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[algo-2/0] text", ("algo-2/0", "text")),
        ("algo-2 | [algo-2] [worker-0] text", ("algo-2", "[worker-0] text")),
        ("[1,mpirank:0,algo-1]<stdout>:[algo-1/0] text", ("algo-1/0", "text")),
        ("[tfhet] error: text", ("", "[tfhet] error: text")),
        ("algo-2 | toolkit", ("", "algo-2 | toolkit")),
    ],
)
def test_the_place_of_a_line(line: str, found: tuple[str, str]) -> None:
    assert place_of(line) == found


@pytest.mark.parametrize(
    ("text", "is_bad"),
    [
        ("Traceback (most recent call last):", True),
        ("ValueError: no such file", True),
        ("Exception: no", True),
        ("[worker-0] tensorflow.python.framework.errors_impl.NotFoundError: a.tfrecord", True),
        ("2026-11-23 05:45:44.4: E tensorflow/core/x.cc:1] no memory", True),
        ("F0000 00:00:1.5 1 x.cc:1] check failed", True),
        (str(JobResultLine(1, "train.py ended")), True),
        ("22/22 - 7s - loss: 1.0580", False),
        ("no Error: here", False),
        ("2026-11-23 05:45:44.4: W tensorflow/core/x.cc:1] slow", False),
    ],
)
def test_errors_are_marked(text: str, is_bad: bool) -> None:
    assert is_error(text) == is_bad
    assert painted(f"[a/0] {text}", False) == f"[a/0] {'! ' if is_bad else ''}{text}"


def test_a_host_has_one_colour_and_its_neighbour_another() -> None:
    assert hue("algo-1/0") == hue("algo-1/7") == hue("algo-1") != hue("algo-2")
    assert painted("[algo-1/0] text", True) == "\x1b[35m[algo-1/0]\x1b[0m text"
    assert painted("algo-1 | [algo-1/0] Error: no", True).endswith("[algo-1/0]\x1b[0m \x1b[31m! Error: no\x1b[0m")
    assert painted("text", True) == "text"


def test_only_a_terminal_without_no_color_has_colours(monkeypatch) -> None:
    out = io.StringIO()
    assert not has_colours(out, {})
    monkeypatch.setattr(out, "isatty", lambda: True)
    assert has_colours(out, {"NO_COLOR": ""}) and not has_colours(out, {"NO_COLOR": "1"})
