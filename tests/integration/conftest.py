"""Whole clusters on this machine. A run takes seconds per process, so each test asserts many things of one run.

Fixtures: `simulated` runs a job on a simulated cluster; `started` runs one in its own process during the test;
`host_directory` makes the files of a host; `script` gives the path of a training script of these tests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import ClusterFile, Fault, GroupFile, simulate

DIGITS = {"training": "digits/train", "validation": "digits/validation"}
HERE = Path(__file__).parent


@dataclass
class Run:
    """One finished run."""

    summary: RunSummary
    folder: RunFolder
    lines: list[str] = field(repr=False)
    """The lines that all hosts printed."""

    @property
    def hosts(self) -> Path:
        return self.folder.path / "hosts"

    def found(self, pattern: str) -> list[tuple[str, ...]]:
        """The groups of every line that holds `pattern`."""
        return [match.groups() for line in self.lines if (match := re.search(pattern, line))]

    def output(self, pattern: str) -> list[Path]:
        """The files in the output directories of all hosts, by name pattern."""
        return sorted(self.hosts.glob(f"*/output/data/{pattern}"))

    def failures(self) -> dict[str, str]:
        """The failure files, by host."""
        return {path.parts[-3]: path.read_text() for path in self.hosts.glob("*/output/failure")}

    def batches(self) -> list[int]:
        """Batches of each rank of the built-in trainer, by rank."""
        return [int(count) for _, count in sorted(self.found(r"\[tfhet\] rank=(\d+) batches=(\d+)"))]

    def weights(self) -> dict[str, str]:
        """Digest of each rank's variables at the end of the built-in trainer."""
        return dict(self.found(r"\[tfhet\] rank=(\d+) .*weights=([0-9a-f]{64})"))

    def assert_each_example_once(self, examples: int, epochs: Sequence[int]) -> None:
        assert [epoch["epoch"] for epoch in self.summary.epochs] == list(epochs)
        for epoch in self.summary.epochs:
            counts = {name: epoch[name] for name in ("expected", "seen", "once", "missing", "repeated")}
            assert counts == {"expected": examples, "seen": examples, "once": examples, "missing": 0, "repeated": 0}

    def assert_equal_weights(self, ranks: int) -> None:
        weights = self.weights()
        assert set(weights) == {str(rank) for rank in range(ranks)}
        assert len(set(weights.values())) == 1, weights


def processes_under(base: Path) -> dict[int, str]:
    """Living processes of the simulated hosts below `base`, told by their environment."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            at = process.environ().get("SAGEMAKER_BASE_DIR", "")
            if at.startswith(str(base)) and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = " ".join(process.cmdline())
    return found


def wait_until(condition: Callable[[], object], deadline_s: float = 30.0) -> None:
    """Returns once `condition` holds; fails the test when it does not."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"waited {deadline_s:g} s in vain"
        time.sleep(0.05)


