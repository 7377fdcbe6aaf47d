"""Rules that the parts of a job must keep together, and notes worth reading before it is paid for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from tfhet.catalogue import Catalogue
from tfhet.control import HYPERPARAMETER_VARIABLE, SECRET_VARIABLE
from tfhet.errors import Mistakes, UsageError
from tfhet.strategies import OWN as OWN_RANKS
from tfhet.submit.job import ALONE, CHECKPOINTS, DATA, DNN, FILE, PIPE, ROLES, SPARE, Job, JobGroup, Profiler
from tfhet.submit.request import DEFINITIONS, MOST_GIVEN, OWN
from tfhet.submit.tuning import GRID, MOST_RANGES, Tuning
from tfhet.submit.values import TUNED_CHARACTERS, VALUE_CHARACTERS

MOST_GROUPS = 5
_MOST = {"environment": 99, "tags": 50, "channels": 20}
"""Limits of SageMaker; one of its 100 variables is the secret's."""
_MOST_TUNED = 47
"""The same for the variables of a tuning job, which may have 48."""
_NOT_TUNED = "strategy", "train_script"
"""Hyperparameters by which a job file is checked and the ranks are started."""
_SET_BY_GROUPS = {"data_group": "role", "dnn_group": "role", "processes_per_host": "ranks"}
_OWN_DISKS = re.compile(r"ml\.(\w*d|g5|g6|p5|trn1)")
"""Instance types with disks of their own: a `d` in the family or g5, by `instance_supports_kms` of the SageMaker SDK 2;
the others by the list of instance store volumes in the guide of EC2."""
_SECRET_PARAMETER = HYPERPARAMETER_VARIABLE.removeprefix("SM_HP_").lower()


def check(job: Job, known: Catalogue) -> None:
    """Raises UsageError that names the file, the line and the field for parts that do not fit together."""
    with Mistakes(error for group in job.groups.values() for error in _check_group(job, group, known)):
        pass  # each rule takes those before it for granted
    with Mistakes(_check_groups(job)):
        parts = _check_channels, _check_storage, _check_parameters, _check_spot, _check_limits, _check_tuning
    with Mistakes(mistake for check_part in parts for mistake in check_part(job)):
        pass


def _check_limits(job: Job) -> Iterator[UsageError]:
    for part, most in _MOST.items():
        if (count := len(getattr(job, part))) > most:
            yield job.mistake(part, f"must have at most {most} entries; it has {count}")
    if SECRET_VARIABLE in job.environment:
        yield job.mistake(f"environment: {SECRET_VARIABLE}", "must be left out: each job gets a fresh one")


def _check_group(job: Job, group: JobGroup, known: Catalogue) -> Iterator[UsageError]:
    where, gpus = job.where(group), known.instance(group.instance_type).gpus
    if not group.role:
        yield job.mistake(where, f"must be given a role ({', '.join(ROLES)}): its name does not imply one")
    elif group.ranks and group.role != DNN:
        yield job.mistake(f"{where}: ranks", "must be left out: only the group that trains has ranks")
    elif gpus and group.ranks > gpus:
        yield job.mistake(f"{where}: ranks", f"must be at most {gpus}, one for each GPU of {group.instance_type}")


def _check_groups(job: Job) -> Iterator[UsageError]:
    if not 1 <= len(job.groups) <= MOST_GROUPS:
        yield job.mistake(
            "groups", f"must be 1 to {MOST_GROUPS} groups, SageMaker's limit; there are {len(job.groups)}"
        )
    for role, which, allowed in ((DNN, "exactly one", (1,)), (DATA, "at most one", (0, 1))):
        names = [group.name for group in job.groups.values() if group.role == role]
        if len(names) not in allowed:
            found = f"they are {', '.join(names)}" if names else "there is none"
            yield job.mistake("groups", f"must be {which} with the role {role}; {found}")
    if sum(group.role == DNN for group in job.groups.values()) == 1:
        yield from _check_strategy(job)
    for group in job.groups.values():
        where = f"{job.where(group)}: count"
        if group.role == SPARE and group.count:
            yield job.mistake(where, "must be 0: hosts of a spare group would do nothing, and be paid for")
        if group.role != SPARE and not group.count:
            yield job.mistake(where, f"must be at least 1: without hosts this is no {group.role} group")


