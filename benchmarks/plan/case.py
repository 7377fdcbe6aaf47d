"""One case of `benchmarks.plan`: a load on a small cluster, as it is drawn; its command, its hosts and its prediction.

Everything here is frozen values: what a case needs of the machine was measured before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tfhet.plan import (
    ClusterShape,
    CutCost,
    HostType,
    Interval,
    Layout,
    PipelineCost,
    Prediction,
    Trainer,
    Where as Place,
    Workload,
    predict,
)
from tfhet.plan.ceiling import Resource
from tfhet.planes import PlaneCosts, WireCost
from tfhet.planes.tf_service import TF_SERVICE
from tfhet.record import Figure
from tfhet.simulate import ClusterFile, GroupFile

STEP_FILE = "step_ms"
"""In a host's base directory: the emulated step, which the suite changes."""
INSIDE = "/opt/ml"
CPUS = 2
"""CPUs of the machine that hosts run on."""
MORE = 1.25
"""Times as much of a resource that is relaxed."""
DNN, DATA = "dnn_group", "data_group"
FIELDS = {
    Resource.ACCELERATOR: ("accelerator_ms",),
    Resource.DNN_CPUS: ("dnn_cpus",),
    Resource.DATA_CPUS: ("data_cpus",),
    Resource.ALL_CPUS: ("dnn_cpus", "data_cpus"),
    Resource.DATA_NETWORK: ("data_mbit_per_s",),
    Resource.DNN_NETWORK: ("dnn_mbit_per_s",),
}
"""Resources of which a running job can be given more, and what of a case they are."""


@dataclass(frozen=True)
class PlanLoad:
    """The load of a training: the chain of stages and the batch size."""

    chain: str
    batch_size: int

    @property
    def key(self) -> str:
        return f"{self.chain}-{self.batch_size}"


TRIED = (PlanLoad("aws-cifar", 4096), PlanLoad("imagenet-train", 64))
"""The loads of the jobs that tell what a job takes over its parts."""
HELD_OUT = (PlanLoad("aws-cifar", 2048), PlanLoad("imagenet-train", 32), PlanLoad("imagenet-eval", 48))
"""No job of these tells it: a smaller batch of each chain, and another chain."""
LOADS = (*TRIED, *HELD_OUT)


@dataclass(frozen=True)
class Measured:
    """Costs of a load's batches outside of jobs."""

    pipeline: PipelineCost
    whole: PipelineCost
    """In one process, where nothing is sent."""
    streams: tuple[WireCost, ...]
    """By cut."""
    sizes: tuple[int, ...]
    """Bytes of a batch, by cut."""
    said: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """As the process that measured said it, for the record."""

    @classmethod
    def of(cls, load: PlanLoad, said: Mapping[str, Any]) -> Measured:
        """From what `cut_costs` says."""
        cuts, streams = [], []
        for cut in said["cuts"]:
            size = cut["bytes"]
            remote, local = (_us(cut[name], load.batch_size) for name in ("remote_s", "local_s"))
            behind = f"position {cut['position']}"
            cuts.append(CutCost(behind, cut["position"], remote, local, size / load.batch_size, cut["dtype"]))
            client, worker = (
                Interval.of(Figure.of([1e9 * both[end] / size for both in cut["wire_s"]], unit="s/GB"))
                for end in (0, 1)
            )
            streams.append(WireCost.one_in_flight(client, worker))
        whole = replace(cuts[-1], remote_us=_us(said["whole_s"], load.batch_size), local_us=Interval.exact(0.0))
        sizes = tuple(cut["bytes"] for cut in said["cuts"])
        return cls(PipelineCost(tuple(cuts)), PipelineCost((whole,)), tuple(streams), sizes, said)

    def wire(self, cut: int) -> PlaneCosts:
        """Returns the costs of the plane at a cut, which are the same whatever travels."""
        return replace(TF_SERVICE.costs(), wire=lambda batch_bytes: self.streams[cut], source="measured here")


def _us(samples_s: Sequence[float], examples: int) -> Interval:
    return Interval.of(Figure.of([1e6 * seconds / examples for seconds in samples_s], unit="us"))


