from __future__ import annotations

import pytest

from tfhet import process_output as room
from tfhet.process_output import OutputLines


def states(*chunks: bytes) -> list[str]:
    """The lines of chunks, with the state after each chunk that has a new one, in brackets."""
    lines, found = OutputLines(), list[str]()
    for chunk in chunks:
        found += lines.add(chunk)
        if lines.is_redrawn:
            found.append(f"[{lines.state()}]")
    return [*found, *lines.end()]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"\r 1/3", b"\r 2/3", b"\r 3/3", b"\n"], ["[ 1/3]", "[ 2/3]", "[ 3/3]"]),
        ([b"1/3\r", b"2/3\r", b"3/3\r\nend"], ["[1/3]", "[2/3]", "3/3", "end"]),
        ([b"1/2 [=>]" + 8 * b"\b" + b"\r2/2 [==]", 8 * b"\b" + b"\r2/2 done\n"], ["[2/2 [==]]", "2/2 done"]),
        ([b"|\b/", b"\b-", b"\bdone\n"], ["[/]", "[-]", "done"]),
        ([b"\r\xe2\x96", b"\x88 50%\r\xe2\x96\x88\xe2"], ["[\u2588]", "\u2588\ufffd"]),
        ([b"\r 5%", b"Traceback (most recent call last):\n"], ["[ 5%]", "Traceback (most recent call last):"]),
        ([b"\r 5%Traceback (most recent call last):\nE: x"], [" 5%", "Traceback (most recent call last):", "E: x"]),
        ([b"a\r", b"\nb\r\n\n"], ["[a]", "b", ""]),
        ([b"no ", b"end"], ["no end"]),
        ([b"\xc3", b"\xa9\n", b"\xc3"], ["\u00e9", "\ufffd"]),
    ],
)
def test_lines_and_states(chunks, expected):
    assert states(*chunks) == expected


NESTED = [b"\repoch 0/2", b"\n", b"\rstep 1/9", b"\x1b[A", b"\n", b"\rstep 2/9", b"\x1b[A"]
"""Two bars of tqdm."""


def test_nested_bars_are_one_redrawn_line():
    shown = states(*NESTED)
    assert shown == ["[epoch 0/2]", "[step 1/9]", "[step 2/9]"]
    left = [b"\n\r        ", b"\x1b[A", b"\repoch 1/2", b"\n\rstep 1/9", b"\x1b[A"]
    assert states(*NESTED, *left)[3:] == ["[epoch 1/2]", "[step 1/9]"]
    assert states(b"".join(NESTED)) == ["epoch 0/2", "[step 2/9]"]


def test_lines_between_nested_bars_are_kept():
    written = [b"\r      \r", b"saved\n", b"\repoch 1/2", b"\n\rstep 3/9", b"\x1b[A", b"one\ntwo\n", b"three"]
    found = states(*NESTED, b"".join(written))
    assert [line for line in found if "[" not in line] == ["saved", "epoch 1/2", "one", "two", "three"]
    assert states(b"\rbar\x1b[A", b"\n", b"next\n") == ["[bar]", "next"]


@pytest.mark.parametrize("state", ["\r{}", "{}\r", "\b" * 16 + "{}", "\b{}"])
def test_hours_of_a_progress_bar_take_little_memory(state):
    lines = OutputLines()
    for number in range(10_000):
        assert not list(lines.add(state.format(f"{number:04}" * 4).encode()))
    assert len(lines._rest) <= room._REDRAWN_BYTES and lines.state().endswith(f"{9_999:04}")


def test_long_lines_are_cut_between_characters():
    lines = OutputLines()
    text = "\u20ac" * 500_000
    found = list(lines.add(text.encode())) + list(lines.end())
    assert len(found) == 2 and "".join(found) == text


def keras_bar() -> None:
    import tensorflow as tf

    bar = tf.keras.utils.Progbar(3)
    for number in (1, 2, 3):
        bar.update(number)


def test_real_nested_bars_are_one_line(capfdbinary):
    trange = pytest.importorskip("tqdm").trange
    for _ in trange(3, mininterval=0, desc="outer"):
        for _ in trange(50, mininterval=0, desc="inner", leave=False):
            pass
    lines = OutputLines()
    output = b"".join(capfdbinary.readouterr())
    found = [line for at in range(0, len(output), 7) for line in lines.add(output[at : at + 7])]
    assert len([line for line in found if line]) <= 4 and len(found) < 10


def tqdm_bar() -> None:
    for _ in pytest.importorskip("tqdm").tqdm(range(3), mininterval=0):
        pass


@pytest.mark.parametrize("bar", [keras_bar, tqdm_bar])
def test_real_bars_have_states(capfdbinary, bar):
    bar()
    capfdbinary.readouterr()  # the first import of TensorFlow prints more than the bar
    bar()
    output = b"".join(capfdbinary.readouterr())
    lines, middle = OutputLines(), output[: len(output) // 2]
    assert not list(lines.add(middle)) and lines.is_redrawn and "3" in lines.state()
    (last,) = [line for line in lines.add(output[len(middle) :]) if line]
    assert "3/3" in last and "1/3" not in last
