from __future__ import annotations

import itertools
import json
import os
import socket

import pytest

from tfhet.cluster import PortRange, Ports, address, check_free, claim, free_ports, listening, resolve
from tfhet.errors import ClusterError, UsageError


def plane(first: int = 6001, count: int = 1, dispatcher: int = 6000) -> dict[str, PortRange]:
    """The ports of a data plane: one that all hosts share, and a range of each host's own."""
    return {"dispatcher": PortRange(dispatcher, is_shared=True), "workers": PortRange(first, count)}


def test_ports_have_defaults_and_one_port_for_each_process() -> None:
    assert Ports.from_env({}) == Ports(16000)
    assert Ports.from_env({}, plane=plane()) == Ports(16000, {"dispatcher": (6000,), "workers": (6001,)})
    assert Ports.from_env({}, plane=plane(count=3)).plane["workers"] == (6001, 6002, 6003)
    found = Ports.from_env({}, control=1, plane=plane(7, 0, 2))
    assert found == Ports(1, {"dispatcher": (2,), "workers": ()})
    assert found.every == (1, 2)


def test_the_variable_wins_over_the_arguments() -> None:
    env = {"TFHET_PORTS": '{"control": 20000, "workers": [20001, 20002]}'}
    found = Ports.from_env(env, control=5, plane=plane(count=2, dispatcher=7000))
    assert found == Ports(20000, {"dispatcher": (7000,), "workers": (20001, 20002)})
    assert Ports.from_env(env, plane=plane()).plane["workers"] == (20001,)


def test_ports_go_into_an_environment_and_back() -> None:
    ports = Ports(20000, {"dispatcher": (20001,), "workers": (20002, 20003)})
    env = ports.to_env(shared=("dispatcher",))
    assert env == {"TFHET_PORTS": '{"control": 20000, "dispatcher": 20001, "workers": [20002, 20003]}'}
    assert Ports.from_env(env, plane=plane(count=2)) == ports


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"worker": 1}', "key 'worker'"),
        ('{"workers": []}', "gives 0 workers ports, this host needs 1"),
        ('{"control": 0}', "not a TCP port"),
        ('{"control": 70000}', "not a TCP port"),
        ('{"control": true}', "not a TCP port"),
        ('{"control": "16000"}', "not a TCP port"),
        ('{"control": {}}', "not a TCP port"),
        ('{"control": 6001}', "must differ"),
    ],
)
def test_a_wrong_variable_is_explained(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"TFHET_PORTS.*{says}"):
        Ports.from_env({"TFHET_PORTS": text}, plane=plane())


def test_a_host_is_reached_by_its_address_or_else_by_its_name() -> None:
    env = {"TFHET_ADDRESSES": '{"algo-1": "127.0.0.2"}'}
    assert resolve("algo-1", env) == "127.0.0.2"
    assert resolve("algo-2", env) == "algo-2"
    assert resolve("algo-1", {}) == "algo-1"


@pytest.mark.parametrize("address", ["localhost", "LOCALHOST", "::1", "0.0.0.0"])
def test_another_host_is_never_localhost(address: str) -> None:
    env = {"TFHET_ADDRESSES": json.dumps({"algo-1": address})}
    with pytest.raises(ClusterError, match="on every other host means that host itself"):
        resolve("algo-1", env, current_host="algo-2")
    assert resolve("algo-1", env, current_host="algo-1") == address


@pytest.mark.parametrize("text", ["{", "[]", '{"algo-1": 7}', '{"algo-1": ""}', '{"algo-1": "a b"}'])
def test_a_wrong_address_table_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TFHET_ADDRESSES"):
        resolve("algo-1", {"TFHET_ADDRESSES": text})


@pytest.mark.parametrize("address", ["a..b", "x" * 64, "\u00b2" * 80])
def test_what_cannot_be_looked_up_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="the address of 'algo-1', is no name of a host"):
        resolve("algo-1", {"TFHET_ADDRESSES": json.dumps({"algo-1": address})})