@dataclass(frozen=True)
class Frozen:
    """The model's inputs, measured before the cases were drawn; see `renewed`."""

    loads: Mapping[PlanLoad, Measured]
    overhead: Interval = Interval.exact(1.0)
    """Times the CPU of its parts that a job takes."""
    launcher_cpus: Interval = Interval.exact(0.0)
    """CPUs that every host's launcher takes."""
    extra_ms: Interval = Interval.exact(0.0)
    """Milliseconds of a step with data at hand, beside the emulated accelerator's."""
    runs: Sequence[Mapping[str, Any]] = ()
    """Those that told all but the loads, for the record."""

    def renewed(self, load: PlanLoad, said: Mapping[str, Any]) -> Frozen:
        """With the costs of a load that `said` has, as they were right before a run, and all else as it was."""
        before = self.loads[load].said
        cuts = {cut["position"]: cut for cut in (*before["cuts"], *said["cuts"])}
        now = {"cuts": list(cuts.values()), "whole_s": said["whole_s"] or before["whole_s"]}
        return replace(self, loads={**self.loads, load: Measured.of(load, now)})

    def to_json(self) -> dict[str, Any]:
        return {
            "loads": [{**asdict(load), "said": measured.said} for load, measured in self.loads.items()],
            "overhead": self.overhead.to_json(),
            "launcher_cpus": self.launcher_cpus.to_json(),
            "extra_ms": self.extra_ms.to_json(),
            "runs": list(self.runs),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Frozen:
        """The inverse of `to_json`."""
        loads = {PlanLoad(one["chain"], one["batch_size"]): one["said"] for one in found["loads"]}
        return cls(
            {load: Measured.of(load, said) for load, said in loads.items()},
            Interval(**found["overhead"]),
            Interval(**found["launcher_cpus"]),
            Interval(**found["extra_ms"]),
            found["runs"],
        )


def shared_out(dnn_cpus: float, data_cpus: Sequence[float]) -> list[float]:
    """CPU that hosts use of each of the machine's, each host on one of them, the largest first."""
    used = [0.0] * CPUS
    for cpus in sorted([dnn_cpus, *data_cpus], reverse=True):
        used[used.index(min(used))] += cpus
    return used


@dataclass(frozen=True)
class PlanCase:
    """One case. Raises UsageError for hosts that no cluster file may have."""

    number: int
    kind: Resource
    """The resource that was to bind when the case was drawn."""
    margin: float
    """The next resource's seconds over the binding one's, as wished."""
    load: PlanLoad
    place: Place
    cut: int
    """Index of the pipeline's cut; its position is `position`."""
    position: int
    dnn_cpus: float
    data_cpus: float
    """CPUs of each data host."""
    data_hosts: int
    workers: int
    """On each data host."""
    accelerator_ms: float
    dnn_mbit_per_s: float | None = None
    data_mbit_per_s: float | None = None

    @property
    def busiest_cpus(self) -> float:
        """CPU that the hosts on one of the machine's may use together: the less that is, the colder is memory, whose
        caches others have used meanwhile."""
        return max(shared_out(self.dnn_cpus, [self.data_cpus] * self.data_hosts))

    @property
    def is_alone(self) -> bool:
        """Whether the training process prepares its batches itself, so that nothing is cut and nothing travels."""
        return self.place is Place.TRAINER

    @property
    def positions(self) -> tuple[int, ...]:
        """That of its cut, if anything is cut."""
        return () if self.is_alone else (self.position,)

    def prediction(self, frozen: Frozen) -> Prediction:
        """As the model has it, whatever the machine does meanwhile."""
        measured = frozen.loads[self.load]
        step_ms = Interval(*(self.accelerator_ms + getattr(frozen.extra_ms, end) for end in ("value", "low", "high")))
        workload = Workload(
            measured.whole if self.is_alone else measured.pipeline,
            Trainer({"": step_ms}, self.load.batch_size),
            measured.wire(self.cut),
            frozen.overhead,
            launcher_cpus=frozen.launcher_cpus,
        )
        dnn, data = (
            HostType(name, cpus, network_gbit_per_s=mbit and mbit / 1e3)
            for name, cpus, mbit in (
                ("dnn", self.dnn_cpus, self.dnn_mbit_per_s),
                ("data", self.data_cpus, self.data_mbit_per_s),
            )
        )
        cluster = ClusterShape(dnn, 1, data if self.data_hosts else None, self.data_hosts)
        layout = Layout(self.place, 0 if self.is_alone else self.cut, servers_per_host=self.workers)
        return predict(workload, cluster, layout)

    def cluster(self, channel: str) -> ClusterFile:
        """With a host that trains, and the data hosts."""
        groups = {}
        if self.data_hosts:
            groups[DATA] = GroupFile(
                self.data_hosts, instance_type="ml.c5.large", cpus=self.data_cpus, mbit_per_s=self.data_mbit_per_s
            )
        groups[DNN] = GroupFile(1, instance_type="ml.p3.2xlarge", cpus=self.dnn_cpus, mbit_per_s=self.dnn_mbit_per_s)
        return ClusterFile("plan", groups, {"training": channel})

    def arguments(self, steps: int) -> list[str]:
        """Arguments of the launcher."""
        words = [
            *("--chain", self.load.chain, "--batch_size", str(self.load.batch_size), "--cut", str(self.position)),
            *("--steps_per_epoch", str(steps), "--step_ms", f"{self.accelerator_ms:.3f}"),
            *("--step_file", f"{INSIDE}/{STEP_FILE}", "--data_host_workers", str(self.workers)),
            *("--dnn_host_workers", str(int(self.place is Place.EVERYWHERE))),
        ]
        fixed = (
            "--model emulated --epochs 1 --log_every 1 --shuffle 0 --validation none --export false "
            "--checkpoint_every_epochs 0"
        )
        return [*words, *fixed.split()]

    def resources(self, frozen: Frozen) -> list[Resource]:
        """The resources of which its job can be given more, those first that are predicted to need longest: networks
        only where they are limited."""
        named = [one for one in self.prediction(frozen).ceilings_s if one in FIELDS]
        return [one for one in named if self.relaxed(one) != self]

    def relaxed(self, resource: Resource) -> PlanCase:
        """With MORE of one resource. Raises KeyError for one that a running job cannot be given more of."""
        changes: dict[str, float | None] = {}
        for name in FIELDS[resource]:
            now = getattr(self, name)
            changes[name] = now / MORE if resource is Resource.ACCELERATOR else now and now * MORE
        return replace(self, **changes)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {**found, "kind": self.kind.value, "place": self.place.value}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> PlanCase:
        """The inverse of `to_json`."""
        made = {**found, "kind": Resource(found["kind"]), "place": Place(found["place"])}
        return cls(**{**made, "load": PlanLoad(**found["load"])})
