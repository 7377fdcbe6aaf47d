from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Set

import pytest

from tfhet.planes.tf_service import hangup
from tfhet.planes.tf_service.hangup import addresses, hang_up


@pytest.fixture
def pair():
    """A connection to 127.0.0.9, both ends in this process."""
    with socket.create_server(("127.0.0.9", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            yield here, there


def test_connections_to_an_address_are_ended_and_what_waits_for_an_answer_goes_on(pair):
    here, there = pair
    here.settimeout(30)
    with hang_up({"127.0.0.9"}):
        assert here.recv(1) == b""
    assert there.recv(1) == b""


def test_connections_to_others_stay(pair):
    here, there = pair
    with hang_up({"127.0.0.8"}):
        pass
    here.sendall(b"here")
    assert there.recv(9) == b"here"


def test_without_a_connection_nothing_is_started(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    for known in ({"127.0.0.9"}, frozenset[str]()):
        with hang_up(known):
            pass


LEAVES = """
import atexit, ctypes, socket, sys, time
from tfhet.planes.tf_service.hangup import hang_up_at_exit

class Reader:
    def __del__(self, receive=ctypes.PyDLL(None).recv, line=line.fileno(), buffer=ctypes.create_string_buffer(1)):
        receive(line, buffer, 1, 0)  # holds Python's lock

def later():
    time.sleep(2)
    line.sendall(b"stands")

reader = Reader()
atexit.register(later)
hang_up_at_exit({"127.0.0.9"})
sys.exit(5)
"""


def test_a_reader_that_is_left_behind_ends_with_python_and_not_before_the_exit_handlers():
    with socket.create_server(("127.0.0.9", 0)) as server:
        line = f"import socket\nline = socket.create_connection({server.getsockname()})\n"
        with subprocess.Popen([sys.executable, "-c", line + LEAVES]) as script:
            try:
                there, _ = server.accept()
                with there:
                    assert there.recv(10) == b"stands"
                    assert script.wait(30) == 5
                    assert there.recv(10) == b""
            finally:
                script.kill()


def _grows_to(found: Set[str], wanted: Set[str]) -> bool:
    until_s = time.monotonic() + 30
    while not found >= wanted and time.monotonic() < until_s:
        time.sleep(0.01)
    return found >= wanted


def test_hosts_are_known_by_their_addresses_and_unknown_ones_have_none():
    found = addresses(["no such host", "", "127.0.0.2", "127.0.0.3"])
    assert _grows_to(found, {"127.0.0.2", "127.0.0.3"}) and len(found) == 2


def test_a_name_that_cannot_be_looked_up_at_first_is_looked_up_again_and_nothing_waits(monkeypatch):
    answers, tries = threading.Event(), []

    def slow(host: str, port: None) -> object:
        tries.append(host)
        if len(tries) == 1:
            assert answers.wait(30)
            raise socket.gaierror("Temporary failure in name resolution")
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::ffff:10.0.0.1", 0, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(hangup, "_RETRY_S", 0.01)
    found = addresses(["algo-1"])
    assert not found
    answers.set()
    assert _grows_to(found, {"10.0.0.1"}) and tries == ["algo-1", "algo-1"]


def test_nobody_looks_up_names_for_a_reader_that_is_gone(monkeypatch):
    def fails(host: str, port: None) -> object:
        raise socket.gaierror("Name or service not known")

    before = set(threading.enumerate())
    monkeypatch.setattr(socket, "getaddrinfo", fails)
    monkeypatch.setattr(hangup, "_RETRY_S", 0.01)
    found = addresses(["algo-1"])
    (thread,) = set(threading.enumerate()) - before
    assert thread.is_alive() and not found
    del found
    thread.join(30)
    assert not thread.is_alive()