def assert_nothing_left(base: Path) -> None:
    """Asserts that all processes of the simulated hosts below `base` are gone, or go within moments."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not processes_under(base), 2.0)
    assert processes_under(base) == {}


def cluster(
    data: int = 1,
    dnn: int = 1,
    ranks: int = 2,
    channels: Mapping[str, str] = DIGITS,
    name: str = "test",
    groups: Mapping[str, GroupFile] | None = None,
) -> ClusterFile:
    """A cluster of so many data hosts and dnn hosts; without data hosts it is homogeneous. groups: in their place."""
    dnn_group = GroupFile(hosts=dnn, ranks=ranks)
    usual = {"data_group": GroupFile(hosts=data), "dnn_group": dnn_group} if data else {"homogeneous": dnn_group}
    return ClusterFile(name, groups or usual, channels)


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Callable[..., Run]:
    """`simulated(*launcher_arguments, data=1, dnn=1, ranks=2, ...)`: runs to the end; checks that nothing is left."""

    def run(
        *arguments: object,
        checkpoints: Path | None = None,
        max_run_s: float = 200.0,
        faults: Sequence[str] = (),
        start: str | None = None,
        **shape: object,
    ) -> Run:
        folder = tmp_path_factory.mktemp("run") / "record"
        lines: list[str] = []
        summary = simulate(
            cluster(**shape),  # type: ignore[arg-type]
            [str(repository / "scripts" / "launcher.py"), *map(str, arguments)],
            folder,
            max_run_s=max_run_s,
            checkpoints=checkpoints,
            faults=[Fault.parse(text) for text in faults],
            on_line=lines.append,
            start=start,
        )
        print("\n".join(lines))  # pytest shows it for a test that fails
        assert_nothing_left(folder)
        return Run(summary, RunFolder(folder), lines)

    return run


class Started:
    """`tfhet simulate` in a process of its own."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str]):
        self.folder = RunFolder(folder)
        self.log = folder.parent / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def wait_for(self, pattern: str, times: int = 1, deadline_s: float = 30.0) -> list[str]:
        """The group of each place where the output has `pattern`, once there are so many."""
        wait_until(
            lambda: len(re.findall(pattern, self.log.read_text())) >= times or self.process.poll() is not None,
            deadline_s,
        )
        found = re.findall(pattern, self.log.read_text())
        assert len(found) == times, self.log.read_text()
        return found

    def launchers(self) -> dict[str, int]:
        """The process of every launcher, by the label that the simulator uses."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            env = child.environ()
            rank = f"/{env['HOROVOD_RANK']}" if "HOROVOD_RANK" in env else ""
            found[env["SM_CURRENT_HOST"] + rank] = child.pid
        return found

    def wait(self, deadline_s: float = 60.0) -> int:
        """The exit code, after checking that nothing is left."""
        code = self.process.wait(deadline_s)
        print(self.log.read_text())
        assert_nothing_left(self.folder.path)
        return code


@pytest.fixture
def started(tmp_path: Path, repository: Path) -> Iterator[Callable[..., Started]]:
    """`started(*launcher_arguments, how=(), data=1, dnn=1, ranks=2, ...)`; it is ended with the test. how: options of
    the simulator."""
    begun: list[Started] = []

    def start(*arguments: object, how: Sequence[str] = (), **shape: object) -> Started:
        described = cluster(**shape)  # type: ignore[arg-type]
        file = tmp_path / "cluster.yaml"
        file.write_text(json.dumps(dataclasses.asdict(described)))  # JSON is YAML
        launcher = [str(repository / "scripts" / "launcher.py"), *map(str, arguments)]
        command = [sys.executable, "-m", "tfhet", "simulate", str(file), "--run-dir", str(tmp_path / "record"), *how]
        env = {**os.environ, "PYTHONPATH": str(repository)}
        begun.append(Started(tmp_path / "record", [*command, "--", *launcher], env))
        return begun[-1]

    yield start
    for one in begun:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.fixture(scope="session")
def host_directory() -> Callable[..., Path]:
    """`host_directory(base, groups, host, training=None)`: the files that the platform gives to a host, at `base`."""

    def make(base: Path, groups: Mapping[str, Sequence[str]], host: str, training: Path | None = None) -> Path:
        (base / "input" / "config").mkdir(parents=True)
        (base / "input" / "data").mkdir()
        if training:
            (base / "input" / "data" / "training").symlink_to(training)
        described = [
            {"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": list(hosts)}
            for name, hosts in groups.items()
        ]
        document = {
            "current_host": host,
            "current_group_name": next(name for name, hosts in groups.items() if host in hosts),
            "current_instance_type": "ml.c5.xlarge",
            "hosts": sorted(name for hosts in groups.values() for name in hosts),
            "instance_groups": described,
            "network_interface_name": "lo",
        }
        (base / "input" / "config" / "resourceconfig.json").write_text(json.dumps(document))
        return base

    return make


@pytest.fixture(scope="session")
def script() -> Callable[[str], Path]:
    """The path of a script in tests/integration/scripts."""
    return lambda name: HERE / "scripts" / f"{name}.py"