def names(monkeypatch: pytest.MonkeyPatch, **known: str) -> None:
    """Lets a name service know these names, each with its addresses."""
    real = socket.getaddrinfo

    def look_up(name: str, *rest: object, **more: object) -> list[tuple[object, ...]]:
        each = known.get(name, name).split()
        return [one for address in each for one in real(address, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_a_host_listens_at_the_address_at_which_others_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, algo="192.0.2.7 127.0.0.3", own="127.0.1.1")
    assert listening("127.0.0.2", {}) == "127.0.0.2"
    assert listening("algo", {}, is_alone=True) == "127.0.0.3"  # the other one is another machine's
    assert listening("own", {}, is_alone=True) == "127.0.1.1"
    assert listening("own", {"TFHET_LISTEN": ""}, is_alone=True) == "127.0.1.1"
    assert listening("192.0.2.7", {"TFHET_LISTEN": "0.0.0.0"}) == "0.0.0.0"
    assert listening("192.0.2.7", {"TFHET_LISTEN": "127.0.0.5"}) == "127.0.0.5"


@pytest.mark.parametrize(
    ("address", "listen", "says"),
    [
        ("192.0.2.1", "", "'192.0.2.1' [(]192.0.2.1[)] is no address of this machine"),
        ("balancer", "", "'balancer' [(]192.0.2.8, 192.0.2.9[)] is no address of this machine"),
        ("127.0.0.1", "192.0.2.1", "'192.0.2.1' [(]192.0.2.1[)] is no address of this machine"),
        ("own", "", "'own' [(]127.0.1.1[)] is no address of this machine that others reach"),
        ("127.0.0.1", "a" * 70, "'a*' [(]not known here[)] is no address"),
        ("nobody.invalid", "", "'nobody.invalid' [(]not known here[)] is no address"),
    ],
)
def test_where_a_host_cannot_listen_is_said_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, address: str, listen: str, says: str
) -> None:
    names(monkeypatch, balancer="192.0.2.9 192.0.2.8", own="127.0.1.1")
    with pytest.raises(UsageError, match=f"{says}.*; set TFHET_LISTEN to .* or to 0.0.0.0 for all interfaces"):
        listening(address, {"TFHET_LISTEN": listen})


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        check_free(port, "127.0.0.1")


def test_free_ports_are_not_given_twice_nor_while_somebody_has_them() -> None:
    first = free_ports(3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first[-1] + 1))
        listener.listen()
        held = claim(first[-1] + 2)
        second = free_ports(3)
        held.close()
    assert not {*first, first[-1] + 1, first[-1] + 2} & {*second}


def test_processes_that_choose_at_once_choose_other_ports() -> None:
    def starts(process: int) -> int:
        return address.CHOSEN_PORTS[process * address._STRIDE % len(address.CHOSEN_PORTS)]

    chosen = sorted(starts(process) for process in range(5000, 5030))
    assert min(later - earlier for earlier, later in itertools.pairwise(chosen)) > 100


def test_more_ports_than_there_are_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "CHOSEN_PORTS", range(20_000, 20_002))
    with pytest.raises(UsageError, match="3 free ports were asked for, and there are [0-2] from 20000 on"):
        free_ports(3)


def test_a_busy_port_names_who_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} .*in use by process {os.getpid()}"):
            check_free(port, "127.0.0.1")
        with pytest.raises(UsageError, match=f"port {port}"):
            check_free(port)


def test_an_address_of_another_machine_is_explained() -> None:
    with pytest.raises(UsageError, match="not an address of this machine"):
        check_free(0, "192.0.2.1")
    with pytest.raises(UsageError, match="cannot listen on port 70000"):
        check_free(70000)


def test_a_claimed_port_belongs_to_one_job_before_it_listens_there():
    (port,) = free_ports(1)
    held = claim(port)
    with pytest.raises(UsageError, match=f"port {port} is kept by another tfhet job"):
        claim(port)
    held.close()
    claim(port, "127.0.0.1").close()


def test_a_port_at_which_another_program_listens_cannot_be_claimed_and_is_not_kept():
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} .* is in use by process"):
            claim(port)
    claim(port).close()