def _check_strategy(job: Job) -> Iterator[UsageError]:
    try:
        strategy = job.strategy
        strategy.meeting(tuple(f"dnn-{number}" for number in range(job.ranked_hosts)), max(1, job.dnn.ranks), OWN_RANKS)
    except UsageError as error:
        yield job.mistake("hyperparameters: strategy", f"does not fit the groups: {error}")
        return
    wanted, given = {role.name for role in strategy.roles}, {group.role for group in job.groups.values()}
    for role in sorted(given - wanted - {DATA, DNN, SPARE}):
        yield job.mistake("groups", f"must be without the role {role}, of which {strategy.name} makes no use")
    for added in strategy.roles:
        names = [group.name for group in job.groups.values() if group.role == added.name]
        if names != [added.group]:
            yield job.mistake("groups", f"must have {added.group}, alone with its role, for {strategy.name}")


def _check_channels(job: Job) -> Iterator[UsageError]:
    known = list(job.groups)
    with_groups = [channel.name for channel in job.channels.values() if channel.groups]
    for channel in job.channels.values():
        where = f"channels: {channel.name}"
        if channel.groups and not job.grouped:
            yield job.mistake(f"{where}: groups", "must be left out: the job has no groups")
        for name in channel.groups:
            if name not in known:
                yield job.mistake(
                    f"{where}: groups", f"must be groups of this job ({', '.join(known)}); {name!r} is none"
                )
        if (system := channel.file_system) is None:
            continue
        if not job.vpc:
            why = "hosts reach a file system only through subnets and security groups"
            yield job.mistake(f"{where}: {system.kind}", f"must have a vpc beside it: {why}")
        if channel.mode != FILE:
            yield job.mistake(f"{where}: mode", f"must be {FILE}, or left out: a file system is mounted")
        if with_groups:
            why = f"all groups see the file system of {channel.name}, and SageMaker takes all with groups, or none"
            yield job.mistake(f"channels: {with_groups[0]}: groups", f"must be left out: {why}")
    without = [channel.name for channel in job.channels.values() if not channel.groups]
    if with_groups and without:
        why = f"{with_groups[0]} does, and SageMaker takes all with groups, or none"
        yield job.mistake(f"channels: {without[0]}", f"must say its groups: {why}")


def _check_storage(job: Job) -> Iterator[UsageError]:
    own = [
        group.instance_type for group in job.groups.values() if group.count and _OWN_DISKS.match(group.instance_type)
    ]
    if job.keys.volume and own:
        why = f"{own[0]} has disks of its own, which are encrypted anyway, and SageMaker takes no key for them"
        yield job.mistake("keys: volume", f"must be left out: {why}")
    if job.profiler and job.profiler.disabled and job.profiler != Profiler(disabled=True):
        yield job.mistake("profiler: disabled", "must be left out, or alone")


