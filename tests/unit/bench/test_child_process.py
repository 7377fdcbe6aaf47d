"""bench/child_process.py: both ends of the protocol between a suite and its child processes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator

import pytest

from tfhet.bench.child_process import AnsweringProcess, answer_line
from tfhet.errors import TfhetError

CHILD = """
import time
from tfhet.bench.child_process import answer_requests

def handle(request):
    print("noise of a library")
    if request == "end":
        raise SystemExit(3)
    time.sleep(request.get("seconds", 0.0))
    return {"twice": 2 * request["number"]}

answer_requests(handle)
"""


@pytest.fixture
def child() -> Iterator[AnsweringProcess]:
    process = AnsweringProcess("the child", [sys.executable, "-c", CHILD], os.environ)
    yield process
    process.kill()


def test_requests_are_answered_in_turn_whatever_the_child_prints(child: AnsweringProcess) -> None:
    assert [child.ask({"number": number})["twice"] for number in (1, 2)] == [2, 4]
    child.request({"number": 3})
    assert child.answer() == {"twice": 6}


def test_an_error_of_the_child_is_told_and_it_goes_on(child: AnsweringProcess) -> None:
    with pytest.raises(TfhetError, match="the child: KeyError: 'number'"):
        child.ask({})
    assert child.ask({"number": 1}) == {"twice": 2}


def test_a_child_that_ends_is_told_with_its_last_words(child: AnsweringProcess) -> None:
    with pytest.raises(TfhetError, match="the child ended with exit code 3: noise of a library"):
        child.ask("end")  # type: ignore[arg-type]


def test_a_child_that_is_slower_than_it_may_be_is_ended(child: AnsweringProcess) -> None:
    with pytest.raises(TfhetError, match="the child gave no answer within 0.1 s"):
        child.ask({"number": 1, "seconds": 60.0}, 0.1)
    with pytest.raises(TfhetError, match="the child ended"):
        child.signal(0)


def test_each_line_gets_one_line() -> None:
    answers = io.StringIO()
    for line in ('{"is": 1}\n', "{}\n"):
        answer_line(lambda request: {"was": request["is"]}, line, answers)
    assert [json.loads(line) for line in answers.getvalue().splitlines()] == [{"was": 1}, {"error": "KeyError: 'is'"}]
