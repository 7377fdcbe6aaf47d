"""What a case of `benchmarks.cluster` is: jobs that take turns on scaled instances, and the figures they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.cluster_runs.measured_job import EMULATED, LINE_STEPS, MOST_STEPS, Course
from tfhet.catalogue import AWS_POST, REGION, Price, shipped
from tfhet.errors import UsageError
from tfhet.simulate import ClusterFile, GroupFile

PIPELINE = "pipeline"
"""The input that the built-in trainer reads; `job_scripts/cluster_train.py` reads the others."""


@dataclass(frozen=True)
class Variant:
    """One of the jobs that are compared."""

    key: str
    """Part of a figure's name: `example_heterogeneous`."""
    words: str
    """Its name in tables."""
    input: str
    """Name of an input of `job_scripts.inputs`."""
    data_hosts: int = 0
    arguments: Sequence[str] = ()
    """Launcher arguments of the data plane."""


@dataclass(frozen=True)
class ClusterCase:
    """One comparison."""

    name: str
    """Part of a figure's name, and the word on the command line."""
    batch_size: int
    dnn_type: str
    data_type: str
    """Instance types."""
    cpus_per_vcpu: float
    """CPUs of a simulated host per vCPU of its type. Each host fits on one CPU, and all together on two."""
    variants: Sequence[Variant]
    chain: str = ""
    """Chain of stages of the inputs that read a channel."""
    accelerator_ms: float = 0.0
    """Milliseconds of the emulated step."""
    busy: float | None = None
    """Instead of `accelerator_ms`: the accelerator's share of the first variant's step."""
    own_cpus: Mapping[str, float] = field(default_factory=dict)
    """CPUs by instance type for processes that use as much on a small host as on a large one."""
    buffered: int = 4
    """Batches per host that may be ready when the hosts' limits begin."""
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Figures: the variants (slow, fast) whose steps are divided."""
    savings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Figures: the variants (before, after) whose costs are compared."""
    expected: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Figures: their bounds, beyond which the suite fails."""
    packages: Sequence[str] = ()
    """Modules that the jobs need in addition to tfhet's own dependencies."""

    @property
    def inputs(self) -> list[str]:
        """The inputs of all variants, each once."""
        return list(dict.fromkeys(variant.input for variant in self.variants))

    def only(self, keys: Sequence[str]) -> ClusterCase:
        """Returns the case with the named variants. Raises UsageError if it has none of them."""
        variants = [variant for variant in self.variants if variant.key in keys]
        if not variants:
            raise UsageError(f"--variants: {self.name} has {', '.join(variant.key for variant in self.variants)}")
        return replace(self, variants=variants)

    def instances(self, data_hosts: int) -> dict[str, int]:
        """Returns the number of hosts by instance type."""
        return {self.dnn_type: 1, **({self.data_type: data_hosts} if data_hosts else {})}

    def preparing_cpus(self, data_hosts: int) -> float:
        """Returns the CPUs of all hosts together, without `own_cpus`."""
        return sum(count * self._scaled(name) for name, count in self.instances(data_hosts).items())

    def host_cpus(self, instance_type: str) -> float:
        """Returns the CPUs of one simulated host."""
        return self._scaled(instance_type) + self.own_cpus.get(instance_type, 0.0)

    def _scaled(self, instance_type: str) -> float:
        return shipped().instance(instance_type).vcpus * self.cpus_per_vcpu

    def ideal_s(self, data_hosts: int, batch_cpu_s: float, step_s: float) -> float:
        """Returns the seconds of a step that the CPUs and the accelerator allow: moving batches costs nothing.

        Args:
            data_hosts: number of data hosts, which prepare batches, as the dnn host does.
            batch_cpu_s: CPU seconds of a batch outside any job.
            step_s: seconds of the accelerator's step.
        """
        return max(step_s, batch_cpu_s / self.preparing_cpus(data_hosts))

    def cluster(self, variant: Variant, channel: Path) -> ClusterFile:
        """Returns a dnn host with one rank, and the data hosts of a variant."""
        groups = {"dnn_group": GroupFile(1, instance_type=self.dnn_type, cpus=self.host_cpus(self.dnn_type))}
        if variant.data_hosts:
            cpus = self.host_cpus(self.data_type)
            groups["data_group"] = GroupFile(variant.data_hosts, instance_type=self.data_type, cpus=cpus)
        name = f"{self.name}.{variant.key}"
        return ClusterFile(name, groups, {"training": str(channel)} if self.chain else {})

    def course(self, variant: Variant, ideal_s: float, seconds: float) -> Course:
        """Returns the steps of a run that is measured for about `seconds`."""
        return Course.of(self.buffered * (variant.data_hosts + 1), ideal_s, seconds)

    def arguments(self, variant: Variant, step_s: float, steps: int) -> list[str]:
        """Returns the launcher's arguments for a number of steps of an accelerator that needs `step_s` for each."""
        words = ["--batch_size", str(self.batch_size), "--steps_per_epoch", str(steps), "--log_every", str(LINE_STEPS)]
        words += ["--step_ms", f"{1e3 * step_s:.4f}", *variant.arguments]
        words += ["--chain", self.chain] if self.chain else []
        if variant.input == PIPELINE:
            return [*words, *EMULATED.split()]
        return [*words, "--train_script", "cluster_train.py", "--input", variant.input]

    def batches(self) -> int:
        """Returns the number of batches that the longest run reads, with those that workers prepare ahead."""
        hosts = 1 + max(variant.data_hosts for variant in self.variants)
        return MOST_STEPS + (self.buffered + 8) * hosts + 4 * LINE_STEPS

    def prices(self) -> dict[str, Price]:
        """Returns the prices of both instance types in one market: AWS's post, if it has both. Raises UsageError."""
        listed, types = shipped().with_file(AWS_POST), (self.dnn_type, self.data_type)
        market = listed.common_market(list(types))
        found = {name: listed.price(name, REGION, market) for name in types} if market else {}
        if prices := {name: price for name, price in found.items() if price is not None}:
            return prices
        raise UsageError(f"no market has prices of both {self.dnn_type} and {self.data_type}")
