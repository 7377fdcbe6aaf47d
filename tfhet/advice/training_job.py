"""Whether a training job waits for its input, and what to change first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.catalogue import Catalogue, Instance
from tfhet.errors import UsageError
from tfhet.follow.state import JobState
from tfhet.follow.utilisation import Use
from tfhet.record import Spread, median
from tfhet.report import numbers
from tfhet.report.verdict import BOUND_PCT, FREE_PCT

BUSY_PCT = 80.0
"""From it on a resource is taken for used up: means over a minute of what works in bursts do not reach 100 %."""
LOW_PCT = 50.0
"""Below it most of a resource is not used."""
FULL_PCT = 90.0
"""From it on memory or a disk is nearly full."""
UNEVEN_PCT = 20.0
"""Points by which hosts of one group may differ."""
PROFILING_MS = 500
"""How often SageMaker's profiler looks."""

INPUT, STEP, PARTLY, UNKNOWN = "input-bound", "not input-bound", "hardly input-bound", "unknown"


@dataclass(frozen=True)
class Waiting:
    """What the metric lines say of the time that ranks wait for data."""

    pct: float
    """Of the step, 0 to 100: the median of metric lines, which are those of the start and the end of a long log."""
    lines: int
    """How many said so."""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict, what it rests on, and what to do."""

    kind: str
    """One of INPUT, PARTLY, STEP and UNKNOWN."""
    verdict: str
    """In one sentence."""
    evidence: tuple[str, ...] = ()
    levers: tuple[str, ...] = ()
    """Changes, the one to try first in front."""
    next_run: tuple[str, ...] = ()
    """What to switch on, so that more is known next time."""


def diagnose(state: JobState, hosts: Sequence[Use], waiting: Waiting | None, known: Catalogue) -> Diagnosis:
    """The verdict on a job, from what its hosts used and, better where it is there, from how long its ranks waited."""
    if waiting is None and all(use.is_empty for use in hosts):
        return Diagnosis(UNKNOWN, _nothing(state), next_run=tuple(_next_run(state, waiting)))
    training, data = _parts(state, hosts, known)
    seen = _Seen(_middle(training, "gpu_pct"), _middle(training, "cpu_pct"), _middle(data, "cpu_pct"), bool(data))
    kind, verdict = _verdict(seen, waiting)
    evidence = [*_waited(waiting), *_used(training, "training"), *_used(data, "data"), *_full(hosts)]
    levers = _levers(kind, seen, state, training, known)
    return Diagnosis(kind, verdict, tuple(evidence), tuple(levers), tuple(_next_run(state, waiting)))


def _nothing(state: JobState) -> str:
    if state.is_over:
        why = "it ended within its first minutes, or so long ago that nothing is kept, or --region is another"
        return f"CloudWatch has no utilisation of {state.name} ({state.status}), and its log no metric lines: {why}."
    told = f"There is nothing of {state.name} yet ({str(state).rstrip('. ')})"
    return (
        f"{told}: CloudWatch counts whole minutes, and has the first some minutes after training began. Ask again then."
    )


@dataclass(frozen=True)
class _Seen:
    """Medians over hosts of their medians over time, in percent; None where that was not measured."""

    gpu: float | None
    cpu: float | None
    """Of the hosts that train."""
    data_cpu: float | None
    has_data: bool

    @property
    def cpu_is_busy(self) -> bool:
        return max(self.cpu or 0.0, self.data_cpu or 0.0) >= BUSY_PCT


def _parts(state: JobState, hosts: Sequence[Use], known: Catalogue) -> tuple[list[Use], list[Use]]:
    """The hosts that train, and the others: those with GPUs, where there are such; else all train."""

    def has_gpus(use: Use) -> bool:
        kind = _kind(use.instance_type, known)
        return bool(kind and kind.gpus) or use.gpu_pct is not None

    training = [use for use in hosts if has_gpus(use)]
    if not training or not state.is_heterogeneous:
        return list(hosts), []
    return training, [use for use in hosts if use.group and not has_gpus(use)]


def _verdict(seen: _Seen, waiting: Waiting | None) -> tuple[str, str]:
    if waiting is not None:
        told = f"{numbers.percent(waiting.pct)} of the step is waiting for data"
        if waiting.pct >= BOUND_PCT:
            return INPUT, f"Input-bound: {told}; {_why(seen)}."
        if waiting.pct >= FREE_PCT:
            return PARTLY, f"Hardly input-bound: {told}."
        if seen.gpu is not None and seen.gpu < LOW_PCT:
            return STEP, f"Not input-bound: {told}. The GPUs rest inside the step: it leaves them too little to do."
        return STEP, f"Not input-bound: {told}."
    if seen.gpu is None:
        nothing = "its log has no metric lines, and CloudWatch has nothing of GPUs"
        return UNKNOWN, f"Whether this job waits for its input is not known: {nothing}."
    told = f"the GPUs are busy {numbers.percent(seen.gpu)} of the time"
    if seen.gpu >= BUSY_PCT:
        return STEP, f"Not input-bound, as far as utilisation tells: {told}."
    if seen.gpu >= LOW_PCT and not seen.cpu_is_busy:
        return PARTLY, f"Hardly input-bound, as far as utilisation tells: {told}, and {_why(seen)}."
    return INPUT, f"Input-bound, as far as utilisation tells: {told}, and {_why(seen)}."


def _why(seen: _Seen) -> str:
    """What holds the input up."""
    if seen.has_data and seen.data_cpu is not None:
        if seen.data_cpu >= BUSY_PCT:
            return "the CPUs of the data hosts are used up"
        if seen.cpu is not None and seen.cpu >= BUSY_PCT:
            return "the CPUs of the training hosts are used up, those of the data hosts are not"
        return "no CPUs are used up: the data hosts wait for their source or the network, or a stage runs on one thread"
    if seen.cpu is None:
        return "how busy the CPUs are is not known"
    if seen.cpu >= BUSY_PCT:
        return "the CPUs are used up"
    return "the CPUs are not used up: a stage runs on one thread, or waits for the source or the network"


def _levers(kind: str, seen: _Seen, state: JobState, training: Sequence[Use], known: Catalogue) -> Iterator[str]:
    if kind == UNKNOWN:
        return
    if kind == STEP:
        yield "Neither cheaper stages nor more CPUs shorten a step: shorten the training step itself."
        gpu_memory = _middle(training, "gpu_memory_pct")
        if gpu_memory is not None and gpu_memory < LOW_PCT:
            yield f"A larger batch: {numbers.percent(gpu_memory)} of the GPUs' memory is used."
        if seen.data_cpu is not None and seen.data_cpu < LOW_PCT:
            yield f"Fewer data hosts: their CPUs are used to {numbers.percent(seen.data_cpu)}."
        return
    if not seen.cpu_is_busy:
        yield (
            "Find what the input waits for: `tfhet doctor --script SCRIPT` names stages on one thread and Python in the"
            " graph, `tfhet profile` what each costs; FastFile channels, more files and prefetching help a slow source."
        )
    yield "Cheaper stages first, they cost nothing: `tfhet profile` says which cost what, and advises."
    if not seen.cpu_is_busy:
        yield "More CPUs, in whatever machine, only when those that are there are used up."
        return
    bigger = [
        _bigger(name, known) for name in dict.fromkeys(use.instance_type for use in training if use.instance_type)
    ]
    if not seen.has_data or (seen.cpu or 0.0) >= BUSY_PCT:
        yield from bigger
    today = "+".join(f"{group.count}*{group.instance_type}" for group in state.groups)
    more = "More data hosts" if seen.has_data else "Then a data group"
    yield f"{more}: `tfhet plan --profile FILE --cluster {today}` says how many pay, and what they save."


def _bigger(name: str, known: Catalogue) -> str:
    """The next size of a type's family that has more CPUs beside as many GPUs."""
    today = _kind(name, known)
    if today is None:
        return f"Then a bigger size of the same family: {name} is no type of the catalogue, so which is not known."
    family = name.rpartition(".")[0]
    sizes = [
        one
        for full, one in known.instances.items()
        if full.rpartition(".")[0] == family and one.gpus == today.gpus and one.vcpus > today.vcpus
    ]
    if not sizes:
        return f"A bigger size of the same family: {family} has none with more CPUs for {_gpus(today)}."
    best = min(sizes, key=lambda one: one.vcpus)
    return f"Then a bigger size: {best.name} has {best.vcpus} vCPUs for {_gpus(best)}, {name} has {today.vcpus}."


