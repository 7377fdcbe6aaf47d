"""One job under one of the launchers, and its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import child_environment
from benchmarks.job_scripts import SOURCE_DIR
from benchmarks.launch.listener import JobListener
from tfhet.errors import JobFailed
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import ClusterFile, simulate

SKIPPED_STEPS = 5
"""First steps of a run that are kept apart: they trace graphs and drain buffers."""


@dataclass(frozen=True)
class Flow:
    """A launcher with a training script."""

    name: str
    """The word on the command line and in the figures."""
    words: str
    """Its name in tables."""
    launcher: str
    """File in SOURCE_DIR."""
    arguments: Sequence[str] = ()
    """Its own, before those that all flows share."""
    is_cold: bool = False
    """Whether each host begins with an empty cache, so that it compiles what it uses; hosts that are processes share
    the cache."""


_BUILT_IN = (
    *["--validation", "none", "--export", "false", "--checkpoint_every_epochs", "0", "--log_every", "1"],
    *["--shuffle", "10000"],
)
FLOWS = {
    flow.name: flow
    for flow in (
        Flow("example", "the example's launcher and script", "example_launcher.py"),
        Flow("tfhet", "tfhet's launcher and trainer", "tfhet_launcher.py", _BUILT_IN),
        Flow("cold", "the same with nothing compiled before", "tfhet_launcher.py", _BUILT_IN, is_cold=True),
        Flow(
            "script",
            "tfhet's launcher, the example's script",
            "tfhet_launcher.py",
            ("--train_script", "example_train.py"),
        ),
    )
}


@dataclass(frozen=True)
class Load:
    """The work of every flow."""

    model: str
    """As the built-in trainer calls it."""
    batch_size: int
    """Per rank."""
    steps: int
    """Number of steps in the one epoch."""

    @property
    def arguments(self) -> list[str]:
        words = f"--model {self.model} --batch_size {self.batch_size} --epochs 1 --steps_per_epoch {self.steps}"
        workers = "--data_host_workers 1 --dnn_host_workers 1"  # on every host, as the example's are
        return [*words.split(), *workers.split(), "--chain", "aws-cifar"]


@dataclass(frozen=True)
class FlowRun:
    """The times of one run."""

    flow: str
    first_batch_s: float
    """From the moment when all hosts run to the first batch in the hands of rank 0."""
    first_step_s: float
    """To the end of its first step."""
    step_ms: tuple[float, ...]
    """Steps of rank 0 after the warm-up."""
    teardown_s: float
    """From the end of rank 0's last step to the end of the last launcher."""
    containers_s: float
    """The same to the end of the last container."""

    @property
    def step(self) -> float:
        """The mean, in milliseconds: batches come in bursts, so that a single step says little."""
        return sum(self.step_ms) / len(self.step_ms)

    def to_json(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "step_ms": list(self.step_ms)}


def flow_run(
    flow: Flow, load: Load, cluster: ClusterFile, folder: Path, *, hosts: str, start: str, seed: int, limit_s: float
) -> FlowRun:
    """Runs the job in `folder`, which is new. `hosts`, `start`, `seed`: as `simulate` takes them. Raises JobFailed."""
    listener = JobListener()
    env = child_environment()
    if flow.is_cold:
        cache = folder.with_name(f"{folder.name}-cache")
        cache.mkdir(mode=0o700)
        env |= {"XDG_CACHE_HOME": str(cache)}
    summary = simulate(
        cluster,
        [flow.launcher, *flow.arguments, *load.arguments],
        folder,
        max_run_s=limit_s,
        seed=seed,
        on_line=listener.hear,
        hosts=hosts,
        start=start,
        code=SOURCE_DIR,
        env=env,
    )
    return times(flow.name, load, listener, summary, RunFolder(folder))


def times(flow: str, load: Load, listener: JobListener, summary: RunSummary, folder: RunFolder) -> FlowRun:
    """The times of a job that has ended. Raises JobFailed for one that failed, or whose lines are not all there."""
    missing = [
        what
        for what, there in (
            ("a first batch", listener.first_batch_s is not None),
            (f"{load.steps} steps", len(listener.step_s) == load.steps),
            ("the end of its launchers", bool(listener.ended_s) and len(listener.ended_s) == len(listener.begun_s)),
        )
        if not there
    ]
    if summary.exit_code or missing:
        why = summary.cause or f"exit code {summary.exit_code}"
        why = why if summary.exit_code else f"nobody heard {' and '.join(missing)}"
        raise JobFailed(
            f"a run of the flow {flow!r} failed: {why}", code=summary.exit_code or 1, log_tail=listener.lines
        )
    assert listener.first_batch_s is not None and summary.started is not None
    events = [(event.get("event"), float(event["time_s"])) for event in folder.events()]
    started_s = min([at_s for name, at_s in events if name == "hosts.started"], default=summary.started)
    gone = [at_s for name, at_s in events if name == "host.ended"]
    end_s, last_s = max(listener.ended_s), listener.step_s[-1]
    return FlowRun(
        flow,
        listener.first_batch_s - started_s,
        listener.step_s[0] - started_s,
        tuple(listener.step_ms[SKIPPED_STEPS:] or listener.step_ms),
        end_s - last_s,
        max([end_s, *gone]) - last_s,
    )
