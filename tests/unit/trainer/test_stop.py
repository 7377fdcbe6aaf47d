from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from tfhet.trainer.training import STOP_CODE, hear_sigterm


@pytest.fixture(autouse=True)
def _handler_stays_as_it_was():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_sets_the_event():
    stop = threading.Event()
    hear_sigterm(stop)
    assert not stop.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.is_set()


def test_other_threads_change_no_handler():
    before, failed = signal.getsignal(signal.SIGTERM), []

    def listen() -> None:
        try:
            hear_sigterm(threading.Event())
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join(10)
    assert failed == [] and signal.getsignal(signal.SIGTERM) is before


def test_failed_training_does_not_look_stopped():
    script = """
import os, signal
from types import SimpleNamespace
from tfhet.trainer import __main__ as script
def run():
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # as a training does
    raise RuntimeError("the data are gone")
collective = SimpleNamespace(shutdown=lambda: None)
script.build = lambda *_: SimpleNamespace(run=run, collective=collective)
class Late:  # goes when Python has given up its handlers
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
script.late = late = Late()
late.itself = late
script.main([], {})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 1 and "the data are gone" in done.stderr, done.stderr
    assert STOP_CODE == 143
