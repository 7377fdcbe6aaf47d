"""report/live.py: a run on a terminal, and where there is none."""

from __future__ import annotations

import io

import pytest

from tfhet.messages import MetricLine
from tfhet.report.live import COST_EVERY_S, Plain, Redrawn, printable, screen
from tfhet.report.picture import Picture


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def picture(steps: int = 2, state: str = "InProgress, Training", cost: str = "12 min 05 s, $7.25 so far") -> Picture:
    lines = [MetricLine(100 * (n + 1), 0, 86.1 + n, 950.0, 3.5, 2.25) for n in range(steps)]
    return Picture(state, False, None, 725.0, lines, None, {}, 0, (), None, name="demo", cost=cost)


def test_without_a_terminal_every_line_is_a_plain_line() -> None:
    out = io.StringIO()
    with screen(out, "follow", has_log=True) as shown:
        shown.log("algo-1 dnn_group", "[tfhet] step=100", is_metric=True)
        shown.log("algo-1", "\x1b[31mred\x1b[0m 10 %\r100 %", is_metric=False)
        shown.show(picture(), 0.0)
    assert out.getvalue().splitlines() == [
        "algo-1 dnn_group | [tfhet] step=100",
        "algo-1 | 100 %",
        "[follow] demo: InProgress, Training; 12 min 05 s, $7.25 so far",
    ]


def test_the_cost_is_told_again_after_a_minute_with_new_steps_and_at_a_change() -> None:
    out = io.StringIO()
    shown = Plain(out, "follow", has_log=True)
    for now_s, seen in (
        (0.0, picture(1)),
        (COST_EVERY_S - 1, picture(2)),
        (COST_EVERY_S, picture(2)),
        (3 * COST_EVERY_S, picture(2)),
        (3 * COST_EVERY_S, picture(2, "Completed", "12 min 05 s, $7.25")),
    ):
        shown.show(seen, now_s)
    assert len(out.getvalue().splitlines()) == 3
    assert out.getvalue().splitlines()[-1] == "[follow] demo: Completed; 12 min 05 s, $7.25"


def test_a_terminal_has_the_last_step_in_a_table_and_the_rest_of_the_log_above_it() -> None:
    out = Terminal()
    with screen(out, "follow", has_log=True) as shown:
        assert isinstance(shown, Redrawn)
        shown.log("algo-1", "[tfhet] step=100 epoch=0", is_metric=True)
        shown.log("algo-1", "[bold]not markup[/bold]", is_metric=False)
        shown.log("algo-2/0 dnn_group", "ValueError: no", is_metric=False)
        shown.show(picture(9), 0.0)
    said = out.getvalue()
    assert "algo-1\x1b[0m | [bold]not markup[/bold]" in said and "[tfhet] step=100 epoch=0" not in said
    assert "\x1b[31m! ValueError: no" in said, "an error is marked, and red"
    assert "$7.25 so far" in said and "step time" in said
    assert "900, epoch 0" in said and "94.1 ms" in said and "86.1" not in said, "only the last step"


def test_a_terminal_is_given_back_for_a_question() -> None:
    out = Terminal()
    with screen(out, "follow", has_log=True) as shown:
        with shown.paused():
            out.write("Stop?")
        shown.show(picture(), 0.0)
    assert "Stop?" in out.getvalue() and "$7.25" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("1 %\r50 %\r100 %\r", "100 %"),
        ("\x1b]0;title\x07\x1b[2Jafter\x00\x08", "after"),
        ("\x9b31mstill", "31mstill"),
        ("ünï", "ünï"),
    ],
)
def test_a_line_moves_no_cursor(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_an_output_that_knows_only_ascii_takes_every_line() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Plain(out, "follow").log("algo-1", "ünï", is_metric=False)
    out.flush()
    assert out.buffer.getvalue() == b"algo-1 | ?n?\n"  # type: ignore[attr-defined]
