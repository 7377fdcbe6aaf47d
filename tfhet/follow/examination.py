"""The diagnosis of a training job, from what SageMaker, its log and CloudWatch say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfhet import catalogue
from tfhet import clock as clocks
from tfhet.advice import Diagnosis, HostUtilisation, ObservedJob, of_training_job, sentence, sentences
from tfhet.follow.heard import Heard
from tfhet.follow.log_streams import LogStreams
from tfhet.follow.state import JobState
from tfhet.follow.utilisation import METRICS, measured
from tfhet.record import Spread, median
from tfhet.report import number
from tfhet.submit import Patient

SCHEMA = 1
COLUMNS = ("host", "group", "type", "CPU %", "GPU %", "memory %", "GPU memory %", "disk %")
LEAST_TRAINED_S = 180.0
"""Where metric lines span at least this, only their time is looked at: what comes before and after is no training."""


@dataclass(frozen=True)
class Examined:
    """A job with its diagnosis."""

    state: JobState
    hosts: Sequence[HostUtilisation]
    diagnosis: Diagnosis

    @property
    def rows(self) -> list[list[object]]:
        """A row for each host, in the order of COLUMNS: medians with the tenth and ninetieth percentile."""
        return [
            [
                use.host,
                use.group or None,
                use.instance_type or None,
                *(_in_words(getattr(use, each)) for each in METRICS),
            ]
            for use in self.hosts
        ]

    def to_json(self) -> dict[str, Any]:
        """The diagnosis in JSON values, with the raw samples."""
        found = self.diagnosis
        spreads = ({field: getattr(use, field) for field in METRICS} for use in self.hosts)
        samples = [{field: spread and spread.to_json() for field, spread in each.items()} for each in spreads]
        return {
            "schema": SCHEMA,
            "job": self.state.name,
            "status": self.state.status,
            "kind": found.state.value,
            "verdict": sentence(found.verdict),
            "evidence": sentences(found.evidence),
            "levers": sentences(found.levers),
            "next_run": sentences(found.next_run),
            "findings": [each.to_json() for each in (found.verdict, *found.evidence, *found.levers, *found.next_run)],
            "hosts": [
                {"host": use.host, "group": use.group, "instance_type": use.instance_type, **own}
                for use, own in zip(self.hosts, samples, strict=True)
            ],
        }


def _in_words(spread: Spread | None) -> str | None:
    return None if spread is None else f"{number(spread.median)} ({spread.p10:.0f} to {spread.p90:.0f})"


def examine(
    job_name: str,
    sagemaker: Any,
    logs: Any,
    cloudwatch: Any,
    *,
    known: catalogue.Catalogue | None = None,
    clock: clocks.Clock = clocks.SYSTEM,
) -> Examined:
    """Gathers and diagnoses. sagemaker, logs, cloudwatch: boto3's clients of these services.

    Raises UsageError for a job that is not there, or without the right to see it; NotReady when AWS does not answer.
    """
    aws, known = Patient(clock), known or catalogue.default()
    state = JobState.ask(job_name, sagemaker, aws)
    heard = Heard()
    for line in LogStreams(job_name, logs, aws).peek():
        heard.hear(line)
    now_s = clock.wall()
    hosts: list[HostUtilisation] = []
    if state.started_s is not None:
        groups = {host: said.group for host, said in heard.introduced.items()}
        hosts = measured(state, groups, cloudwatch, aws, known, _between_s(state, heard, now_s), now_s)
    lines = heard.steps[1:] or heard.steps  # the first has the warm-up in it
    job = ObservedJob(
        name=state.name,
        status=state.status if state.is_over else str(state).rstrip(". "),
        is_over=state.is_over,
        groups=state.groups,
        hosts=hosts,
        wait_pct=median([line.wait_pct for line in lines]) if lines else None,
        metric_lines=len(lines),
        has_step_timeline=state.hyperparameter("timeline") == "steps",
        has_profiler=bool(state.profiler) and not state.profiler.get("DisableProfiler"),
        output_path=state.output_path,
    )
    return Examined(state, hosts, of_training_job(job, known))


def _between_s(state: JobState, heard: Heard, now_s: float) -> tuple[float, float]:
    """Begin and end of the time whose utilisation counts, in seconds since 1970."""
    if heard.trained_ms is not None:
        first_s, last_s = (ms / 1000 for ms in heard.trained_ms)
        if last_s - first_s >= LEAST_TRAINED_S:
            return first_s, last_s
    begin_s = state.started_s or now_s
    return begin_s, max(state.ended_s or now_s, begin_s)