def _gpus(kind: Instance) -> str:
    return f"{kind.gpus} GPU{'s' * (kind.gpus != 1)}"


def _kind(name: str, known: Catalogue) -> Instance | None:
    try:
        return known.instance(name)
    except UsageError:
        return None


def _middle(hosts: Sequence[Use], field: str) -> float | None:
    found = [spread.median for use in hosts if (spread := getattr(use, field)) is not None]
    return median(found) if found else None


_SAID = {"gpu_pct": "GPUs", "cpu_pct": "CPUs", "memory_pct": "memory", "gpu_memory_pct": "GPU memory"}


def _used(hosts: Sequence[Use], what: str) -> Iterator[str]:
    """A sentence for each resource: median, spread over time, and the hosts where they differ."""
    for field, name in _SAID.items():
        found: dict[str, Spread] = {use.host: s for use in hosts if (s := getattr(use, field)) is not None}
        if not found:
            continue
        samples = [value for spread in found.values() for value in spread.samples]
        whole = Spread.of(samples)
        count = f"{len(found)} {what} host{'s' * (len(found) != 1)}"
        said = f"{name} of {count}: {numbers.percent(whole.median)} (p10 {whole.p10:.0f}, p90 {whole.p90:.0f})"
        least, most = (pick(found, key=lambda host: found[host].median) for pick in (min, max))
        if found[most].median - found[least].median >= UNEVEN_PCT:
            said += f"; uneven: {least} {found[least].median:.0f}, {most} {found[most].median:.0f}"
        yield f"{said}."


