"""A child process that is kept, under limits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.cluster_runs import limited_child
from benchmarks.cluster_runs.limited_child import LimitedChild
from tfhet.container import Limits
from tfhet.container.cgroup import Cgroup
from tfhet.errors import TfhetError, UsageError
from tfhet.planes import with_malloc_tunables


@pytest.fixture
def groups() -> None:
    try:
        Cgroup.create("tfhet-tests-apart").remove()
    except UsageError as error:
        pytest.skip(f"no control groups here: {error}")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that counts the requests, or fails."""
    (tmp_path / "counting_child.py").write_text(
        "import os, sys, threading, time\n"
        "from tfhet.bench.child_process import answer_requests\n"
        "answered = []\n"
        "def answer(request):\n"
        "    print('noise')\n"
        "    if 'fail' in request: raise ValueError('no')\n"
        "    if 'end' in request: raise SystemExit(3)\n"
        "    if 'work' in request:\n"
        "        threading.Thread(target=exec, args=('while True: pass',), daemon=True).start()\n"
        "    if 'sleep' in request: time.sleep(request['sleep'])\n"
        "    answered.append(request)\n"
        "    return {'turn': len(answered), 'memory': os.environ.get('GLIBC_TUNABLES')}\n"
        "answer_requests(answer)\n"
        "open(sys.argv[1], 'w').close() if sys.argv[1:] else None\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    return "counting_child"


@pytest.mark.usefixtures("groups")
def test_a_process_that_is_kept_answers_each_time_and_ends_with_its_context(module: str) -> None:
    before = set(psutil.Process().children())
    with LimitedChild.started(module) as child:
        assert [child.ask({}, 60.0, limits)["turn"] for limits in (None, Limits(0.5), None)] == [1, 2, 3]
        with pytest.raises(TfhetError, match="counting_child: ValueError: no"):
            child.ask({"fail": 1}, 60.0)
        assert child.ask({}, 60.0) == {"turn": 4, "memory": with_malloc_tunables({})["GLIBC_TUNABLES"]}, (
            "as a job's workers"
        )
    assert set(psutil.Process().children()) <= before


@pytest.mark.usefixtures("groups")
def test_a_process_that_is_gone_or_slow_is_an_error(module: str) -> None:
    with pytest.raises(TfhetError, match="counting_child ended with exit code 3"), LimitedChild.started(module) as one:
        one.ask({"end": 1}, 60.0)
    with pytest.raises(TfhetError, match="no answer within 0.01 s"), LimitedChild.started(module) as one:
        one.ask({"sleep": 600}, 0.01)


@pytest.mark.usefixtures("groups")
def test_a_process_that_works_while_nothing_is_asked_of_it_is_an_error(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_child, "REST_CPU_S", 0.1)
    with LimitedChild.started(module) as child:
        child.ask({}, 60.0)
        time.sleep(0.5)
        child.ask({"work": 1}, 60.0)
        time.sleep(0.5)
        with pytest.raises(TfhetError, match=r"counting_child used 0\.. s of CPU in . s in which nothing was asked"):
            child.ask({}, 60.0)


@pytest.mark.usefixtures("groups")
def test_a_suite_that_is_told_to_end_lets_the_process_clear_up(module: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit), LimitedChild.started(module, str(tmp_path / "cleared")) as child:
        child.ask({}, 60.0)
        raise SystemExit(143)
    assert (tmp_path / "cleared").exists()
