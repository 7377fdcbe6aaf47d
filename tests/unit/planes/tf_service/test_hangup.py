from __future__ import annotations

import socket
import subprocess

import pytest

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
    with hang_up(addresses(["127.0.0.9"])):
        assert here.recv(1) == b""
    assert there.recv(1) == b""


def test_connections_to_others_stay(pair):
    here, there = pair
    with hang_up(addresses(["127.0.0.8"])):
        pass
    here.sendall(b"here")
    assert there.recv(9) == b"here"


def test_without_a_connection_nothing_is_started(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    for known in ({"127.0.0.9"}, frozenset[str]()):
        with hang_up(known):
            pass


def test_hosts_are_known_by_their_addresses_and_unknown_ones_have_none():
    assert addresses(["127.0.0.2", "no such host", ""]) >= {"127.0.0.2"}
    assert addresses(["localhost"]) & {"127.0.0.1", "::1"}
    assert addresses([]) == frozenset()
