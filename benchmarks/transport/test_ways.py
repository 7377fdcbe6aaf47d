"""Other ways to move the same bytes, and other allocators."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import child_environment
from benchmarks.peers.place import Place
from benchmarks.transport import allocator, ways
from benchmarks.transport.suite import SELECTION, figures_of_rivals, only
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.wire.lane import CLIENTS, DISPATCHER, WORKERS, Turn
from tfhet.bench.wire.load import SIZES, Load
from tfhet.errors import TfhetError, UsageError


def turns(client: float, worker: float, rate: float = 1.0) -> list[Turn]:
    return [Turn(10**9, {CLIENTS: client * more, WORKERS: worker, DISPATCHER: 0.5}, rate) for more in (1, 1, 2)]


def test_each_load_is_held_against_a_socket():
    plain = Load("uint8", "19MB")
    taken = {plain.key: turns(1.0, 0.5), "raw_socket.19MB": turns(0.25, 0.25)}
    figures = figures_of_rivals([plain], ways.rivals("raw_socket"), taken)
    assert figures["transport.raw_socket.19MB.client_cpu_s_per_gb"].value == 0.25
    assert figures["transport.vs_raw_socket.uint8.19MB.none"].value == pytest.approx(2.0)
    assert figures["transport.vs_raw_socket.uint8.19MB.none"].samples == pytest.approx((2.0, 2.0, 3.0 / 1.25))
    assert figures_of_rivals([plain], (), taken) == {}


def test_each_way_of_the_service_is_held_against_open_grpc_and_a_socket():
    plain = Load("uint8", "19MB")
    taken = {plain.key: turns(1.0, 0.5), "service_open.19MB": turns(2.0, 1.0), "service_shared.19MB": turns(0.5, 0.25)}
    figures = figures_of_rivals([plain], ways.rivals("service_open,service_shared"), taken)
    found = {name: figure.value for name, figure in figures.items() if ".vs_" in name}
    assert found == {
        "transport.vs_service_open.uint8.19MB.none": pytest.approx(2.0 / 3.5),
        "transport.vs_service_open.service_shared.19MB": pytest.approx(1.25 / 3.5),
    }


def test_a_feed_has_as_many_senders_and_receivers_as_a_load_has_workers_and_ranks():
    loads = [Load("uint8", "19MB", workers=workers, ranks=ranks) for workers in (1, 3) for ranks in (1, 2)]
    feed, socket = ways.rivals("feed,raw_socket")
    assert ways.shapes(feed, loads) == [(1, 1), (1, 2), (3, 1), (3, 2)] and ways.shapes(socket, loads) == [(1, 1)]
    keys = ("feed.19MB", "feed.19MB.ranks_2", "feed.19MB.workers_3", "feed.19MB.workers_3.ranks_2")
    figures = figures_of_rivals(loads, [feed], {key: turns(0.5, 0.25) for key in keys})
    assert {f"transport.{key}.client_cpu_s_per_gb" for key in keys} <= set(figures)


def test_words_choose_by_the_parts_of_a_name():
    assert {load.size for load in only(SELECTION, ["19MB"])} == {"19MB"}
    assert {load.key for load in only(SELECTION, ["uint8.snappy", "workers_4"])} == {
        *(f"uint8.{size}.snappy" for size in SIZES[:3]),
        "uint8.19MB.none.workers_4",
    }
    with pytest.raises(UsageError, match="--only 9MB: nothing left of uint8.150kB.none"):
        only(SELECTION, ["9MB"])


def test_a_peer_that_is_not_installed_says_what_is_missing_and_an_unknown_one_is_refused():
    (socket,) = ways.rivals("raw_socket")
    assert socket.missing() is None
    assert ways.Rival("x", ("no_such_module",), "torch").missing() == "No module named 'no_such_module'"
    apart = ways.Rival("x", ("no_such_module",), "torch", requires=("no-such-package==1",))
    assert apart.missing() == "ModuleNotFoundError: No module named 'no_such_module'"
    assert not Place.of(apart).installed
    assert ways.rivals("none") == () and ways.rivals("") == ways.rivals("install") == ways.RIVALS
    with pytest.raises(UsageError, match="unknown peer 'dali'; known: arrow_flight, feed, feed_encrypted, grpc_stream"):
        ways.rivals("raw_socket,dali")


def test_the_allocator_is_looked_for_where_the_loader_would_look_first(tmp_path):
    own, system = tmp_path / "own", tmp_path / "x86_64-linux-gnu"
    for folder in (own, system):
        folder.mkdir()
    (system / "libtcmalloc_minimal.so.4").write_bytes(b"")
    pattern = str(tmp_path / "*-linux-gnu")
    assert allocator.found_in([str(own), pattern]) == system / "libtcmalloc_minimal.so.4"
    (own / "libtcmalloc.so.4").write_bytes(b"")
    assert allocator.found_in([str(own), pattern]) == own / "libtcmalloc.so.4"
    assert allocator.found_in([str(tmp_path / "nowhere")]) is None
    assert allocator.tcmalloc({"LD_LIBRARY_PATH": f":{own}"}) == own / "libtcmalloc.so.4"


def test_a_process_that_the_loader_started_without_the_library_is_told(tmp_path):
    library = tmp_path / "libtcmalloc.so"
    env = allocator.with_library({"LD_PRELOAD": "libother.so"}, library)
    assert env["LD_PRELOAD"] == f"{library}:libother.so"
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        pytest.raises(TfhetError, match=f"process {process.pid} does not run with {library}"),
    ):
        allocator.check_runs_with(process.pid, library)


def ended(kind: str) -> AnsweringProcess:
    return AnsweringProcess(kind, [sys.executable, "-m", "benchmarks.transport.end", kind], child_environment(), 60.0)


@pytest.mark.parametrize("name", ["raw_socket", "tls_socket"])
def test_a_socket_moves_as_many_batches_as_are_asked_for(name):
    (socket,) = ways.rivals(name)
    sender, receiver = ended(str(socket.sender)), ended(socket.receiver)
    try:
        port = sender.ask({"open": {"size": 1000}})["port"]
        assert receiver.ask({"open": {"size": 1000, "port": port}}) == {}
        assert receiver.ask({"ahead": 0, "count": 3})["seconds"] > 0
        assert receiver.ask({"ahead": 2, "count": 1})["seconds"] > 0
        with pytest.raises(TfhetError, match=f"{name}:send: UsageError: this end sends"):
            sender.ask({"ahead": 0, "count": 1})
        sender.close()
        with pytest.raises(TfhetError, match=f"{name}:receive: (Connection|BrokenPipe|SSLEOF|SSLZero)"):
            receiver.ask({"ahead": 0, "count": 1})
    finally:
        sender.close()
        receiver.close()


def test_an_end_that_is_not_there_is_told():
    process = ended("benchmarks.no_such_module:open")
    try:
        with pytest.raises(TfhetError, match="ModuleNotFoundError: No module named 'benchmarks.no_such_module'"):
            process.ask({"open": {}})
    finally:
        process.close()
