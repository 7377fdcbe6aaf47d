"""One case of `benchmarks.plan`: a load on a small cluster, its job, and its prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.cluster_runs.measured_job import EMULATED, LINE_STEPS, Course
from tfhet.plan import (
    ClusterShape,
    CutCost,
    HostType,
    Layout,
    PipelineCost,
    Prediction,
    Resource,
    Trainer,
    Where as Place,
    Workload,
    predict,
)
from tfhet.planes import PlaneCosts, WireCost, get as plane
from tfhet.record import Figure, Interval
from tfhet.simulate import ClusterFile, GroupFile

CPUS = 2
"""CPUs of the machine that the hosts run on."""
OVERHEAD, LAUNCHER_CPUS = Interval(1.0, 0.9, 1.1), Interval(0.007, 0.0055, 0.01)
"""CPU time of a job's input over the sum of its parts measured alone, and CPUs of each host's launcher: the ranges of
14 runs on 2 cores (Intel Xeon, 26 November 2026). No case adjusts them."""
BUFFERED = 4
"""Batches per worker, and for the rank, that may be ready when the hosts' limits begin."""
DNN, DATA = "dnn_group", "data_group"


@dataclass(frozen=True)
class PlanLoad:
    """The load of a training: the chain of stages and the batch size."""

    chain: str
    batch_size: int

    @property
    def key(self) -> str:
        """Its name in tables and folders."""
        return f"{self.chain}-{self.batch_size}"


LOADS = (
    PlanLoad("aws-cifar", 4096),
    PlanLoad("aws-cifar", 2048),
    PlanLoad("imagenet-train", 64),
    PlanLoad("imagenet-train", 32),
    PlanLoad("imagenet-eval", 48),
)


@dataclass(frozen=True)
class LoadCosts:
    """Costs of a load's batches, measured outside any job."""

    pipeline: PipelineCost
    """The pipeline at each position where it can be cut."""
    whole: PipelineCost | None
    """The pipeline in one process; None if that was not measured."""
    streams: tuple[WireCost, ...]
    """Cost of moving the batches, by cut."""

    @classmethod
    def of(cls, load: PlanLoad, answer: Mapping[str, Any]) -> LoadCosts:
        """Returns the costs from an answer of `batch_cpu`."""
        cuts, streams = [], []
        for cut in answer["cuts"]:
            size = cut["bytes"]
            remote, local = (_us(cut[name], load.batch_size) for name in ("remote_s", "local_s"))
            words = f"position {cut['position']}"
            cuts.append(CutCost(words, cut["position"], remote, local, size / load.batch_size, cut["dtype"]))
            reader, server = (
                Interval.of(Figure.of([1e9 * both[end] / size for both in cut["wire_s"]], unit="s/GB"))
                for end in (0, 1)
            )
            streams.append(WireCost.one_in_flight(reader, server))
        whole = None
        if answer["whole_s"]:
            remote = _us(answer["whole_s"], load.batch_size)
            whole = PipelineCost((CutCost("the whole", 0, remote, Interval.exact(0.0), 0.0),))
        return cls(PipelineCost(tuple(cuts)), whole, tuple(streams))

    def plane(self, cut: int) -> PlaneCosts:
        """Returns the costs of tf.data service at a cut."""
        stream = self.streams[cut]
        return replace(plane("tf_service").costs(), wire=lambda batch_bytes: stream, source="measured here")


def _us(samples_s: Sequence[float], examples: int) -> Interval:
    return Interval.of(Figure.of([1e6 * seconds / examples for seconds in samples_s], unit="us"))


def cpus_used(dnn_cpus: float, data_cpus: Sequence[float]) -> list[float]:
    """Returns the CPU shares on each of the machine's CPUs. Each host is on one of them, the largest hosts first."""
    used = [0.0] * CPUS
    for cpus in sorted([dnn_cpus, *data_cpus], reverse=True):
        used[used.index(min(used))] += cpus
    return used


@dataclass(frozen=True)
class PlanCase:
    """One case."""

    number: int
    kind: Resource
    """The resource that was to bind when the case was drawn."""
    margin: float
    """The next resource's time over the binding one's, as drawn."""
    load: PlanLoad
    place: Place
    position: int
    """Number of stages before the cut."""
    dnn_cpus: float
    data_cpus: float
    """CPUs of each data host."""
    data_hosts: int
    workers: int
    """Workers on each data host."""
    accelerator_ms: float
    dnn_mbit_per_s: float | None = None
    data_mbit_per_s: float | None = None

    @property
    def busiest_cpus(self) -> float:
        """Shares of the hosts on the busiest CPU together: costs are measured with that quota, which sets how cold the
        caches are."""
        return max(cpus_used(self.dnn_cpus, [self.data_cpus] * self.data_hosts))

    @property
    def positions(self) -> list[int]:
        """The position of its cut; empty if the training process prepares its batches itself."""
        return [] if self.place is Place.TRAINER else [self.position]

    def prediction(self, costs: LoadCosts) -> Prediction:
        """Returns the prediction from the costs of its load."""
        cuts = [cut.position for cut in costs.pipeline.cuts]
        cut = cuts.index(self.position) if self.positions else 0
        pipeline = costs.pipeline if self.positions else costs.whole
        assert pipeline is not None
        workload = Workload(
            pipeline,
            Trainer({"": Interval.exact(self.accelerator_ms)}, self.load.batch_size),
            costs.plane(cut) if self.positions else plane("local").costs(),
            OVERHEAD,
            launcher_cpus=LAUNCHER_CPUS,
        )
        dnn, data = (
            HostType(name, cpus, network_gbit_per_s=mbit and mbit / 1e3)
            for name, cpus, mbit in (
                ("dnn", self.dnn_cpus, self.dnn_mbit_per_s),
                ("data", self.data_cpus, self.data_mbit_per_s),
            )
        )
        cluster = ClusterShape(dnn, 1, data if self.data_hosts else None, self.data_hosts)
        return predict(workload, cluster, Layout(self.place, cut, servers_per_host=self.workers))

    def cluster(self, channel: str) -> ClusterFile:
        """Returns a host that trains, and the data hosts."""
        groups = {DNN: GroupFile(1, instance_type="ml.p3.2xlarge", cpus=self.dnn_cpus, mbit_per_s=self.dnn_mbit_per_s)}
        if self.data_hosts:
            groups[DATA] = GroupFile(
                self.data_hosts, instance_type="ml.c5.large", cpus=self.data_cpus, mbit_per_s=self.data_mbit_per_s
            )
        return ClusterFile("plan", groups, {"training": channel})

    def course(self, step_s: float, seconds: float) -> Course:
        """Returns the steps of a run that is measured for about `seconds`. step_s: predicted seconds of a step."""
        return Course.of(BUFFERED * (self.workers * self.data_hosts + 2), step_s, seconds)

    def arguments(self, steps: int) -> list[str]:
        """Returns the launcher's arguments."""
        words = [
            *("--chain", self.load.chain, "--batch_size", str(self.load.batch_size), "--cut", str(self.position)),
            *("--steps_per_epoch", str(steps), "--step_ms", f"{self.accelerator_ms:.3f}"),
            *("--data_host_workers", str(self.workers)),
            *("--dnn_host_workers", str(int(self.place is Place.EVERYWHERE))),
        ]
        return [*words, "--log_every", str(LINE_STEPS), *EMULATED.split()]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value, "place": self.place.value}
