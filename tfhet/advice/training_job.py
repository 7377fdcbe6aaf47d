"""Whether a training job waits for its input, and what to change first, by utilisation and metric lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfhet.advice.finding import Finding, counted
from tfhet.advice.input_bound import (
    BUSY_PCT,
    IDLE_PCT,
    SHORTEN_STEP,
    Diagnosis,
    InputState,
    in_order,
    state_by_use,
    state_by_wait,
    waiting,
)
from tfhet.catalogue import Catalogue, InstanceGroup
from tfhet.record import Spread, Waiting, median

FULL_PCT = 90.0
"""90th percentile over time from which memory or a disk is nearly full."""
UNEVEN_PCT = 20.0
"""Difference in percentage points from which hosts of a group are used unevenly."""


@dataclass(frozen=True)
class HostUtilisation:
    """The utilisation of one host in percent, 0 to 100; None if unknown."""

    host: str
    group: str = ""
    instance_type: str = ""
    cpu_pct: Spread | None = None
    """Utilisation of all CPUs; None if their number is unknown."""
    gpu_pct: Spread | None = None
    """Share of time in which kernels ran, over all GPUs."""
    memory_pct: Spread | None = None
    gpu_memory_pct: Spread | None = None
    disk_pct: Spread | None = None

    @property
    def is_empty(self) -> bool:
        return all(value is None for name, value in vars(self).items() if name.endswith("_pct"))


@dataclass(frozen=True)
class ObservedJob:
    name: str
    status: str
    """As the platform names it."""
    is_over: bool
    groups: Sequence[InstanceGroup] = ()
    hosts: Sequence[HostUtilisation] = ()
    wait_pct: float | None = None
    """Share of the steady state that ranks wait for data, 0 to 100; None without metric lines."""
    waits: Waiting | None = None
    metric_lines: int = 0
    has_step_timeline: bool = False


def of_training_job(job: ObservedJob, known: Catalogue) -> Diagnosis:
    """Returns the diagnosis of a job by the wait of its ranks, or if unknown by the utilisation of its hosts."""
    next_run = tuple(_next_run(job))
    if job.wait_pct is None and all(use.is_empty for use in job.hosts):
        return Diagnosis(InputState.UNKNOWN, _nothing(job), next_run=next_run)
    training, data = _parts(job, known)
    gpu_pct, cpu_pct, data_pct = _middle(training, "gpu_pct"), _middle(training, "cpu_pct"), _middle(data, "cpu_pct")
    cpus_are_busy = max(cpu_pct or 0.0, data_pct or 0.0) >= BUSY_PCT
    reason = _reason(cpu_pct, data_pct)
    if job.wait_pct is not None:
        state = state_by_wait(job.wait_pct)
        if state is InputState.NOT and gpu_pct is not None and gpu_pct < IDLE_PCT:
            reason = "the GPUs rest inside the step, which leaves them too little to do"
        elif state is not InputState.BOUND:
            reason = ""
        verdict = waiting(job.wait_pct, reason, job.waits)
        waited = f"waiting for data: {job.wait_pct:.1f} % of the step, of {counted(job.metric_lines, 'metric line')}"
        if job.waits and job.waits.mean_pct is not None:
            waited += f" (with epoch starts and stalls {job.waits.mean_pct:.1f} %, median {job.waits.median_pct:.1f} %)"
    else:
        state = state_by_use(gpu_pct, cpus_are_busy)
        verdict = _by_use(state, gpu_pct, reason)
        waited = "the log has no metric lines ([tfhet] step=...): how long ranks wait for data is not known"
    evidence = [Finding("waited", waited), *_used(training, "training"), *_used(data, "data"), *_full(job.hosts)]
    levers: Iterator[Finding] = iter(())
    if state is InputState.NOT:
        levers = _savings(_middle(training, "gpu_memory_pct"), data_pct)
    elif state is not InputState.UNKNOWN:
        grown = training if not data or (cpu_pct or 0.0) >= BUSY_PCT else []
        levers = _changes(job, grown, known, cpus_are_busy=cpus_are_busy, has_data=bool(data))
    return Diagnosis(state, verdict, tuple(evidence), tuple(in_order(state, [*levers], job.waits)), next_run)


def _nothing(job: ObservedJob) -> Finding:
    if job.is_over:
        why = "it ended within its first minutes, or so long ago that nothing is kept, or --region is another"
        nothing = f"CloudWatch has no utilisation of {job.name} ({job.status}), and its log no metric lines: {why}"
        return Finding("nothing_kept", nothing)
    ask = "CloudWatch counts whole minutes, and has the first some minutes after training began. Ask again then"
    return Finding("nothing_yet", f"there is nothing of {job.name} yet ({job.status}): {ask}")


def _parts(job: ObservedJob, known: Catalogue) -> tuple[list[HostUtilisation], list[HostUtilisation]]:
    """Returns training and data hosts: hosts with GPUs train; all train without GPUs, or in a single group."""

    def has_gpus(use: HostUtilisation) -> bool:
        kind = known.find(use.instance_type)
        return bool(kind and kind.gpus) or use.gpu_pct is not None

    training = [use for use in job.hosts if has_gpus(use)]
    if not training or len(job.groups) < 2:
        return list(job.hosts), []
    return training, [use for use in job.hosts if use.group and not has_gpus(use)]


def _by_use(state: InputState, gpu_pct: float | None, reason: str) -> Finding:
    if gpu_pct is None:
        unknown = "whether this job waits for its input is not known"
        return Finding("no_gpu_metrics", f"{unknown}: its log has no metric lines, and CloudWatch has nothing of GPUs")
    busy = f"{state.value}, as far as utilisation tells: the GPUs are busy {gpu_pct:.1f} % of the time"
    if state is InputState.NOT:
        return Finding("gpus_are_busy", busy)
    return Finding("gpus_are_half_busy" if state is InputState.HARDLY else "gpus_wait", f"{busy}, and {reason}")


def _reason(cpu_pct: float | None, data_pct: float | None) -> str:
    """Returns the cause of the wait. cpu_pct: CPU use of the training hosts. data_pct: of data hosts, if any."""
    if data_pct is not None:
        if data_pct >= BUSY_PCT:
            return "the CPUs of the data hosts are used up"
        if (cpu_pct or 0.0) >= BUSY_PCT:
            return "the CPUs of the training hosts are used up, and the data hosts have some left"
        return "no CPUs are used up: the data hosts wait for their source or the network, or a stage runs on one thread"
    if cpu_pct is None:
        return "how busy the CPUs are is not known"
    if cpu_pct >= BUSY_PCT:
        return "the CPUs are used up"
    return "the CPUs are not used up: a stage runs on one thread, or waits for the source or the network"


def _savings(gpu_memory_pct: float | None, data_pct: float | None) -> Iterator[Finding]:
    yield SHORTEN_STEP
    if gpu_memory_pct is not None and gpu_memory_pct < IDLE_PCT:
        yield Finding("larger_batch", f"a larger batch: {gpu_memory_pct:.1f} % of the GPUs' memory is used")
    if data_pct is not None and data_pct < IDLE_PCT:
        yield Finding("fewer_data_hosts", f"fewer data hosts: their CPUs are used to {data_pct:.1f} %")


def _changes(
    job: ObservedJob, grown: Sequence[HostUtilisation], known: Catalogue, *, cpus_are_busy: bool, has_data: bool
) -> Iterator[Finding]:
    """Yields changes for a job whose input does not keep up. grown: hosts for which a bigger size helps."""
    profile = "cheaper stages first, they cost nothing: `tfhet profile` says which cost what, and advises"
    if not cpus_are_busy:
        yield Finding(
            "find_the_wait",
            "find what the input waits for: `tfhet doctor --script SCRIPT` names stages on one thread and Python in the"
            " graph, `tfhet profile` what each costs; FastFile channels, more files and prefetching help a slow source",
        )
        yield Finding("profile_first", profile)
        yield Finding("more_cpus_last", "more CPUs, in whatever machine, only when those that are there are used up")
        return
    yield Finding("profile_first", profile)
    for name in dict.fromkeys(use.instance_type for use in grown if use.instance_type):
        yield Finding("bigger", _bigger(name, known))
    today = "+".join(f"{group.count}*{group.instance_type}" for group in job.groups)
    plan = f"`tfhet plan --profile FILE --cluster {today}` says how many"
    if has_data:
        yield Finding("more_data_hosts", f"more data hosts: {plan} pay, and what they save")
    else:
        yield Finding("data_group", f"then a data group: {plan} hosts pay, and what they save")


def _bigger(name: str, known: Catalogue) -> str:
    """Returns the next size of a family with more CPUs and as many GPUs, in words."""
    today = known.find(name)
    if today is None:
        return f"then a bigger size of the same family: {name} is no type of the catalogue, so which is not known"
    family, gpus = name.rpartition(".")[0], counted(today.gpus, "GPU")
    same = [one for full, one in known.instances.items() if full.rpartition(".")[0] == family]
    larger = [one for one in same if one.gpus == today.gpus and one.vcpus > today.vcpus]
    best = min(larger, key=lambda one: one.vcpus, default=None)
    if best is None:
        return f"a bigger size of the same family: {family} has none with more CPUs for {gpus}"
    return f"then a bigger size: {best.name} has {best.vcpus} vCPUs for {gpus}, {name} has {today.vcpus}"


def _spreads(hosts: Sequence[HostUtilisation], field: str) -> dict[str, Spread]:
    return {use.host: spread for use in hosts if (spread := getattr(use, field)) is not None}


def _middle(hosts: Sequence[HostUtilisation], field: str) -> float | None:
    """Returns the median over hosts of their medians over time, in percent; None if unknown."""
    found = [spread.median for spread in _spreads(hosts, field).values()]
    return median(found) if found else None


_RESOURCES = {"gpu_pct": "GPUs", "cpu_pct": "CPUs", "memory_pct": "memory", "gpu_memory_pct": "GPU memory"}


def _used(hosts: Sequence[HostUtilisation], role: str) -> Iterator[Finding]:
    """Yields median and spread over time of each resource, and uneven hosts."""
    for field, resource in _RESOURCES.items():
        found = _spreads(hosts, field)
        if not found:
            continue
        whole = Spread.of([value for spread in found.values() for value in spread.samples])
        medians = {host: spread.median for host, spread in found.items()}
        least, most = (pick(medians.items(), key=lambda each: each[1]) for pick in (min, max))
        is_uneven = most[1] - least[1] >= UNEVEN_PCT
        uneven = f"; uneven: {least[0]} {least[1]:.0f}, {most[0]} {most[1]:.0f}" if is_uneven else ""
        spread = f"{whole.median:.1f} % (p10 {whole.p10:.0f}, p90 {whole.p90:.0f}){uneven}"
        yield Finding("used", f"{resource} of {counted(len(found), f'{role} host')}: {spread}")


def _full(hosts: Sequence[HostUtilisation]) -> Iterator[Finding]:
    for field, resource, cause in (
        ("memory_pct", "memory", "shuffle buffers and caches"),
        ("disk_pct", "disk", "what is cached or written there"),
    ):
        full = [f"{host} {use.p90:.0f} %" for host, use in _spreads(hosts, field).items() if use.p90 >= FULL_PCT]
        if full:
            yield Finding(f"{resource}_nearly_full", f"nearly full, {resource}: {', '.join(full)}. Look at {cause}")


def _next_run(job: ObservedJob) -> Iterator[Finding]:
    if job.wait_pct is None:
        lines = "run the script with tfhet's launcher, whose trainer prints the metric line that has `wait_pct`"
        yield Finding("print_metric_lines", lines)
    if not job.has_step_timeline:
        shows = "where the time of each step goes, and what each host sends and receives: SageMaker publishes neither"
        yield Finding("switch_timeline_on", f"hyperparameter timeline=steps: {shows}")