def _check_parameters(job: Job) -> Iterator[UsageError]:
    tuned = list(job.tuning.parameters()) if job.tuning else []
    count = len(job.hyperparameters) + len(job.pipeline) + len(tuned)
    if count > MOST_GIVEN:
        yield job.mistake(
            "hyperparameters", f"must be at most {MOST_GIVEN} together with pipeline and tuning; there are {count}"
        )
    seen: dict[str, str] = {}
    fixed = [(f"hyperparameters: {name}", name, (value,)) for name, value in job.hyperparameters.items()]
    for where, name, values in (*fixed, *tuned):
        plain, limit = name.replace("-", "_"), TUNED_CHARACTERS if where.startswith("tuning") else VALUE_CHARACTERS
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            yield job.mistake(where, "must be a finite number")
        characters = max(len(json.dumps(value)) for value in values)
        if characters > limit or any("\0" in str(value) for value in values):
            most = f"at most {limit} characters as JSON, without NUL"
            yield job.mistake(where, f"must be {most}; it has {characters}")
        if plain.startswith(OWN):
            yield job.mistake(where, f"must not begin with {OWN}: tfhet submit sets the toolkit's own hyperparameters")
        if plain == _SECRET_PARAMETER:
            yield job.mistake(where, "must be left out: each job gets a fresh secret, which no file holds")
        if plain in _SET_BY_GROUPS:
            yield job.mistake(where, f"must be left out: the groups say it, by {_SET_BY_GROUPS[plain]}")
        if plain in job.pipeline:
            yield job.mistake(where, "must be left out: the pipeline says it")
        if (other := seen.setdefault(plain, where)) != where:
            yield job.mistake(where, f"must be left out: it is the same as {other}")


def _check_tuning(job: Job) -> Iterator[UsageError]:
    if (tuning := job.tuning) is None:
        return
    own, objective = [definition.name for definition in DEFINITIONS], tuning.objective
    if objective.regex and objective.metric_name in own:
        yield job.mistake("tuning: objective", f"must have another metric_name: tfhet prints {objective.metric_name}")
    if not objective.regex and objective.metric_name not in own:
        yield job.mistake(
            "tuning: objective: metric_name",
            f"must be a metric that tfhet prints ({', '.join(own)}), or have a regex that finds it in the log",
        )
    names = [name for _, name, _ in tuning.parameters()]
    if not 1 <= len(names) <= MOST_RANGES:
        yield job.mistake("tuning", f"must have 1 to {MOST_RANGES} parameter ranges; it has {len(names)}")
    for where, name, _ in tuning.parameters():
        if name.replace("-", "_") in _NOT_TUNED:
            yield job.mistake(where, "must be left out: it has one value for all training jobs, in hyperparameters")
    yield from _check_number(job, tuning)
    if len(job.environment) > _MOST_TUNED:
        yield job.mistake("environment", f"must have at most {_MOST_TUNED} entries with tuning")
    if job.checkpoints:
        why = "its training jobs would share them, and continue from each other's"
        yield job.mistake("checkpoints", f"must be left out with tuning: {why}")
    if job.limits.keep_alive_s:
        why = "a tuning job keeps its hosts for its next training job anyway"
        yield job.mistake("limits: keep_alive_s", f"must be left out with tuning: {why}")
    if job.profiler:
        yield job.mistake("profiler", "must be left out: a tuning job has no ProfilerConfig")


def _check_number(job: Job, tuning: Tuning) -> Iterator[UsageError]:
    """Yields mistakes in the number of training jobs of a tuning job."""
    count, parallel, most = tuning.max_number_of_training_jobs, tuning.max_parallel_training_jobs, tuning.combinations
    if parallel > count:
        yield job.mistake("tuning: max_parallel_training_jobs", f"must be at most {count}, the number of all")
    where = "tuning: max_number_of_training_jobs"
    if tuning.strategy == GRID and (tuning.integer_parameter_ranges or tuning.continuous_parameter_ranges):
        yield job.mistake("tuning: strategy", f"must be another one: {GRID} has categorical_parameter_ranges only")
    elif tuning.strategy == GRID and count != most:
        yield job.mistake(where, f"must be {most}, the number of combinations; it is {count}")
    elif count > most:
        yield job.mistake(where, f"must be at most {most}, the number of combinations; it is {count}")


