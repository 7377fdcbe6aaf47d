"""The cases of `benchmarks.cluster`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.cluster.case import PIPELINE, ClusterCase, Variant

_P4D, _C5 = "ml.p4d.24xlarge", "ml.c5.18xlarge"
_GROWTH = (0, 1, 2, 4, 8)


def _service(data_hosts: int) -> Sequence[str]:
    """A worker on every host of a job with data hosts; without them, the rank prepares its batches itself."""
    return ("--data_host_workers", "1", "--dnn_host_workers", "1" if data_hosts else "0")


def _both(key: str, words: str, input_name: str, arguments: Sequence[Sequence[str]], data_hosts: int) -> list[Variant]:
    """The variants without and with data hosts."""
    return [
        Variant(f"{key}homogeneous", f"{words}, no data host", input_name, 0, arguments[0]),
        Variant(f"{key}heterogeneous", f"{words}, {data_hosts} data hosts", input_name, data_hosts, arguments[1]),
    ]


_FEED = "--data_plane feed --dnn_host_processes 1 --data_host_processes 2"
_RAY = "--data_plane ray --strategy solo --object_store_mb 500 --dnn_host_cpus 1 --data_host_cpus 2"

CASES: Mapping[str, ClusterCase] = {
    case.name: case
    for case in (
        ClusterCase(
            name="aws-post",
            batch_size=512,
            dnn_type=_P4D,
            data_type=_C5,
            cpus_per_vcpu=1.5 / 240,
            chain="aws-cifar",
            busy=0.38,  # AWS's post: the GPUs of its homogeneous run were busy for 38 % of the time
            variants=[
                *_both("example_", "the example's stages", "example", (_service(0), _service(2)), 2),
                *_both("tfhet_", "tfhet's stages", PIPELINE, (_service(0), _service(2)), 2),
            ],
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
            expected={"example_speedup": (2.0, 2.5), "tfhet_homogeneous_vs_example_heterogeneous": (1.0, math.inf)},
        ),
        ClusterCase(
            name="aws-pytorch",
            batch_size=32,
            dnn_type="ml.p3.2xlarge",
            data_type="ml.c5.9xlarge",
            cpus_per_vcpu=1 / 40,
            accelerator_ms=2.0,
            buffered=8,
            variants=[
                *_both("", "batches of Python", "digits", (_FEED.split(),) * 2, 1),
                *_both("declared_", "a declared pipeline", "declared-digits", (_FEED.split(),) * 2, 1),
            ],
            ratios={
                "speedup": ("homogeneous", "heterogeneous"),
                "declared_homogeneous_vs_heterogeneous": ("heterogeneous", "declared_homogeneous"),
                "declared_homogeneous_vs_homogeneous": ("homogeneous", "declared_homogeneous"),
            },
            savings={
                "saving_pct": ("homogeneous", "heterogeneous"),
                "declared_homogeneous_saving_pct": ("homogeneous", "declared_homogeneous"),
            },
            packages=("scipy",),
        ),
        ClusterCase(
            name="ray-article",
            batch_size=128,
            dnn_type="ml.g5.xlarge",
            data_type="ml.c5.4xlarge",
            cpus_per_vcpu=1 / 20,
            # Ray's own processes, the rank and the launcher use as much of a host of 0.3 CPUs as of one of 4.
            own_cpus={"ml.g5.xlarge": 0.35, "ml.c5.4xlarge": 0.15},
            accelerator_ms=2.0,
            buffered=8,
            variants=_both("", "batches of Ray tasks", "images", (_RAY.split(),) * 2, 1),
            ratios={"speedup": ("homogeneous", "heterogeneous")},
            savings={"saving_pct": ("homogeneous", "heterogeneous")},
            packages=("ray", "scipy"),
        ),
        ClusterCase(
            name="growth",
            batch_size=1024,
            dnn_type="ml.p3.2xlarge",
            data_type="ml.c5.2xlarge",
            cpus_per_vcpu=0.15 / 8,
            chain="aws-cifar",
            variants=[Variant(f"hosts_{n}", f"{n} data hosts", PIPELINE, n, _service(n)) for n in _GROWTH],
            ratios={f"speedup_{n}": ("hosts_0", f"hosts_{n}") for n in _GROWTH if n},
        ),
    )
}
