"""bench/wire: what is asked for, what a turn took, and the figures made of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.peers.place import Place
from benchmarks.transport import allocator
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.wire import lane, ways
from tfhet.bench.wire.end import KINDS
from tfhet.bench.wire.figures import figures_of
from tfhet.bench.wire.lane import CLIENTS, DISPATCHER, LEAST, WORKERS, Lane, Turn, rounds
from tfhet.bench.wire.load import SELECTION, SIZES, SNAPPY, Load, combined, only
from tfhet.clock import FakeClock, cpu_of
from tfhet.cluster import environment
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event


class Client:
    """Takes 10 ms for a batch, in which it and its worker (pids 1 and 2) use CPU."""

    def __init__(self, clock: FakeClock, used_s: dict[int, float]):
        self.asked: list[tuple[int, int]] = []
        self._clock, self._used_s = clock, used_s

    def request(self, request: dict[str, int]) -> None:
        self.asked.append((request["ahead"], request["count"]))

    def answer(self) -> dict[str, float]:
        ahead, count = self.asked[-1]
        self._clock.sleep(0.01 * (ahead + count))
        self._used_s[1] += 0.002 * (ahead + count)
        self._used_s[2] += 0.004 * (ahead + count)
        return {"seconds": 0.01 * count}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def used_s(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """CPU seconds by process id."""
    used = {1: 0.0, 2: 0.0, 3: 0.0}
    monkeypatch.setattr(lane, "cpu_of", used.__getitem__)
    return used


def lane_of(clock: FakeClock, used_s: dict[int, float], key: str = "uint8.1MB.none", clients: int = 1) -> Lane:
    every = [Client(clock, used_s) for _ in range(clients)]
    return Lane(key, 1_000_000, every, {CLIENTS: [1], WORKERS: [2], DISPATCHER: [3]}, ahead=2)  # type: ignore[arg-type]


def test_a_turn_counts_the_batches_ahead_in_cpu_and_not_in_speed(clock, used_s):
    turn = lane_of(clock, used_s).turn(8, clock)
    assert turn.bytes == 10_000_000
    assert turn.per_gb(CLIENTS) == pytest.approx(2.0)
    assert turn.per_gb(WORKERS) == pytest.approx(4.0)
    assert turn.all_per_gb == pytest.approx(6.0)
    assert turn.gb_per_s == pytest.approx(0.1)


def test_all_clients_of_a_job_count_together(clock, used_s):
    turn = lane_of(clock, used_s, clients=2).turn(8, clock)
    assert turn.bytes == 20_000_000
    assert turn.per_gb(CLIENTS) == pytest.approx(2.0)
    assert turn.gb_per_s == pytest.approx(0.2)


def test_a_turn_waits_until_the_buffers_are_full_again_and_counts_what_that_takes(clock, used_s, monkeypatch):
    later = iter([0.04, 0.03, 0.0, 0.02])  # a quiet look between two busy ones is not the end
    sleep = clock.sleep

    def filled(seconds: float) -> None:
        sleep(seconds)
        if seconds == lane.LOOK_S:
            used_s[2] += next(later, 0.0)

    monkeypatch.setattr(clock, "sleep", filled)
    turn = lane_of(clock, used_s).turn(8, clock)
    assert turn.cpu_s[WORKERS] == pytest.approx(0.04 + 0.09)


def test_processes_that_never_come_to_rest_are_told(clock, used_s, monkeypatch):
    sleep = clock.sleep
    monkeypatch.setattr(clock, "sleep", lambda s: (sleep(s), used_s.update({3: used_s[3] + s})))
    with pytest.raises(TfhetError, match=r"uint8\.1MB\.none: its processes work for 60 s after the last batch"):
        lane_of(clock, used_s).turn(8, clock)


def test_a_process_that_has_ended_is_told(clock, used_s, monkeypatch):
    monkeypatch.setattr(lane, "cpu_of", cpu_of)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    with pytest.raises(TfhetError, match="one of its processes has ended"):
        Lane("x", 1, [], {WORKERS: [gone.pid]}).turn(8, clock)


def test_a_turn_is_made_as_long_as_it_is_wanted_and_never_too_short(clock, used_s):
    assert lane_of(clock, used_s).fitting(3.0, clock) == 300
    assert lane_of(clock, used_s).fitting(0.001, clock) == LEAST


def test_lanes_take_turns_and_the_warm_up_does_not_count(clock, used_s):
    told: list[Event] = []
    lanes = [lane_of(clock, used_s, "a"), lane_of(clock, used_s, "b")]
    taken = rounds(lanes, 0.1, 1, 3, told.append, clock)
    assert [event.fields["case"] for event in told] == ["a", "b"] * 4
    assert {key: len(turns) for key, turns in taken.items()} == {"a": 3, "b": 3}
    assert all(turn.bytes == 12_000_000 for turns in taken.values() for turn in turns)


def turns(client: float, worker: float, rate: float = 1.0) -> list[Turn]:
    return [Turn(10**9, {CLIENTS: client * more, WORKERS: worker, DISPATCHER: 0.5}, rate) for more in (1, 1, 2)]


def test_figures_are_named_after_what_was_moved_and_held_against_a_socket_and_the_plain_way():
    plain, packed = Load("uint8", "19MB"), Load("uint8", "19MB", SNAPPY)
    taken = {plain.key: turns(1.0, 0.5), packed.key: turns(3.0, 2.5), "raw_socket.19MB": turns(0.25, 0.25)}
    figures = figures_of([plain, packed], ["raw_socket"], taken, {plain.key: 1.0, packed.key: 0.9})
    assert figures["transport.uint8.19MB.none.client_cpu_s_per_gb"].samples == (1.0, 1.0, 2.0)
    assert figures["transport.uint8.19MB.snappy.worker_cpu_s_per_gb"].value == 2.5
    assert figures["transport.uint8.19MB.none.gb_per_s"].unit == "GB/s"
    assert figures["transport.uint8.19MB.snappy.wire_ratio"].value == 0.9
    assert figures["transport.raw_socket.19MB.client_cpu_s_per_gb"].value == 0.25
    assert figures["transport.vs_raw_socket.uint8.19MB.none"].value == pytest.approx(2.0)
    assert figures["transport.vs_raw_socket.uint8.19MB.none"].samples == pytest.approx((2.0, 2.0, 3.0 / 1.25))
    assert figures["transport.vs_plain.uint8.19MB.snappy"].value == pytest.approx(3.0)
    assert "transport.vs_plain.uint8.19MB.none" not in figures
    assert "transport.uint8.19MB.none.wire_ratio" not in figures


def test_without_a_socket_nothing_is_held_against_it():
    plain = Load("uint8", "19MB")
    figures = figures_of([plain], [], {plain.key: turns(1.0, 1.0)}, {plain.key: 1.0})
    assert {name.rpartition(".")[2] for name in figures} == {"client_cpu_s_per_gb", "worker_cpu_s_per_gb", "gb_per_s"}


def test_the_selection_moves_both_types_in_all_sizes_and_changes_one_thing_at_a_time():
    assert len(set(SELECTION)) == len(SELECTION)
    assert {(load.dtype, load.size) for load in SELECTION if load == load.plain} == {
        (dtype, size) for dtype in ("uint8", "float32") for size in SIZES
    }
    assert {load.plain for load in SELECTION} <= set(SELECTION)
    assert {load.workers for load in SELECTION} == {1, 2, 4} and {load.ranks for load in SELECTION} == {1, 2}


def test_combinations_are_all_of_them_once_and_wrong_ones_are_refused():
    found = combined(["uint8", "float32"], ["1MB", "1MB"], ["none", "snappy"], ["default"], [1, 2], [1])
    assert len(found) == 8 and found[0] == Load("uint8", "1MB")
    for wrong, said in (
        (("int64", "1MB"), "unknown dtype 'int64'; known: float32, uint8"),
        (("uint8", "1MB", "gzip"), "unknown compression 'gzip'"),
        (("uint8", "1MB", "none", "jemalloc"), "unknown allocator 'jemalloc'"),
        (("uint8", "2000MB"), "give at most 1000 MB"),
        (("uint8", "1MB", "none", "default", 0), "0 workers, 1 ranks: give 1 to 64"),
    ):
        with pytest.raises(UsageError, match=said):
            Load(*wrong)


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
    with pytest.raises(UsageError, match="unknown peer 'dali'; known: raw_grpc, raw_socket"):
        ways.rivals("raw_socket,dali")
    assert {end for rival in ways.RIVALS for end in (rival.sender, rival.receiver) if end} < set(KINDS)


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
    return AnsweringProcess(kind, [sys.executable, "-m", "tfhet.bench.wire.end", kind], environment(), 60.0)


def test_a_socket_moves_as_many_batches_as_are_asked_for():
    sender, receiver = ended("socket sender"), ended("socket receiver")
    try:
        port = sender.ask({"open": {"size": 1000}})["port"]
        assert receiver.ask({"open": {"size": 1000, "port": port}}) == {}
        assert receiver.ask({"ahead": 0, "count": 3})["seconds"] > 0
        assert receiver.ask({"ahead": 2, "count": 1})["seconds"] > 0
        with pytest.raises(TfhetError, match="socket sender: UsageError: this end sends"):
            sender.ask({"ahead": 0, "count": 1})
        sender.close()
        with pytest.raises(TfhetError, match="socket receiver: (ConnectionError|ConnectionResetError|BrokenPipeError)"):
            receiver.ask({"ahead": 0, "count": 1})
    finally:
        sender.close()
        receiver.close()


def test_an_end_of_an_unknown_kind_ends_with_what_is_known():
    process = ended("pigeon")
    try:
        with pytest.raises(TfhetError, match="pigeon ended with exit code 1: .*known: grpc receiver"):
            process.ask({"open": {}})
    finally:
        process.close()