def _check_spot(job: Job) -> Iterator[UsageError]:
    if job.checkpoints and job.checkpoints.directory != CHECKPOINTS and "train_script" not in job.hyperparameters:
        yield job.mistake("checkpoints: directory", f"must be {CHECKPOINTS}, where the built-in trainer writes them")
    if not job.spot:
        return
    least, given = job.limits.max_run_s, job.spot.max_wait_s
    if given < least:
        yield job.mistake("spot: max_wait_s", f"must be at least max_run_s, which it contains, {least}; it is {given}")
    plain = {name.replace("-", "_"): value for name, value in job.hyperparameters.items()}
    why = "a retry would begin from nothing"
    if str(plain.get("resume", True)).lower() in ("false", "0", "no"):
        yield job.mistake("hyperparameters: resume", f"must be true with spot: {why}")
    if plain.get("checkpoint_every_epochs", 1) == 0 and not plain.get("checkpoint_every_steps", 0):
        wanted = "must be above 0 with spot (or checkpoint_every_steps)"
        yield job.mistake("hyperparameters: checkpoint_every_epochs", f"{wanted}: {why}")


def check_code(job: Job) -> None:
    """Raises UsageError, as `check` does, for a code directory that cannot be packed or would not start."""
    with Mistakes(_check_code(job)):
        pass


def _check_code(job: Job) -> Iterator[UsageError]:
    directory = job.code.directory
    if not directory.is_dir():
        yield job.mistake("code: directory", f"must be a directory; {directory} is none (tfhet package makes one)")
        return
    if not (directory / job.code.script).is_file():
        yield job.mistake("code: script", f"must be a file in {directory}; {job.code.script} is none")
    if (directory / "setup.py").exists():
        yield job.mistake(
            "code: directory", "must not hold a setup.py: it switches SageMaker's toolkit to package mode"
        )
    if (directory / "tfhet").is_dir() and list(directory.glob("tfhet-*.whl")):
        yield job.mistake("code: directory", "must not hold a folder tfhet beside the wheel, which it would hide")
    for name, script in job.hyperparameters.items():
        if name.replace("-", "_") == "train_script" and not (directory / str(script)).is_file():
            yield job.mistake(f"hyperparameters: {name}", f"must be a file in {directory}; {script} is none")


def notes(job: Job, known: Catalogue) -> Iterator[str]:
    """Yields a sentence about each thing that is allowed and may cost money or be a surprise."""
    for group in job.groups.values():
        store_gb, wanted = known.instance(group.instance_type).instance_store_gb, job.limits.volume_gib
        if store_gb is not None and group.count and wanted > store_gb:
            yield f"limits: volume_gib is {wanted}, but {group.instance_type} has its own disks of {store_gb:g} GB only"
    hetero = sum(group.count > 0 for group in job.groups.values()) > 1
    for channel in job.channels.values():
        if channel.groups and job.dnn.name not in channel.groups:
            yield f"channel {channel.name} is not seen by {job.dnn.name}: rank 0 lists the files that it trains on"
        if channel.mode == PIPE:
            yield f"channel {channel.name} comes as a pipe: the workers of tf.data service read files, not pipes"
    wishes = {"several groups": hetero, "tuning": job.tuning, "spot": job.spot, "keep_alive_s": job.limits.keep_alive_s}
    if len(together := [name for name, wished in wishes.items() if wished]) > 1:
        yield f"{' and '.join(together)}: SageMaker decides, when the job is created, whether it takes them together"
    is_horovod = job.strategy.name == "horovod"
    if job.ranks > 1 and job.start == ALONE and is_horovod:
        yield f"each launcher of {job.dnn.name} starts {job.dnn.ranks} ranks itself: the image needs Horovod with Gloo"
    if hetero and not job.vpc and job.ranks > 1:
        whose = "Horovod's ranks" if is_horovod else f"ranks of {job.strategy.name}"
        yield f"no vpc: {whose} know no authentication, so keep strangers out with a security group"
    if job.spot and job.tuning:
        yield "spot with tuning: no checkpoints, so a training job that is interrupted begins from nothing"
    if not job.checkpoints and not job.spot and not job.tuning:
        yield "no checkpoints: a job that ends early begins from nothing"
