"""Ports and addresses of hosts."""

from __future__ import annotations

import json
import os
import socket

import pytest

from tfhet.cluster import PortRange, Ports, address, check_free, claim, free_ports, listening, resolve
from tfhet.errors import ClusterError, UsageError


def plane(first: int = 6001, count: int = 1, dispatcher: int = 6000) -> dict[str, PortRange]:
    """The ports of a data plane: one that all hosts share, and a range of each host."""
    return {"dispatcher": PortRange(dispatcher, is_shared=True), "workers": PortRange(first, count)}


def test_ports_have_defaults() -> None:
    assert Ports.from_env({}) == Ports(16000)
    assert Ports.from_env({}, plane=plane(count=3)).plane == {"dispatcher": (6000,), "workers": (6001, 6002, 6003)}
    found = Ports.from_env({}, control=1, plane=plane(7, 0, 2))
    assert found == Ports(1, {"dispatcher": (2,), "workers": ()}) and found.every == (1, 2)


def test_port_variable_wins() -> None:
    env = {"TFHET_PORTS": '{"control": 20000, "workers": [20001, 20002]}'}
    found = Ports.from_env(env, control=5, plane=plane(count=2, dispatcher=7000))
    assert found == Ports(20000, {"dispatcher": (7000,), "workers": (20001, 20002)})
    assert Ports.from_env(env, plane=plane()).plane["workers"] == (20001,)
    env = found.to_env(shared=("dispatcher",))
    assert json.loads(env["TFHET_PORTS"])["dispatcher"] == 7000
    assert Ports.from_env(env, plane=plane(count=2)) == found


WRONG_PORTS = """
{ [1] {"worker":1} {"workers":[]} {"control":0} {"control":70000} {"control":true} {"control":"16000"} {"control":{}}
{"control":6001}
"""


@pytest.mark.parametrize("text", WRONG_PORTS.split())
def test_wrong_port_variable_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TFHET_PORTS"):
        Ports.from_env({"TFHET_PORTS": text}, plane=plane())


def test_host_has_an_address_or_its_name() -> None:
    env = {"TFHET_ADDRESSES": '{"algo-1": "127.0.0.2"}'}
    assert (resolve("algo-1", env), resolve("algo-2", env), resolve("algo-1", {})) == ("127.0.0.2", "algo-2", "algo-1")


@pytest.mark.parametrize("address", ["localhost", "LOCALHOST", "::1", "0.0.0.0"])
def test_other_host_is_never_localhost(address: str) -> None:
    env = {"TFHET_ADDRESSES": json.dumps({"algo-1": address})}
    with pytest.raises(ClusterError):
        resolve("algo-1", env, current_host="algo-2")
    assert resolve("algo-1", env, current_host="algo-1") == address


@pytest.mark.parametrize("text", ["{", "[]", *map(json.dumps, (7, "", "a b", "a..b", "x" * 64, "\u00b2" * 80))])
def test_wrong_address_is_refused(text: str) -> None:
    text = text if text in "{[]" else f'{{"algo-1": {text}}}'
    with pytest.raises(UsageError, match="TFHET_ADDRESSES|'algo-1'"):
        resolve("algo-1", {"TFHET_ADDRESSES": text})


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name service with some names."""
    known = {"algo": "192.0.2.7 127.0.0.3", "own": "127.0.1.1", "balancer": "192.0.2.9 192.0.2.8"}
    real = socket.getaddrinfo

    def look_up(name: str, *rest: object, **more: object) -> list[tuple[object, ...]]:
        return [one for address in known.get(name, name).split() for one in real(address, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize(
    ("address", "listen", "found"),
    [
        ("127.0.0.2", None, "127.0.0.2"),
        ("algo", None, "127.0.0.3"),  # the other address is another machine's
        ("own", "", "127.0.1.1"),
        ("192.0.2.7", "0.0.0.0", "0.0.0.0"),
        ("192.0.2.7", "127.0.0.5", "127.0.0.5"),
    ],
)
def test_host_listens_at_its_address(names: None, address: str, listen: str | None, found: str) -> None:
    env = {} if listen is None else {"TFHET_LISTEN": listen}
    assert listening(address, env, is_alone=True) == found


@pytest.mark.parametrize(
    ("address", "listen", "words"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("balancer", "", "'balancer' [(]192.0.2.8, 192.0.2.9[)]"),
        ("127.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("own", "", "'own' [(]127.0.1.1[)]"),
        ("127.0.0.1", "a" * 70, "'a*'"),
        ("nobody.invalid", "", "'nobody.invalid'"),
    ],
)
def test_foreign_address_is_refused(names: None, address: str, listen: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"{words}.*TFHET_LISTEN"):
        listening(address, {"TFHET_LISTEN": listen})


def test_free_ports_are_free_and_differ() -> None:
    first = free_ports(20)
    assert len(set(first)) == 20
    for port in first:
        check_free(port, "127.0.0.1")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first[-1] + 1))
        listener.listen()
        held = claim(first[-1] + 2)
        second = free_ports(3)
        held.close()
    assert not {*first, first[-1] + 1, first[-1] + 2} & {*second}


def test_too_many_ports_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "CHOSEN_PORTS", range(20_000, 20_002))
    with pytest.raises(UsageError, match="3"):
        free_ports(3)


def test_busy_port_names_its_process() -> None:
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        for take in (check_free, claim):
            with pytest.raises(UsageError, match=rf"port {port} .*process {os.getpid()}"):
                take(port)
    with claim(port), pytest.raises(UsageError, match=f"port {port} "):
        claim(port)
    claim(port).close()


@pytest.mark.parametrize(("port", "host"), [(0, "192.0.2.1"), (70000, "0.0.0.0")])
def test_impossible_address_is_named(port: int, host: str) -> None:
    with pytest.raises(UsageError, match=host if port == 0 else str(port)):
        check_free(port, host)
