from __future__ import annotations

import os
import signal
import threading

import pytest

from tfhet.trainer.training import STOP_CODE, hear_sigterm


@pytest.fixture(autouse=True)
def _handler_stays_as_it_was():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_code_is_what_a_shell_says_of_sigterm():
    assert STOP_CODE == 143


def test_a_sigterm_is_heard_and_not_died_of():
    stop = threading.Event()
    hear_sigterm(stop)
    assert not stop.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.is_set()


def test_outside_the_main_thread_nothing_is_heard_and_nothing_fails():
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
