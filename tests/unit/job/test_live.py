"""job/live.py: a job on a terminal, and where there is none."""

from __future__ import annotations

import io

import pytest

from tfhet.job.cost import Cost
from tfhet.job.live import STEPS_SHOWN, TOLD_EVERY_S, Glance, Plain, Redrawn, printable, screen
from tfhet.job.state import JobState
from tfhet.messages import MetricLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def glance(
    steps: int = 2, *, usd_per_hour: float | None = 36.0, status: str = "InProgress", spot: bool = False
) -> Glance:
    lines = [MetricLine(100 * (n + 1), 0, 86.1 + n, 950.0, 3.5, 2.25) for n in range(steps)]
    cost = Cost(725.0, usd_per_hour, spot, "no price of ml.new is known")
    return Glance(JobState("demo", status, "Training" if status == "InProgress" else status), lines, cost)


def test_without_a_terminal_every_line_is_a_plain_line() -> None:
    out = io.StringIO()
    with screen(out) as shown:
        shown.line("algo-1 dnn_group", "[tfhet] step=100", is_metric=True)
        shown.line("algo-1", "\x1b[31mred\x1b[0m 10 %\r100 %", is_metric=False)
        shown.show(glance(), 0.0)
    assert out.getvalue().splitlines() == [
        "algo-1 dnn_group | [tfhet] step=100",
        "algo-1 | 100 %",
        "[follow] demo: InProgress, Training; 12 min 05 s, $7.25 so far",
    ]


def test_the_cost_is_told_again_after_a_minute_with_new_steps_and_at_a_change() -> None:
    out = io.StringIO()
    shown = Plain(out)
    for now_s, seen in (
        (0.0, glance(1)),
        (TOLD_EVERY_S - 1, glance(2)),
        (TOLD_EVERY_S, glance(2)),
        (3 * TOLD_EVERY_S, glance(2)),
        (3 * TOLD_EVERY_S, glance(2, status="Completed")),
    ):
        shown.show(seen, now_s)
    assert len(out.getvalue().splitlines()) == 3
    assert out.getvalue().splitlines()[-1] == "[follow] demo: Completed; 12 min 05 s, $7.25"


def test_a_terminal_has_the_last_steps_in_a_table_and_the_rest_of_the_log_above_it() -> None:
    out = Terminal()
    with screen(out) as shown:
        assert isinstance(shown, Redrawn)
        shown.line("algo-1", "[tfhet] step=100 epoch=0", is_metric=True)
        shown.line("algo-1", "[bold]not markup[/bold]", is_metric=False)
        shown.show(glance(STEPS_SHOWN + 1), 0.0)
    said = out.getvalue()
    assert "algo-1 | [bold]not markup[/bold]" in said and "[tfhet] step=100 epoch=0" not in said
    assert "$7.25 so far" in said and "step ms" in said
    assert f" {100 * (STEPS_SHOWN + 1)} " in said.replace("\n", " ") and "86.1" not in said, "only the last steps"


def test_a_terminal_is_given_back_for_a_question() -> None:
    out = Terminal()
    with screen(out) as shown:
        with shown.paused():
            out.write("Stop?")
        shown.show(glance(), 0.0)
    assert "Stop?" in out.getvalue() and "$7.25" in out.getvalue()


def test_a_price_that_is_not_known_is_said() -> None:
    assert glance(usd_per_hour=None).headline.endswith("12 min 05 s, no price of ml.new is known")


def test_the_cost_of_spot_instances_is_at_most_that_on_demand() -> None:
    assert glance(spot=True).headline.endswith("at most $7.25 so far")


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
    Plain(out).line("algo-1", "ünï", is_metric=False)
    out.flush()
    assert out.buffer.getvalue() == b"algo-1 | ?n?\n"  # type: ignore[attr-defined]
