"""Whether a training job waits for its input, and what to change first: of its utilisation and its metric lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.advice.finding import Fact, Finding, advice, fact
from tfhet.advice.host_use import HostUtilisation
from tfhet.advice.input_bound import Diagnosis, InputState, state_by_use, state_by_wait, waiting
from tfhet.advice.thresholds import BUSY_PCT, FULL_PCT, IDLE_PCT, UNEVEN_PCT
from tfhet.catalogue import Catalogue, Instance, InstanceGroup
from tfhet.errors import UsageError
from tfhet.record import Spread, median

PROFILING_MS = 500
"""Interval of SageMaker's profiler, in the request that switches it on."""


@dataclass(frozen=True)
class ObservedJob:
    """What is known of a training job."""

    name: str
    status: str
    """In the words of the platform."""
    is_over: bool
    groups: Sequence[InstanceGroup] = ()
    hosts: Sequence[HostUtilisation] = ()
    wait_pct: float | None = None
    """Median share of a step that ranks wait for data, 0 to 100; None without metric lines. Of a long log only the
    start and the end are read."""
    metric_lines: int = 0
    """Number of metric lines that `wait_pct` rests on."""
    has_step_timeline: bool = False
    has_profiler: bool = False
    output_path: str = ""
    """S3 prefix of the job's results."""


def of_training_job(job: ObservedJob, known: Catalogue) -> Diagnosis:
    """The diagnosis of a job: from how long its ranks waited, where that is known, else from what its hosts used."""
    next_run = tuple(_next_run(job))
    if job.wait_pct is None and all(use.is_empty for use in job.hosts):
        verdict = fact("nothing_kept" if job.is_over else "nothing_yet", job=job.name, status=job.status)
        return Diagnosis(InputState.UNKNOWN, verdict, next_run=next_run)
    training, data = _parts(job, known)
    seen = _Seen(_middle(training, "gpu_pct"), _middle(training, "cpu_pct"), _middle(data, "cpu_pct"), bool(data))
    state, verdict = _verdict(seen, job.wait_pct)
    evidence = [_waited(job), *_used(training, "training"), *_used(data, "data"), *_full(job.hosts)]
    levers = _levers(state, seen, job, training, known)
    return Diagnosis(state, verdict, tuple(evidence), tuple(levers), next_run)


@dataclass(frozen=True)
class _Seen:
    """Medians over hosts of their medians over time, in percent; None where that was not measured."""

    gpu: float | None
    cpu: float | None
    """CPUs of the hosts that train."""
    data_cpu: float | None
    has_data: bool

    @property
    def cpus_are_busy(self) -> bool:
        return max(self.cpu or 0.0, self.data_cpu or 0.0) >= BUSY_PCT


def _parts(job: ObservedJob, known: Catalogue) -> tuple[list[HostUtilisation], list[HostUtilisation]]:
    """The hosts that train, and the others: those with GPUs, where there are such; else all train."""

    def has_gpus(use: HostUtilisation) -> bool:
        kind = _instance(use.instance_type, known)
        return bool(kind and kind.gpus) or use.gpu_pct is not None

    training = [use for use in job.hosts if has_gpus(use)]
    if not training or len(job.groups) < 2:
        return list(job.hosts), []
    return training, [use for use in job.hosts if use.group and not has_gpus(use)]


def _verdict(seen: _Seen, wait_pct: float | None) -> tuple[InputState, Finding]:
    if wait_pct is not None:
        state = state_by_wait(wait_pct)
        gpus_rest = state is InputState.NOT and seen.gpu is not None and seen.gpu < IDLE_PCT
        reason = _reason(seen) if state is InputState.BOUND else fact("gpus_rest") if gpus_rest else None
        return state, waiting(wait_pct, reason)
    state = state_by_use(seen.gpu, seen.cpus_are_busy)
    if seen.gpu is None:
        return state, fact("no_gpu_metrics")
    if state is InputState.NOT:
        return state, fact("gpus_are_busy", gpu_pct=seen.gpu)
    kind = "gpus_are_half_busy" if state is InputState.HARDLY else "gpus_wait"
    return state, Finding(kind, state.severity, {"gpu_pct": seen.gpu}, _reason(seen))


def _reason(seen: _Seen) -> Finding:
    """What holds the input up."""
    if seen.has_data and seen.data_cpu is not None:
        if seen.data_cpu >= BUSY_PCT:
            return fact("data_cpus_used_up")
        return fact("training_cpus_used_up" if (seen.cpu or 0.0) >= BUSY_PCT else "no_cpus_used_up")
    if seen.cpu is None:
        return fact("cpus_unknown")
    return fact("cpus_used_up" if seen.cpu >= BUSY_PCT else "cpus_not_used_up")


