"""Contract of every data plane: the launcher's side on real processes, and the readers of two ranks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf
from own_wire import KEY, _own_wire  # noqa: F401

from tfhet import planes, registry
from tfhet.cluster import DATA, DNN, Role, Roles, free_ports
from tfhet.errors import ClusterError, UsageError
from tfhet.events import ignore
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.messages import link
from tfhet.pipeline import Pipeline, Rest
from tfhet.planes import Delivery, LauncherSide, Outlets, Reader
from tfhet.planes.supervised import RestartPolicy
from tfhet.schema import MessageError
from tfhet.source import IdSet, SyntheticSource
from tfhet.strategies import JobContext
from tfhet.telemetry import Metric

PIPELINES = ("local", "tf_service", "toy")
"""Planes whose readers read declared pipelines; another one has an interface of its own to what it serves."""
NAMES = (*PIPELINES, "feed", pytest.param("ray", marks=pytest.mark.ray))
reads_pipelines = pytest.mark.parametrize("fleet", PIPELINES, indirect=True, scope="module")
EXAMPLES, SPLITS, BATCH = 90, 12, 4
LIMIT_S = 120.0
RUBBISH: tuple[dict[str, Any], ...] = (
    {},
    {"event": None},
    {"event": []},
    {"type": "serving"},
    {"type": "serving", "host": 3},
    {"type": "serving", "host": "t1", "native": [[]]},
    {"type": "serving", "host": {}, "native": "blur"},
    {"type": "workers", "count": "many"},
    {"type": "workers", "count": True},
    {"host": []},
    {"host": "d1", "address": None},
    {"host": "nobody", "address": "a:1"},
    {"\0": {"a": [None]}},
)


def assignment(name: str, host: str, folder: Path, ports: Mapping[str, Any]) -> Assignment:
    """The assignment of the launcher of d1, which serves if the plane does, or of t1, which has rank 0."""
    groups = {"data_group": ["d1"], "dnn_group": ["t1"]} if name != "local" else {"dnn_group": ["t1"]}
    described = [
        {"instance_group_name": group, "instance_type": "ml.m5.large", "hosts": hosts}
        for group, hosts in groups.items()
    ]
    env = {
        **os.environ,
        "SAGEMAKER_BASE_DIR": str(folder),
        "SM_RESOURCE_CONFIG": json.dumps({"current_host": host, "instance_groups": described}),
        "TFHET_PORTS": json.dumps(ports),
        "TFHET_ADDRESSES": json.dumps({"d1": "127.0.0.1", "t1": "127.0.0.1"}),
    }
    return Assignment.of(env, LaunchSettings.parse(["--data_plane", name])[0])


async def named(serving: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.set_name("serve")
    await serving


class Fleet:
    """The launchers' sides of one job, in a thread that runs their tasks."""

    def __init__(self, name: str, folder: Path):
        self.plane, self.folder = planes.get(name), folder
        self.lines: list[str] = []
        self.odd: list[str] = []
        settings = self.plane.settings()
        wanted = {role: self.plane.ports(settings, role) for role in (DATA, DNN)}
        free = iter(free_ports(sum(ports.count for every in wanted.values() for ports in every.values())))
        numbers = {kind: next(free) for kind, ports in wanted[DATA].items() if ports.is_shared}
        self.assignments: dict[str, Assignment] = {}
        for host, role in (("d1", DATA), ("t1", DNN)):
            if name != "local" or host == "t1":
                kinds = {kind: ports.count for kind, ports in wanted[role].items() if kind not in numbers}
                own = {kind: list(itertools.islice(free, count)) for kind, count in kinds.items()}
                self.assignments[host] = assignment(name, host, folder, {"control": 16000, **numbers, **own})
        self.sides = {host: self.side(host) for host in self.assignments}
        self.leader = self.sides["t1"]
        self.missing_at_first = self.leader.missing()
        self.serving: dict[str, Future[Any]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def side(self, host: str, ready_timeout_s: float = LIMIT_S) -> LauncherSide:
        """A side of the launcher of `host`, which reports to the leader's."""
        one = self.assignments[host]
        outlets = Outlets(self.lines.append, self._heard, ignore, lambda order: None, ready_timeout_s, KEY)
        return one.plane.launcher_side(one.plane_settings, one.place, outlets)

    def _heard(self, report: link.Report) -> None:
        if not isinstance(report, link.PlaneReport):
            return
        try:
            self.leader.on_report(json.loads(json.dumps(report.facts)))
        except MessageError as error:
            self.odd.append(str(error))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def start(self) -> None:
        """Serves on all hosts that do, and returns once the leader finds nothing missing."""
        self.serving = {host: self.run(named(side.serve())) for host, side in self.sides.items()}
        end_s = time.monotonic() + LIMIT_S
        while (missing := self.leader.missing()) is not None:
            for one in self.serving.values():
                if one.done():
                    one.result()
            assert time.monotonic() < end_s, missing
            time.sleep(0.02)
        self.serving = {host: one for host, one in self.serving.items() if self.sides[host].processes()}
        assert self.odd == []

    def stop(self) -> None:
        async def stop() -> None:
            await self._cancelled(lambda task: task.get_name().startswith("serve"))
            await asyncio.gather(*(side.stop(1.0) for side in self.sides.values()))

        self.run(stop()).result(LIMIT_S)

    async def _cancelled(self, which: Callable[[asyncio.Task[Any]], bool]) -> None:
        found = [task for task in asyncio.all_tasks() if which(task) and task is not asyncio.current_task()]
        for task in found:
            task.cancel()
        await asyncio.gather(*found, return_exceptions=True)

    def close(self) -> None:
        self.stop()
        self.run(self._cancelled(lambda task: True)).result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def processes(self) -> dict[str, int]:
        return {f"{host}/{name}": pid for host, side in self.sides.items() for name, pid in side.processes().items()}

    def ranks(self, job_id: str) -> list[JobContext]:
        """The two ranks of one job, as their launchers tell them."""
        order = json.loads(json.dumps(self.leader.order()))
        return [
            JobContext(job_id, "heterogeneous", rank, 2, rank, 2, plane=self.plane.name, order=order)
            for rank in range(2)
        ]


@pytest.fixture(scope="module", autouse=True)
def _workers_report_often(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new data set reaches a worker of tf.data service with its next report: each epoch would wait for up to 1 s."""
    folder = tmp_path_factory.mktemp("often")
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'tfhet.planes.tf_service.server' in sys.orig_argv:\n"
        "    import tfhet.planes.tf_service.engine as engine\n"
        "    engine.HEARTBEAT_MS = 100\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", "")))))
        yield


@pytest.fixture(scope="module", params=NAMES)
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """All processes of the plane in one job, ready."""
    made = Fleet(request.param, tmp_path_factory.mktemp("plane"))
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def idle(fleet: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    """Sides of the same plane, with ports of their own; none serves yet."""
    made = Fleet(fleet.plane.name, tmp_path)
    try:
        yield made
    finally:
        made.close()


def pipeline() -> Pipeline:
    source = SyntheticSource(EXAMPLES, SPLITS, (4, 4, 1), uneven=True)
    return Pipeline(source, "random_flip(); rescale()", batch_size=BATCH)


def side_by_side(read: Callable[[int], Any]) -> list[Any]:
    """The results of `read` on two ranks at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(read, range(2)))


# The plane in the registry


def test_plane_describes_itself_and_its_hosts(fleet):
    plane = fleet.plane
    assert plane.name in planes.names()
    settings = plane.settings()  # all arguments have defaults
    for one in fields(settings):
        with pytest.raises(FrozenInstanceError):
            setattr(settings, one.name, None)
    for role in (DATA, DNN, Role("further")):
        ports = plane.ports(settings, role)
        assert all(one.count >= 0 and 0 < one.first < 65536 for one in ports.values())
        assert set(ports) == set(plane.ports(settings, DATA)), "every host knows all names of ports"
        assert json.loads(json.dumps(plane.host_facts(settings, role))) == plane.host_facts(settings, role)
    assert planes.kinds().items() >= dict(plane.kinds).items()
    assert not plane.is_noise("a line of a script")
    roles = fleet.assignments["t1"].place.roles
    serving = plane.serving(settings, roles)
    assert set(serving) <= set(fleet.assignments)
    assert all(fleet.sides[host].processes() for host in serving)
    without_data = Roles({DNN.name: roles.dnn}, DNN)
    assert set(plane.serving(settings, without_data)) <= {"t1"}


# The launcher's side


def test_leader_waits_for_servers(fleet):
    assert bool(fleet.missing_at_first) is bool(fleet.serving)
    assert fleet.leader.missing() is None
    order = fleet.leader.order()
    assert json.loads(json.dumps(order)) == order
    fleet.plane.check(order)
    for rubbish in RUBBISH:
        with pytest.raises(ClusterError) if fleet.serving else contextlib.nullcontext():
            fleet.plane.check(rubbish)


def test_rubbish_in_a_report_makes_nothing_ready(idle):
    missing = idle.leader.missing()
    for facts in RUBBISH:
        with contextlib.suppress(MessageError):
            idle.leader.on_report(facts)
        assert (idle.leader.missing() is None) is (missing is None), facts


def test_script_keeps_its_variables(fleet):
    mine = {"PATH": "/bin", "MINE": "1", "PYTHONPATH": "a:b"}
    env = fleet.leader.environment(fleet.leader.order(), mine)
    assert env.items() >= mine.items()
    assert all(isinstance(name, str) and isinstance(value, str) for name, value in env.items())


def test_processes_keep_their_memory(fleet):
    wanted = planes.with_malloc_tunables({})
    assert fleet.leader.environment(fleet.leader.order(), {}).items() >= wanted.items()
    (words,) = (f"{name}={value}" for name, value in wanted.items())
    for pid in fleet.processes().values():  # glibc ends each tunable with a NUL while it reads them
        assert words in Path(f"/proc/{pid}/environ").read_text().replace("\0", ":")


def test_side_names_and_counts_its_processes(fleet):
    running = fleet.processes()
    assert bool(running) is bool(fleet.serving)
    for pid in running.values():
        assert fleet.plane.kind_of(psutil.Process(pid).cmdline()) in fleet.plane.kinds
    assert fleet.plane.kind_of(["python", "train.py"]) is None
    for side in fleet.sides.values():
        assert all(isinstance(metric, Metric) and float(value) >= 0 for metric, value in side.metrics().items())
        assert all(" " not in name and isinstance(value, str) for name, value in side.facts.items())


def test_leader_takes_news_of_hosts_and_scripts(idle):
    for host in idle.plane.serving(idle.plane.settings(), idle.assignments["t1"].place.roles):
        assert isinstance(idle.leader.lost(host), bool)
    idle.leader.reads(False)
    idle.run(asyncio.wait_for(idle.leader.beside(os.getpid()), None)).cancel()


def test_port_in_use_is_wrong_use(idle):
    for host in idle.sides:
        own = [port for ports in idle.assignments[host].place.ports.plane.values() for port in ports]
        if not own:
            continue
        with contextlib.ExitStack() as held, pytest.raises(UsageError, match="port "):
            for port in own:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            idle.run(idle.side(host).serve()).result(LIMIT_S)


def test_stop_leaves_no_process_and_no_port(idle):
    idle.start()
    running = idle.processes()
    idle.stop()
    assert idle.processes() == {}
    assert not [pid for pid in running.values() if psutil.pid_exists(pid)]
    for one in idle.assignments.values():
        for port in (port for ports in one.place.ports.plane.values() for port in ports):
            socket.create_server(("127.0.0.1", port)).close()
    idle.stop()


def test_side_raises_when_its_process_is_gone(idle, monkeypatch):
    # Else the pauses between restarts take 3 s together.
    monkeypatch.setattr("tfhet.planes.supervised.RestartPolicy", partial(RestartPolicy, backoff_s=0.01))
    idle.start()
    if not idle.serving:
        return
    host, future = next(iter(idle.serving.items()))
    end_s = time.monotonic() + LIMIT_S
    while not future.done():  # what a plane starts again is killed again
        for pid in idle.sides[host].processes().values():
            with contextlib.suppress(psutil.NoSuchProcess):  # it is gone, and the plane has not noticed yet
                psutil.Process(pid).kill()
        assert time.monotonic() < end_s
        time.sleep(0.02)
    assert host in str(future.exception())


# The rank's side


def read(fleet: Fleet, jobs: list[JobContext], do: Callable[[Reader], Any]) -> list[Any]:
    """The results of `do` for the readers of all ranks, which have agreed."""
    readers = [fleet.plane.rank_side().reader(pipeline(), job, compression="none") for job in jobs]
    for reader in readers:
        reader.agree()
    readers[0].offer(0)
    return side_by_side(lambda rank: do(readers[rank]))


def whole(reader: Reader) -> list[Delivery]:
    return list(reader.epoch(0))


def every_id(deliveries: list[list[Delivery]]) -> Counter[int]:
    return Counter(int(one) for rank in deliveries for delivery in rank for one in delivery.ids)


def assert_as_prepared_locally(deliveries: list[list[Delivery]], epoch: int) -> None:
    alone = planes.get("local").rank_side().reader(pipeline(), JobContext("alone", "local"))
    expected = {
        int(one): image for each in alone.epoch(epoch) for one, image in zip(each.ids, each.images.numpy(), strict=True)
    }
    for delivery in (delivery for rank in deliveries for delivery in rank):
        for one, image in zip(delivery.ids, delivery.images, strict=True):
            np.testing.assert_array_equal(image.numpy(), expected[int(one)])


def ids_of() -> set[int]:
    source = pipeline().source
    return {split << 32 | at for split, size in enumerate(source.split_sizes()) for at in range(size)}


@reads_pipelines
def test_two_ranks_read_every_example_once(fleet):
    found = read(fleet, fleet.ranks("whole"), whole)
    assert every_id(found) == Counter(ids_of())
    for delivery in (delivery for rank in found for delivery in rank):
        size = len(delivery.ids)
        assert 0 < size <= BATCH and delivery.ids.dtype == np.int64
        assert delivery.images.shape == (size, 4, 4, 1) and delivery.labels.shape[0] == size
        assert delivery.wait_s >= 0 and delivery.epoch == 0
    assert_as_prepared_locally(found, 0)


@reads_pipelines
def test_rest_is_read_without_seen_examples(fleet):
    jobs, every = fleet.ranks("rest"), sorted(ids_of())
    seen = IdSet.of(every[1::3])
    readers = [fleet.plane.rank_side().reader(pipeline(), job, compression="none") for job in jobs]
    splits = np.ones(pipeline().source.split_count(), bool)
    rests = [Rest(splits, seen if not (rank and readers[0].is_served) else IdSet.of()) for rank in range(len(jobs))]
    for reader in readers:
        reader.agree()
    readers[0].offer(0, rests[0], 1)
    found = side_by_side(lambda rank: list(readers[rank].epoch(0, rests[rank], 1)))
    assert every_id(found) == Counter(set(every) - set(every[1::3]))


@reads_pipelines
def test_reader_describes_itself(fleet):
    told: list[float] = []
    (job, _), side = fleet.ranks("described"), fleet.plane.rank_side()
    reader = side.reader(pipeline(), job, compression="none", on_first_batch=told.append)
    assert reader.is_served is bool(fleet.serving) is job.is_served
    assert reader.pipeline == pipeline() or reader.pipeline.fingerprint() == pipeline().fingerprint()
    assert reader.first_batch_s is None and not reader.was_cut_off and reader.failure is None
    assert isinstance(reader.has_servers(lambda: True), bool)
    reader.agree()
    reader.offer(0)
    next(reader.epoch(0))
    assert reader.first_batch_s is not None and told == [reader.first_batch_s]
    assert side.advice(pipeline(), job) is None or isinstance(side.advice(pipeline(), job), str)


@reads_pipelines
def test_local_reader_prepares_its_own_share(fleet):
    def local(reader: Reader) -> list[Delivery]:
        reader.go_local()
        assert not reader.is_served
        reader.agree()
        reader.offer(0)
        return list(reader.epoch(0))

    assert every_id(read(fleet, fleet.ranks("local"), local)) == Counter(ids_of())


@reads_pipelines
def test_epoch_prepared_ahead_is_exact(fleet):
    met = threading.Barrier(2)

    def both(reader: Reader) -> list[Delivery]:
        reader.ahead(1, offers=rank_of(reader) == 0)
        assert every_id([list(reader.epoch(0))]).keys() <= ids_of()
        offered = reader.has_offered_ahead(1)
        assert offered is (rank_of(reader) == 0) and not reader.has_offered_ahead(0)
        met.wait(LIMIT_S)  # as ranks do before they read
        return list(reader.epoch(1))

    found = read(fleet, fleet.ranks("ahead"), both)
    assert every_id(found) == Counter(ids_of())
    for delivery in (delivery for rank in found for delivery in rank):
        assert delivery.epoch == 1 and 0 < len(delivery.ids) <= BATCH
    assert_as_prepared_locally(found, 1)


@reads_pipelines
def test_abandoned_epoch_leaves_no_thread(fleet):
    def again(reader: Reader) -> list[Delivery]:
        reader.ahead(7, offers=rank_of(reader) == 0)
        reader.close()
        reader.close()
        return list(reader.epoch(0))

    assert every_id(read(fleet, fleet.ranks("given up"), again)) == Counter(ids_of())
    assert not [thread for thread in threading.enumerate() if thread.name == "tfhet-ahead"]


def rank_of(reader: Reader) -> int:
    return reader._job.rank


@reads_pipelines
def test_single_examples_are_shared_among_the_ranks(fleet):
    wanted = np.array(sorted(ids_of())[3:20], np.int64)
    found = read(fleet, fleet.ranks("singly"), lambda reader: list(reader.singly(0, wanted)))
    assert every_id(found) == Counter(wanted.tolist())


@reads_pipelines
def test_two_ranks_share_a_declared_pipeline(fleet):
    side, jobs = fleet.plane.rank_side(), fleet.ranks("declared")
    shares = [side.declared(pipeline(), job, 0, None) for job in jobs]
    first = Counter[int]()  # ids of the first pass; further passes follow without end

    def share(rank: int) -> None:
        for element in itertools.islice(shares[rank], 2 * EXAMPLES):
            assert element["image"].shape[0] == element["label"].shape[0] == len(element["id"])
            first.update(int(one) for one, at in zip(element["id"], element["epoch"], strict=True) if not at)
            if len(first) == EXAMPLES:
                return

    side_by_side(share)
    assert first == Counter(ids_of())


@reads_pipelines
def test_two_ranks_share_a_plain_data_set(fleet):
    side, jobs = fleet.plane.rank_side(), fleet.ranks("plain")
    data = tf.data.Dataset.range(60).batch(3)
    shares = [side.plain(data, job, 0, sharding="auto", transport=None) for job in jobs]
    found = side_by_side(lambda rank: [int(one) for batch in shares[rank] for one in batch])
    assert Counter(one for rank in found for one in rank) == Counter(range(60))


# Third parties


def test_third_party_plane_has_its_arguments():
    assert planes.names()[-1] == "toy"
    settings, rest = LaunchSettings.parse(["--data_plane", "toy", "--toy-port", "7200", "--mine", "1"])
    assert settings.planes["toy"].toy_port == 7200 and rest == ["--mine", "1"]
    with pytest.raises(UsageError, match="toys.*auto.*local.*tf_service.*toy"):
        planes.get("toys")


def test_broken_plane_is_wrong_use(monkeypatch):
    points = {"broken": EntryPoint("broken", "there_is_no_such_module:PLANE", "tfhet.planes")}
    monkeypatch.setattr(registry, "_points", lambda group: points)
    with pytest.raises(UsageError, match="data plane 'broken'.*there_is_no_such_module"):
        planes.get("broken")
