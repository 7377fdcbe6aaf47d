"""The numbers that a plan takes from the record of a run.

The accelerator's step is what is left of a step without the wait for data. Ranks wait for each other in the allreduce:
a step of several ranks holds the longest of their waits, whichever rank's step is looked at. So of each step that rank
counts that waited longest. Where ranks waited for CPUs to prepare their data, the step also says how much CPU that
takes in a job, beside what the profile says of its parts alone.
"""

from __future__ import annotations

import functools
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tfhet.errors import UsageError
from tfhet.plan.ceiling import Layout, Resource, Where
from tfhet.plan.host import ClusterShape
from tfhet.plan.prediction import predict
from tfhet.plan.workload import PipelineCost, Trainer, Workload
from tfhet.planes import PlaneCosts
from tfhet.record import Interval, RunFolder, RunSummary, Spread, StepTime, Timeline, measured_steps, read_json

SAME_WAIT_PCT = 3.0
"""Share of a step by which the waits of ranks may differ before a plan says so."""
WAITS_PCT = 10.0
"""Share of a step that ranks wait for data, from which its length says what preparing data takes."""
BELIEVED = 0.5, 2.0
"""CPU of a job's input over that of its parts alone: beyond, it is not a profile of what ran."""


@dataclass(frozen=True)
class MeasuredRun:
    folder: RunFolder
    run: RunSummary
    timeline: Timeline

    @classmethod
    def read(cls, path: Path) -> MeasuredRun:
        """Reads a run's folder or `summary.json`. Raises UsageError without a summary, DataError for a damaged one."""
        folder = RunFolder(path.parent if path.is_file() else path)
        if path.is_file():
            return cls(folder, RunSummary.from_json(read_json(path, "run summary"), str(path)), Timeline())
        return cls(folder, folder.read_summary(), folder.timeline())

    @property
    def dnn_ranks(self) -> int | None:
        """Number of ranks on each dnn host; None where the record does not say."""
        found = (group.get("ranks_per_host") for group in self.run.cluster.values())
        return next((count for count in found if count), None)

    @property
    def is_simulated(self) -> bool:
        """Whether its hosts were processes or containers on one machine."""
        return self.run.status is not None and self.run.billable_s is None

    @property
    def is_script(self) -> bool:
        """Whether a script of one's own trained, whose pipeline is always cut where an example is smallest."""
        return bool(self.run.by_rank)

    @property
    def cluster(self) -> str:
        """The cluster, as `ClusterShape.parse` reads it. Raises UsageError where the record does not say it."""
        groups = sorted(self.run.cluster.values(), key=lambda group: group.get("role") == "data")
        trains = sum(group.get("role") != "data" for group in groups)
        if trains != 1 or len(groups) > 2 or not all(group.get("instance_type") for group in groups):
            raise UsageError(f"{self.folder.summary_path} does not say what its hosts are: give --cluster ml.g5.xlarge")
        return "+".join(f"{len(group.get('hosts') or ' ')}*{group['instance_type']}" for group in groups)

    @property
    def accelerator_ms(self) -> Interval:
        """Milliseconds of a step with data at hand: its median, and what a tenth of the steps is below and above. Where
        only rank 0's steps were recorded, what another rank waited longer in the mean is taken off as well, but not
        from the upper end. Raises UsageError for a run of which no step was measured."""
        durs_ms, waits_ms = (spread.samples if spread else () for spread in (self.run.step_ms, self.run.wait_ms))
        left_ms = [1e3 * (step.dur_s - step.wait_s) for step in self._slowest]
        less_ms = 0.0
        if not left_ms:
            left_ms = [max(0.0, dur_ms - wait_ms) for dur_ms, wait_ms in zip(durs_ms, waits_ms, strict=False)]
            less_ms = self.uneven_pct / 100.0 * sum(durs_ms) / max(1, len(durs_ms))
        if not left_ms:
            raise UsageError(
                f"{self.folder.path}: no step of this run was measured. Run it until it has taken some steps, with the "
                "script's data from tfhet.distribute; or give --accelerator_ms"
            )
        found = Spread.of(left_ms)
        low = max(0.0, found.p10 - less_ms)
        return Interval(max(low, found.median - less_ms), low, found.p90)

    @property
    def uneven_pct(self) -> float:
        """Share of a step by which another rank waited longer than rank 0, 0 to 100, where not all steps are known."""
        run, ranks = self.run, self.run.ranks or 1
        waits = {each["rank"]: each["wait_pct"] for each in run.by_rank}
        if not waits and ranks > 1 and run.step_ms and run.wait_ms and run.wait_pct is not None:
            # The built-in trainer leaves the mean of all ranks: this is that of the others.
            mine = 100.0 * sum(run.wait_ms.samples) / sum(run.step_ms.samples)
            waits = {0: mine, 1: mine + (run.wait_pct - mine) * ranks / (ranks - 1)}
        most = 0.0 if self._slowest else max(waits.values(), default=0.0)
        return max(0.0, most - waits.get(0, most))

    def layout(self, pipeline: PipelineCost, costs: PlaneCosts | None = None) -> Layout:
        """The layout of the run. costs: of the data plane that moved the batches, if one did."""
        before = sum(place != "trainer" for place in self.run.stages_where.values())
        if self.run.mode != "heterogeneous" and not before:
            return Layout(Where.EVERYWHERE) if costs and costs.is_needed else Layout()
        cut = next((at for at, each in enumerate(pipeline.cuts) if before and each.position == before), -1)
        servers = {group.get("role"): group.get("servers_per_host") or 0 for group in self.run.cluster.values()}
        data = servers.pop("data", 0)
        where = Where.EVERYWHERE if any(servers.values()) else Where.DATA
        return Layout(where, cut, servers_per_host=max(1, data, *servers.values()))

    @property
    def waited_pct(self) -> float:
        """Share of a step that the rank waited that waited longest, 0 to 100."""
        return max((self.run.wait_pct or 0.0, *(each["wait_pct"] or 0.0 for each in self.run.by_rank)))

    @property
    def cpus_used(self) -> float | None:
        """Mean CPUs that the processes of the run used together; None if the record does not say."""
        if self.run.watched:
            return sum((self.run.watched.get("cpus_used") or {}).values()) or None
        of_hosts: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for use in self.timeline.usage:
            of_hosts[use.member].append((sum(use.processes.values()) * use.dur_s, use.dur_s))
        sums = [tuple(map(sum, zip(*each, strict=True))) for each in of_hosts.values()]
        return sum(cpu_s / total_s for cpu_s, total_s in sums if total_s) or None

    def overhead(self, workload: Workload, cluster: ClusterShape, least_wait_pct: float = WAITS_PCT) -> float | None:
        """CPU that the run took for its input, over that of the parts alone (`Workload.overhead`), by its later steps:
        in the first ones, buffers fill. None if the ranks did not wait for CPUs. cluster: of the run."""
        steps_ms = self.run.step_ms.samples if self.run.step_ms else ()
        if self.waited_pct < least_wait_pct or len(steps_ms) < 2:
            return None
        layout = self.layout(workload.pipeline, workload.plane_costs)
        overheads = (replace(workload, overhead=Interval.exact(times)) for times in (0.0, 1.0))
        none, alone = (predict(each, cluster, layout).ceilings_s for each in overheads)
        binds = next(each for each in alone if each is not Resource.ACCELERATOR)
        input_s = alone[binds].value - none[binds].value
        step_s = 1e-3 * statistics.fmean(steps_ms[len(steps_ms) // 2 :])
        return (step_s - none[binds].value) / input_s if input_s else None

    def own_cpu_ms(self, pipeline: PipelineCost, costs: PlaneCosts, batch_size: int) -> Interval:
        """CPU milliseconds per step of a training process without what it prepares and receives; 0 where unknown.
        costs: of the data plane that moved the batches, if one did."""
        if self.run.cpu_ms is None:
            return Interval.exact(0.0)
        layout = self.layout(pipeline, costs)
        cut, us, s_per_gb = pipeline.cuts[layout.cut], pipeline.whole_us, Interval.exact(0.0)
        if layout.where is not Where.TRAINER:
            us, batch_bytes = cut.local_us, round(batch_size * cut.bytes_per_example)
            s_per_gb = costs.wire(max(1, batch_bytes)).reader_s_per_gb
        spent = [
            1e-3 * batch_size * (getattr(us, end) + cut.bytes_per_example / 1e3 * getattr(s_per_gb, end))
            for end in ("value", "high", "low")
        ]
        measured = self.run.cpu_ms
        ends = zip((measured.median, measured.p10, measured.p90), spent, strict=True)
        return Interval(*(max(0.0, all_of - its) for all_of, its in ends))

    def notes(self, trainer: Trainer, *, step_given: bool, cpu_given: bool) -> Iterator[str]:
        """The trainer of the plan, and what the run does not know of it. step_given, cpu_given: by an option."""
        (step,), is_known = trainer.accelerator_ms.values(), cpu_given or self.run.cpu_ms is not None
        own = f"{trainer.cpu_ms.value:.3g} ms of its own CPU" if is_known else "an unknown amount of its own CPU"
        took = f"a step with data at hand takes {step.value:.3g} ms ({step.low:.3g} to {step.high:.3g})"
        yield f"the trainer: {took} of batch {trainer.batch_size}, and {own}"
        if not step_given and self.is_simulated:
            yield "assumed: the accelerator's step is that of the simulated run, on this machine (--accelerator_ms)"
        if not is_known:
            yield "assumed: the training process takes no CPU of its own, as the run does not say (--trainer_cpu_ms)"
        if not step_given and self.uneven_pct >= SAME_WAIT_PCT:
            yield "a rank waited longer than rank 0: run with the launcher's --timeline steps, and its steps count too"

    @functools.cached_property
    def _slowest(self) -> list[StepTime]:
        """Each measured step as the rank took it that waited longest; [] where a rank's steps were not recorded."""
        ranks: dict[int, list[StepTime]] = defaultdict(list)
        for step in self.timeline.steps:
            ranks[step.rank].append(step)
        if len(ranks) != (self.run.ranks or 1):
            return []
        by_number: dict[int, list[StepTime]] = defaultdict(list)
        for steps in ranks.values():
            for step in measured_steps(steps):
                by_number[step.step].append(step)
        return [max(found, key=lambda step: step.wait_s) for found in by_number.values() if len(found) == len(ranks)]
