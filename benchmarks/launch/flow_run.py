"""One job under one of the launchers, and its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import child_environment
from benchmarks.job_scripts import SOURCE_DIR
from benchmarks.launch.job_times import JobTimes
from tfhet.errors import JobFailed
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import ClusterFile, simulate

SKIPPED_STEPS = 5
"""First steps of a run, which trace graphs and drain buffers, do not count as steps."""


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
    """Arguments of this flow, before the arguments of all flows."""


_TRAINER = "--validation none --export false --checkpoint_every_epochs 0 --log_every 1 --shuffle 10000"
_SCRIPT = ("--train_script", "example_train.py")
FLOWS = {
    flow.name: flow
    for flow in (
        Flow("example", "the example's launcher and script", "example_launcher.py"),
        Flow("tfhet", "tfhet's launcher and trainer", "tfhet_launcher.py", _TRAINER.split()),
        Flow("script", "tfhet's launcher, the example's script", "tfhet_launcher.py", _SCRIPT),
    )
}


@dataclass(frozen=True)
class Load:
    """The work of every flow."""

    model: str
    """Name of a model of the built-in trainer."""
    batch_size: int
    """Examples per rank and step."""
    steps: int

    @property
    def arguments(self) -> list[str]:
        """Arguments of every flow. Every host has one worker, as in the example."""
        words = f"--model {self.model} --batch_size {self.batch_size} --epochs 1 --steps_per_epoch {self.steps}"
        return f"{words} --data_host_workers 1 --dnn_host_workers 1 --chain aws-cifar".split()


@dataclass(frozen=True)
class FlowRun:
    """The times of one run."""

    first_batch_s: float
    """Seconds from the start of the last host to the first batch of rank 0."""
    first_step_s: float
    """Seconds to the end of its first step."""
    step_ms: tuple[float, ...]
    """Milliseconds of rank 0's steps after the first SKIPPED_STEPS."""
    teardown_s: float
    """Seconds from the end of rank 0's last step to the end of the last launcher."""
    containers_s: float
    """Seconds from the end of that step to the end of the last container."""

    @property
    def mean_step_ms(self) -> float:
        """The mean step. Batches arrive in bursts, so single steps differ."""
        return sum(self.step_ms) / len(self.step_ms)


def flow_run(
    flow: Flow, load: Load, cluster: ClusterFile, folder: Path, *, hosts: str, start: str, seed: int, limit_s: float
) -> FlowRun:
    """Runs the job in the new `folder`. `hosts`, `start`, `seed`: see `simulate`. Raises JobFailed."""
    lines = JobTimes()
    summary = simulate(
        cluster,
        [flow.launcher, *flow.arguments, *load.arguments],
        folder,
        max_run_s=limit_s,
        seed=seed,
        on_line=lines.on_line,
        hosts=hosts,
        start=start,
        code=SOURCE_DIR,
        env=child_environment(),
    )
    return times(flow.name, load, lines, summary, RunFolder(folder))


def times(flow: str, load: Load, lines: JobTimes, summary: RunSummary, folder: RunFolder) -> FlowRun:
    """Returns the times of a finished job. Raises JobFailed if the job failed, or did not print what is needed."""
    expected = {
        "a first batch": lines.first_batch_s is not None,
        f"{load.steps} steps": len(lines.step_s) == load.steps,
        "the end of its launchers": bool(lines.ended_s) and len(lines.ended_s) == len(lines.begun_s),
    }
    missing = [what for what, is_there in expected.items() if not is_there]
    if summary.exit_code or missing:
        cause = summary.cause or f"exit code {summary.exit_code}"
        why = cause if summary.exit_code else f"its log lacks {' and '.join(missing)}"
        raise JobFailed(
            f"a run of the flow {flow!r} failed: {why}", code=summary.exit_code or 1, log_tail=[*lines.tail]
        )
    assert lines.first_batch_s is not None and summary.started is not None
    events = [(event.get("event"), float(event["time_s"])) for event in folder.events()]
    started_s = min([at_s for name, at_s in events if name == "hosts.started"], default=summary.started)
    end_s, last_s = max(lines.ended_s), lines.step_s[-1]
    return FlowRun(
        lines.first_batch_s - started_s,
        lines.step_s[0] - started_s,
        tuple(lines.step_ms[SKIPPED_STEPS:] or lines.step_ms),
        end_s - last_s,
        max([end_s, *(at_s for name, at_s in events if name == "host.ended")]) - last_s,
    )