def _waited(waiting: Waiting | None) -> Iterator[str]:
    if waiting is None:
        yield "The log has no metric lines ([tfhet] step=...): how long ranks wait for data is not known."
    else:
        lines = f"{waiting.lines} metric line{'s' * (waiting.lines != 1)}"
        yield f"Waiting for data: {numbers.percent(waiting.pct)} of the step, of {lines}."


def _full(hosts: Sequence[Use]) -> Iterator[str]:
    for field, what in (("memory_pct", "memory"), ("disk_pct", "disk")):
        full = {use.host: s.p90 for use in hosts if (s := getattr(use, field)) is not None and s.p90 >= FULL_PCT}
        if full:
            named = ", ".join(f"{host} {pct:.0f} %" for host, pct in full.items())
            smaller = "shuffle buffers and caches" if what == "memory" else "what is cached or written there"
            yield f"Nearly full, {what}: {named}. Look at {smaller}."


def _next_run(state: JobState, waiting: Waiting | None) -> Iterator[str]:
    if waiting is None:
        yield "Run the script with tfhet's launcher, whose trainer prints the metric line that `wait_pct` stands in."
    if state.hyperparameter("timeline") != "steps":
        yield (
            "Hyperparameter timeline=steps: where the time of each step goes, and what each host sends and receives,"
            " which SageMaker does not publish."
        )
    if not state.profiler or state.profiler.get("DisableProfiler"):
        yield f"SageMaker's profiler is off; in the request: {profiler_settings(state)}."


def profiler_settings(state: JobState) -> dict[str, Any]:
    """What switches SageMaker's profiler on, in CreateTrainingJob."""
    place = state.output_path.rstrip("/") or "s3://BUCKET"
    return {"ProfilerConfig": {"S3OutputPath": f"{place}/profiler", "ProfilingIntervalInMilliseconds": PROFILING_MS}}
