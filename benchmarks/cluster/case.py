"""The cases of `benchmarks.cluster`: a chain, two instance types, and the jobs that take turns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster_runs.load import Course, ScalingLoad
from tfhet.catalogue import shipped
from tfhet.simulate import ClusterFile, GroupFile

LEAST_SKIPPED, LEAST_MEASURED = 16, 24
"""Steps of a run whose step is not known yet."""


@dataclass(frozen=True)
class Variant:
    """One of the jobs that are compared."""

    key: str
    """Its part of a figure's name: `example_heterogeneous`."""
    words: str
    """Its name in tables."""
    form: str
    """How the chain is written: `own` or `example`, as `ScalingLoad` has it."""
    data_hosts: int = 0
    """With some, every host has a worker, that of the ranks too; without, the ranks prepare their data themselves."""
    in_memory: bool = False
    """Whether the batches lie in the ranks' memory: input that costs nothing."""
    compression: str = "none"
    """Compression of the batches that are sent: none or snappy."""


@dataclass(frozen=True)
class ClusterCase:
    """One comparison."""

    name: str
    """Its part of a figure's name, and the word on the command line."""
    chain: str
    batch_size: int
    """The same for all variants: steps are compared as they are."""
    dnn_type: str
    data_type: str
    cpus_per_vcpu: float
    """A host has its type's vCPUs times this: small enough that all hosts together fit on 2 CPUs."""
    busy: float
    """The accelerator's share of the step of the first variant: its own step is so long."""
    why_busy: str
    """Where that share is from."""
    variants: Sequence[Variant]
    """The first is homogeneous: what the others are compared with."""
    ratios: Mapping[str, tuple[str, str]]
    """Figures: of which variant the step is divided by that of which."""
    savings: Mapping[str, tuple[str, str]]
    """Figures: against which variant which one saves money."""
    kept: Mapping[str, tuple[float, float]]
    """Figures: between what they are to lie, or the suite fails."""

    @property
    def most_data_hosts(self) -> int:
        return max(variant.data_hosts for variant in self.variants)

    @property
    def types(self) -> tuple[str, str]:
        return self.dnn_type, self.data_type

    def cpus(self, instance_type: str) -> float:
        """CPUs of one host."""
        return shipped().instance(instance_type).vcpus * self.cpus_per_vcpu

    def all_cpus(self, data_hosts: int) -> float:
        """CPUs of the dnn host and this number of data hosts together."""
        return self.cpus(self.dnn_type) + data_hosts * self.cpus(self.data_type)

    def instances(self, data_hosts: int) -> dict[str, int]:
        """How many of each type."""
        return {self.dnn_type: 1, **({self.data_type: data_hosts} if data_hosts else {})}

    def cluster(self, data_hosts: int, channel: Path) -> ClusterFile:
        """A dnn host with one rank, and so many data hosts, each with its share of the machine's CPUs."""
        groups = {"dnn_group": GroupFile(1, instance_type=self.dnn_type, cpus=self.cpus(self.dnn_type))}
        if data_hosts:
            data = GroupFile(data_hosts, instance_type=self.data_type, cpus=self.cpus(self.data_type))
            groups = {"data_group": data, **groups}
        return ClusterFile(self.name, groups, {"training": str(channel)})

    def ceiling(self, form: str) -> Variant:
        """The variant that reads from memory what another one of this form reads from its input."""
        return next(variant for variant in self.variants if variant.in_memory and variant.form == form)

    def load(self, variant: Variant) -> ScalingLoad:
        return ScalingLoad(self.chain, variant.form, self.batch_size)

    def command(self, variant: Variant, step_s: float, steps: int) -> list[str]:
        """The launcher and its arguments, for so many steps of an accelerator that takes `step_s` each."""
        words = ["tfhet_launcher.py", *self.load(variant).arguments(steps, step_s)]
        words += ["--compression", variant.compression]
        if variant.in_memory:
            words += ["--train_script", "scaling_train.py", "--in_memory", variant.form]
        # What is said last counts.
        return words if variant.data_hosts else [*words, "--dnn_host_workers", "0"]

    def least_s(self, variant: Variant, first_s: float, step_s: float) -> float:
        """Seconds that a step takes at best, if one of the first variant takes `first_s`, and it is written so too."""
        if variant.in_memory or variant.form != self.variants[0].form:
            return step_s
        return max(step_s, first_s * self.all_cpus(0) / self.all_cpus(variant.data_hosts))

    def course(self, variant: Variant, first_s: float | None, step_s: float, seconds: float) -> Course:
        """The steps of a run that is measured for about so many seconds; `first_s` None: not known yet."""
        if first_s is None:
            return Course(LEAST_SKIPPED, LEAST_MEASURED)
        return Course.of(variant.data_hosts + 1, self.least_s(variant, first_s, step_s), seconds)

    def batches(self) -> int:
        """As many as any run takes, and workers take that are not asked for any more."""
        longest = Course.of(self.most_data_hosts + 1, 1.0, 1e6)
        return longest.steps + 8 * (self.most_data_hosts + 1)


def _alone_and_with(dnn: str, data: str, data_hosts: int) -> tuple[Variant, ...]:
    """Each form alone, with data hosts, and from memory. The example leaves compression to tf.data service, whose
    default is Snappy."""
    forms = (("example", "example", "the example's stages", "snappy"), ("tfhet", "own", "tfhet's stages", "none"))
    return tuple(
        variant
        for key, form, words, compression in forms
        for variant in (
            Variant(f"{key}_homogeneous", f"{words}, {dnn} alone", form),
            Variant(f"{key}_heterogeneous", f"{words}, + {data_hosts} {data}", form, data_hosts, False, compression),
            Variant(f"{key}_ceiling", f"{words}, from memory", form, in_memory=True),
        )
    )


_P4D, _C5 = "ml.p4d.24xlarge", "ml.c5.18xlarge"
_BUSY, _WHY = 0.38, "AWS's post: the GPUs of its homogeneous run were busy for 38 % of the time"

CASES: Mapping[str, ClusterCase] = {
    case.name: case
    for case in (
        ClusterCase(
            name="aws-post",
            chain="aws-cifar",
            batch_size=512,
            dnn_type=_P4D,
            data_type=_C5,
            cpus_per_vcpu=1.5 / 240,
            busy=_BUSY,
            why_busy=_WHY,
            variants=_alone_and_with("p4d.24xlarge", "c5.18xlarge", 2),
            ratios={
                "example_speedup": ("example_homogeneous", "example_heterogeneous"),
                "tfhet_homogeneous_vs_example_heterogeneous": ("example_heterogeneous", "tfhet_homogeneous"),
                "tfhet_homogeneous_vs_example_homogeneous": ("example_homogeneous", "tfhet_homogeneous"),
                "tfhet_speedup": ("tfhet_homogeneous", "tfhet_heterogeneous"),
            },
            savings={
                "example_saving_pct": ("example_homogeneous", "example_heterogeneous"),
                "tfhet_homogeneous_saving_pct": ("example_homogeneous", "tfhet_homogeneous"),
                "tfhet_saving_pct": ("tfhet_homogeneous", "tfhet_heterogeneous"),
            },
            kept={"example_speedup": (2.0, 2.5), "tfhet_homogeneous_vs_example_heterogeneous": (1.0, math.inf)},
        ),
    )
}
