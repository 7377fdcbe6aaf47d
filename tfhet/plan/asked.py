"""The plan that the options of `tfhet plan` ask for."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace

from tfhet import catalogue
from tfhet.errors import UsageError
from tfhet.plan.agreement import Agreement, as_measured, own_cluster
from tfhet.plan.candidate import PlanLimits, Space
from tfhet.plan.decision import Plan, make_plan
from tfhet.plan.host import ClusterShape, HostType
from tfhet.plan.measured_memory import memory_of, notes as memory_notes, with_stated
from tfhet.plan.measured_run import MeasuredRun
from tfhet.plan.memory import UNKNOWN, Amount
from tfhet.plan.workload import PipelineCost, Trainer, Workload
from tfhet.planes import CostFile, DataPlane
from tfhet.profile import Profile
from tfhet.record import Interval


def plan_of(
    args: argparse.Namespace, profile: Profile, plane: DataPlane, saves_us: float = 0.0, run: MeasuredRun | None = None
) -> Plan:
    """Returns the plan that the options ask for. plane: moves batches from data hosts. saves_us: CPU microseconds per
    example that cheaper stages may save, at most. Raises UsageError or DataError for unfit options and files."""
    known, speed = catalogue.default(args.instances), _speeds(args.vcpu_speed)

    def type_of(name: str) -> HostType:
        found = known.instance(name)
        return HostType.of(found, speed(found.name))

    cluster = args.cluster or (run.cluster if run else None)
    if not cluster:
        raise UsageError("where do you train today? give --run RUN_DIR, or --cluster ml.g5.xlarge")
    today = ClusterShape.parse(cluster, type_of)
    if run is not None and run.dnn_ranks and not args.cluster:  # it need not use all accelerators of a host
        today = replace(today, dnn=replace(today.dnn, gpus=run.dnn_ranks))
    workload = _workload(args, profile, plane, today, run)
    own = own_cluster(run, today, bool(args.cluster)) if run is not None else None
    agreement = None
    if run is not None and own is not None:
        workload, agreement = as_measured(run, workload, own)
    sizes = args.memory_gb, args.gpu_memory_gb, args.disk_gb, args.volume_gib
    need = with_stated(memory_of(run, today) if run else UNKNOWN, today, *sizes)
    of_disk = list[str]()
    if need.disk is None and args.copied_bytes:
        need = replace(need, disk=Amount.stated(args.copied_bytes))
        copied = "the channels that the job file copies (mode File), as large as their local directories"
        of_disk.append(f"assumed: a host's disk holds {copied}, and nothing else (--disk_gb)")
    workload = replace(workload, memory=need)
    ranks = [today.ranks]
    while args.deadline_h and 2 * ranks[-1] <= args.max_hosts * today.dnn.ranks:
        ranks.append(2 * ranks[-1])
    dnn = [each for each in _types(args.dnn or today.dnn.family, known, type_of) if each.gpu_kind == today.dnn.gpu_kind]
    dnn = [today.dnn if each.name == today.dnn.name else each for each in dnn]
    data = [each for each in _types(args.data, known, type_of) if not each.gpus]
    space = Space(dnn, data, ranks, args.max_hosts)
    names = [each.name for each in (*dnn, *data)]
    market = args.market or known.common_market(names, args.region) or catalogue.TRAINING
    usd = {name: price.usd_per_hour for name, price in known.prices(args.region, market).items()}
    limits = PlanLimits(args.examples, args.deadline_h, args.budget_usd)
    notes = [*_notes(args, workload, market, agreement), *memory_notes(need, today, run, bool(data)), *of_disk]
    if ranks[1:]:
        said = f"assumed: with more ranks a step takes as long as with {today.ranks}, allreduce included"
        notes.append(f"{said}; a short run with as many would say (--accelerator_ms)")
    if run is not None:
        stated = bool(args.accelerator_ms or args.accelerator_examples_per_s), args.trainer_cpu_ms is not None
        notes = [*run.notes(workload.trainer, step_given=stated[0], cpu_given=stated[1]), *notes]
    found = make_plan(
        workload, today, space, usd.get, plane, limits=limits, saves_us=saves_us, notes=notes, agreement=agreement
    )
    return found if run is None else replace(found, waited_pct=run.waited_pct)


def _workload(
    args: argparse.Namespace, profile: Profile, plane: DataPlane, today: ClusterShape, run: MeasuredRun | None
) -> Workload:
    batch_size = args.batch_size or (run and run.run.batch_size) or profile.costs[-1].examples
    if batch_size < 2 and not args.batch_size:
        raise UsageError("the profile does not say how large a batch is: give --batch_size")
    if args.accelerator_ms:
        step_ms = _range("accelerator_ms", args.accelerator_ms)
    elif args.accelerator_examples_per_s:
        rate = _range("accelerator_examples_per_s", args.accelerator_examples_per_s)
        step_ms = rate.inverse().times(1e3 * batch_size)
    elif run is not None:
        step_ms = run.accelerator_ms
    else:
        raise UsageError("how long is a step with data at hand? give --run RUN_DIR, or --accelerator_ms 80..92")
    pipeline, costs = PipelineCost.of(profile), plane.costs(CostFile.read(args.costs) if args.costs else None)
    cpu_ms = Interval.exact(args.trainer_cpu_ms or 0.0)
    if run is not None and args.trainer_cpu_ms is None:
        cpu_ms = run.own_cpu_ms(pipeline, costs, run.run.batch_size or batch_size)
    return Workload(
        pipeline,
        Trainer({today.dnn.gpu_kind or "": step_ms}, batch_size, cpu_ms),
        costs,
        source_bytes_per_s=args.source_mb_per_s and 1e6 * args.source_mb_per_s,
        only_cut=pipeline.smallest_cut if run is not None and run.is_script else None,
    )


def _range(name: str, text: str) -> Interval:
    """Returns the number in `86`, or the interval in `80..92` with its middle as the value."""
    try:
        ends = [float(word) for word in text.split("..")]
    except ValueError:
        ends = []
    if not 1 <= len(ends) <= 2 or not 0 < ends[0] <= ends[-1] < math.inf:
        raise UsageError(f"--{name} {text}: give a number above 0, or two like 80..92")
    return Interval((ends[0] + ends[-1]) / 2, ends[0], ends[-1])


def _speeds(text: str) -> Callable[[str], Interval]:
    """Returns the speed of a vCPU by type, of `ml.c5=1.1,ml.g5.xlarge=0.9`. The longest fitting name decides."""
    found = {}
    for word in text.split(",") if text else ():
        name, _, value = word.partition("=")
        found[name.strip()] = _range("vcpu_speed", value)

    def speed(name: str) -> Interval:
        fitting = [each for each in found if name == each or name.startswith(f"{each}.")]
        return found[max(fitting, key=len)] if fitting else Interval.exact(1.0)

    return speed


def _types(text: str, known: catalogue.Catalogue, type_of: Callable[[str], HostType]) -> list[HostType]:
    names: list[str] = []
    for word in (word.strip() for word in text.split(",")):
        family = [name for name in known.instances if name.rpartition(".")[0] in (word, f"ml.{word}")]
        names += family or [type_of(word).name]
    return [type_of(name) for name in dict.fromkeys(names)]


def _notes(args: argparse.Namespace, workload: Workload, market: str, agreement: Agreement | None) -> list[str]:
    """Returns the assumptions of the plan, and the source of each number that the run and the profile do not give."""
    costs = f"costs of moving batches (--calibrate): {workload.plane_costs.source}"
    notes = [costs, f"prices: {market}, {args.region}"]
    counted = workload.overhead
    if counted.value == 1.0:
        notes.append("assumed: a job takes no more CPU than its parts alone")
    else:
        by = counted.value**2 if agreement is None or agreement.counted is None else counted.value
        notes.append(
            f"measured: by its step, the run's input took {by:.3g} times the CPU of the profiled parts; assumed: "
            f"{counted.value:.3g} times ({counted.low:.3g} to {counted.high:.3g}) on any cluster"
        )
    if not args.vcpu_speed:
        notes.append("assumed: a vCPU of every type is as fast as one of the machine that was profiled (--vcpu_speed)")
    if workload.source_bytes_per_s is None:
        notes.append("assumed: the source is never the limit (--source_mb_per_s)")
    return notes
