"""The cases of `benchmarks.plan_runs`: a script, the cluster that it was run on, and the one that is asked about.

Hosts are named by instance types, with a tenth of their CPUs each, so that a cluster fits into a small machine; a plan
is told so by `--vcpu_speed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from tfhet import catalogue

SHARE = 0.1
"""Share of a type's CPUs that its host has here."""
DNN, DATA = "dnn_group", "data_group"
DNN_FAMILY, DATA_FAMILY = "ml.g5", "ml.c7i"
JOB_SCRIPTS = ROOT / "benchmarks" / "job_scripts"
FOREIGN = ROOT / "benchmarks" / "scripts" / "foreign"


@dataclass(frozen=True)
class Script:
    """A training script that tfhet learns of by `tfhet.distribute` alone."""

    name: str
    path: Path
    arguments: tuple[str, ...] = ()
    chain: str = ""
    """The chain that its data are written for (`job_data`); "" for the demonstration data."""
    batch_size: int = 0

    def words(self, step_ms: float | None) -> list[str]:
        """Its arguments, with the step of its emulated accelerator where it has one."""
        return [*self.arguments, *([] if step_ms is None else ["--accelerator_step_ms", f"{step_ms:g}"])]


PHOTOS = Script("photos", JOB_SCRIPTS / "photos_train.py", ("--batch", "32", "--steps", "240"), "imagenet-train", 32)
DIGITS = Script("digits", JOB_SCRIPTS / "digits_fit.py", ("--batch", "1024", "--steps", "240"), "aws-cifar", 1024)
LOOP = Script("loop", FOREIGN / "custom_loop.py")


@dataclass(frozen=True)
class Hosts:
    """A cluster: hosts that train, with a rank each, and hosts that prepare data, if any."""

    dnn: str
    """Size of the type, such as `xlarge`."""
    dnn_hosts: int = 1
    data: str = "large"
    data_hosts: int = 0

    @property
    def dnn_type(self) -> str:
        return f"{DNN_FAMILY}.{self.dnn}"

    @property
    def data_type(self) -> str:
        return f"{DATA_FAMILY}.{self.data}"

    @property
    def cpus(self) -> float:
        """CPUs of this machine that all hosts together may use."""
        known = catalogue.shipped()
        dnn, data = (known.instance(name).vcpus for name in (self.dnn_type, self.data_type))
        return SHARE * (self.dnn_hosts * dnn + self.data_hosts * data)

    def file(self, channels: Mapping[str, str]) -> str:
        """The cluster file: JSON, which is YAML."""
        groups = {DATA: _group(self.data_type, self.data_hosts)} if self.data_hosts else {}
        groups[DNN] = _group(self.dnn_type, self.dnn_hosts)
        return json.dumps({"name": "plan-runs", "groups": groups, "channels": dict(channels)}, indent=1)

    def __str__(self) -> str:
        """The cluster as a plan writes it."""
        data = f"+{self.data_hosts}*{self.data_type}" if self.data_hosts else ""
        return f"{self.dnn_hosts}*{self.dnn_type}{data}"


def _group(name: str, hosts: int) -> dict[str, Any]:
    instance = catalogue.shipped().instance(name)
    network = instance.network_gbit_per_s
    limits = {"cpus": round(SHARE * instance.vcpus, 3), **({"mbit_per_s": 1e3 * network} if network else {})}
    return {"hosts": hosts, "ranks": 1, "instance_type": name, **limits}


@dataclass(frozen=True)
class PlanRunCase:
    """A script runs on `before`; what would a step be on `after`?"""

    name: str
    script: Script
    before: Hosts
    after: Hosts
    step_ms: float | None = None
    """Milliseconds of a step of the emulated accelerator; None for a script with a model of its own."""

    @property
    def plan_words(self) -> list[str]:
        """Options of `tfhet plan` by which it looks at `after`, and at few other clusters."""
        hosts = self.after.dnn_hosts + max(1, self.after.data_hosts)
        words = ["--dnn", self.after.dnn_type, "--data", self.after.data_type, "--max_hosts", str(hosts)]
        if self.after.dnn_hosts != self.before.dnn_hosts:  # more ranks are looked at to keep a deadline only
            words += ["--examples", "1e6", "--deadline_h", "1e6"]
        return [*words, "--vcpu_speed", f"{DNN_FAMILY}={SHARE},{DATA_FAMILY}={SHARE}"]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "script": self.script.path.name,
            "step_ms": self.step_ms,
            "before": asdict(self.before),
            "after": asdict(self.after),
        }


HOME, LARGER = Hosts("xlarge"), Hosts("2xlarge")
ONE, TWO, THREE = (Hosts("xlarge", 1, "large", hosts) for hosts in (1, 2, 3))
CASES: Sequence[PlanRunCase] = (
    PlanRunCase("photos-to-data-hosts", PHOTOS, HOME, TWO, 80.0),
    PlanRunCase("photos-to-input-bound", PHOTOS, HOME, Hosts("xlarge", 1, "xlarge", 1), 20.0),
    PlanRunCase("photos-to-larger-host", PHOTOS, HOME, LARGER, 20.0),
    PlanRunCase("photos-more-data-hosts", PHOTOS, ONE, THREE, 20.0),
    PlanRunCase("photos-back-home", PHOTOS, TWO, HOME, 60.0),
    PlanRunCase("photos-more-ranks", PHOTOS, ONE, Hosts("xlarge", 2, "xlarge", 2), 140.0),
    PlanRunCase("digits-to-data-hosts", DIGITS, HOME, TWO, 10.0),
    PlanRunCase("digits-fewer-data-hosts", DIGITS, THREE, ONE, 10.0),
    PlanRunCase("digits-two-ranks", DIGITS, Hosts("xlarge", 2), Hosts("xlarge", 2, "xlarge", 2), 100.0),
    PlanRunCase("loop-to-data-host", LOOP, LARGER, Hosts("2xlarge", 1, "xlarge", 1)),
)
"""Differ in what binds, and in the way from one cluster to the other."""