def _levers(
    state: InputState, seen: _Seen, job: ObservedJob, training: Sequence[HostUtilisation], known: Catalogue
) -> Iterator[Finding]:
    if state is InputState.UNKNOWN:
        return
    if state is InputState.NOT:
        yield advice("shorten_step")
        gpu_memory = _middle(training, "gpu_memory_pct")
        if gpu_memory is not None and gpu_memory < IDLE_PCT:
            yield advice("larger_batch", gpu_memory_pct=gpu_memory)
        if seen.data_cpu is not None and seen.data_cpu < IDLE_PCT:
            yield advice("fewer_data_hosts", cpu_pct=seen.data_cpu)
        return
    if not seen.cpus_are_busy:
        yield advice("find_the_wait_by_tools")
    yield advice("profile_first")
    if not seen.cpus_are_busy:
        yield advice("more_cpus_last")
        return
    if not seen.has_data or (seen.cpu or 0.0) >= BUSY_PCT:
        for name in dict.fromkeys(use.instance_type for use in training if use.instance_type):
            yield _bigger(name, known)
    today = "+".join(f"{group.count}*{group.instance_type}" for group in job.groups)
    yield advice("more_data_hosts" if seen.has_data else "data_group", cluster=today)


def _bigger(name: str, known: Catalogue) -> Finding:
    """The next size of a type's family that has more CPUs beside as many GPUs."""
    today = _instance(name, known)
    if today is None:
        return advice("bigger_unknown", today=name)
    family = name.rpartition(".")[0]
    sizes = [
        one
        for full, one in known.instances.items()
        if full.rpartition(".")[0] == family and one.gpus == today.gpus and one.vcpus > today.vcpus
    ]
    if not sizes:
        return advice("bigger_none", family=family, gpus=today.gpus)
    best = min(sizes, key=lambda one: one.vcpus)
    facts: dict[str, Fact] = {"bigger": best.name, "vcpus": best.vcpus, "gpus": best.gpus}
    return advice("bigger", today=name, today_vcpus=today.vcpus, **facts)


def _instance(name: str, known: Catalogue) -> Instance | None:
    try:
        return known.instance(name)
    except UsageError:
        return None


def _middle(hosts: Sequence[HostUtilisation], field: str) -> float | None:
    found = [spread.median for use in hosts if (spread := getattr(use, field)) is not None]
    return median(found) if found else None


_RESOURCES = {"gpu_pct": "GPUs", "cpu_pct": "CPUs", "memory_pct": "memory", "gpu_memory_pct": "GPU memory"}


def _used(hosts: Sequence[HostUtilisation], role: str) -> Iterator[Finding]:
    """For each resource its median and spread over time, and the hosts that differ."""
    for field, resource in _RESOURCES.items():
        found: dict[str, Spread] = {use.host: s for use in hosts if (s := getattr(use, field)) is not None}
        if not found:
            continue
        whole = Spread.of([value for spread in found.values() for value in spread.samples])
        least, most = (pick(found, key=lambda host: found[host].median) for pick in (min, max))
        low, high = found[least].median, found[most].median
        uneven = fact("uneven", least_host=least, least_pct=low, most_host=most, most_pct=high)
        yield fact(
            "used",
            resource=resource,
            hosts=len(found),
            role=role,
            median_pct=whole.median,
            p10_pct=whole.p10,
            p90_pct=whole.p90,
        ).quoting(uneven if high - low >= UNEVEN_PCT else None)


def _waited(job: ObservedJob) -> Finding:
    if job.wait_pct is None:
        return fact("no_metric_lines")
    return fact("waited", wait_pct=job.wait_pct, lines=job.metric_lines)


def _full(hosts: Sequence[HostUtilisation]) -> Iterator[Finding]:
    for field, kind in (("memory_pct", "memory_nearly_full"), ("disk_pct", "disk_nearly_full")):
        full = {use.host: s.p90 for use in hosts if (s := getattr(use, field)) is not None and s.p90 >= FULL_PCT}
        if full:
            yield advice(kind, hosts=tuple(f"{host} {pct:.0f} %" for host, pct in full.items()))


def _next_run(job: ObservedJob) -> Iterator[Finding]:
    if job.wait_pct is None:
        yield advice("print_metric_lines")
    if not job.has_step_timeline:
        yield advice("switch_timeline_on")
    if not job.has_profiler:
        yield advice("switch_profiler_on", settings=str(profiler_settings(job.output_path)))


def profiler_settings(output_path: str) -> dict[str, Any]:
    """The part of CreateTrainingJob that switches SageMaker's profiler on."""
    place = output_path.rstrip("/") or "s3://BUCKET"
    return {"ProfilerConfig": {"S3OutputPath": f"{place}/profiler", "ProfilingIntervalInMilliseconds": PROFILING_MS}}
